"""A conductance that is as high as the two ends of an edge agree."""

import torch
from torch import Tensor

from .._checks import check_between, check_positive
from .._precision import normalize_rows
from ..kernels.edge_dot import edge_dot
from .node_conductance import NodeConductance

AGREEMENT_FLOOR = 0.05


class AgreementConductance(NodeConductance):
    r"""The conductance of an edge is the agreement of the class probabilities of its ends.

    .. math::
        h_{ij} = \epsilon + (1 - \epsilon) \sum_c \hat p_{ic} \, \hat p_{jc}, \qquad
        \hat p_{ic} = p_{ic}^{\gamma} / \sum_{c'} p_{ic'}^{\gamma}

    The sum is the chance that the classes of both ends are the same, if each is drawn from its
    sharpened probabilities.

    Args:
        sharpness: :math:`\gamma > 0`; above one, uncertain probabilities count as more certain.
        floor: :math:`\epsilon` in (0, 1): no edge closes wholly.

    Shapes:
        - **input:** probabilities of the nodes :math:`(|\mathcal{V}|, C)`, >= 0, not all zero;
          edge indices :math:`(2, |\mathcal{E}|)`
        - **output:** conductance :math:`(|\mathcal{E}|)`

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
        >>> AgreementConductance()(p, torch.tensor([[0, 1], [1, 2]]))
        tensor([0.9771, 0.0729])
    """

    def __init__(self, sharpness: float = 2.0, floor: float = AGREEMENT_FLOOR) -> None:
        super().__init__()
        check_positive("sharpness", sharpness)
        check_between("floor", floor, 0, 1)
        self.sharpness = sharpness
        self.floor = floor

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute the conductance [E] of edges; memory holds no pair of rows for every edge."""
        self._check(x, edge_index)
        tiny = torch.finfo(x.dtype).tiny
        # By the largest of a row first, so that no power of it under- or overflows; it cancels.
        relative = x / x.detach().amax(-1, keepdim=True).clamp(min=tiny)
        # Not of zero, where powers below one have no gradient.
        sharp = normalize_rows(relative.clamp(min=tiny).pow(self.sharpness))
        return self.floor + (1 - self.floor) * edge_dot(sharp, sharp, *edge_index)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(sharpness={self.sharpness}, floor={self.floor})"
