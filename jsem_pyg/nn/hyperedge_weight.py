"""A learned weight for every hyperedge, positive by construction."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter

from .._checks import check_between, check_positive_int
from .conductance import FLOOR


class HyperedgeWeight(Module):
    r"""Learned weights :math:`w_e = \epsilon + \log(1 + e^{u_e}) > 0`, all one at the start.

    The floor :math:`\epsilon` keeps the degree of every node, and so its gradients, away from zero.

    Args:
        num_hyperedges: E.
        floor: :math:`\epsilon`.

    Example:
        >>> HyperedgeWeight(3)().detach().round(decimals=4)
        tensor([1., 1., 1.])
    """

    def __init__(self, num_hyperedges: int, floor: float = FLOOR) -> None:
        super().__init__()
        check_positive_int("num_hyperedges", num_hyperedges)
        check_between("floor", floor, 0, 1)
        self.floor = floor
        self.raw = Parameter(torch.empty(num_hyperedges))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all weights to one."""
        torch.nn.init.constant_(self.raw, math.log(math.expm1(1.0 - self.floor)))

    def forward(self) -> Tensor:
        """Return the weights [E]."""
        return self.floor + F.softplus(self.raw)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.raw.numel()})"
