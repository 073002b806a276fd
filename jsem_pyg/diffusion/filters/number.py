"""A number that a filter is made of, given or learned."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from ..._checks import check_positive, real_numbers


class Number(torch.nn.Module):
    r"""A number p in (0, h] that stays there while it is learned, if it is a `Parameter`.

    .. math:: p = p_0 / (p_0 / h + (1 - p_0 / h) \, e^{-u})

    moves the logit of p / h (with h infinite, the logarithm of p) by u, which starts at zero.
    """

    start: Tensor
    raw: Tensor | None

    def __init__(self, name: str, given: Any, high: float = math.inf) -> None:
        super().__init__()
        self.name, self.high, self.raw = name, high, None
        tensor = real_numbers(name, given)
        if tensor.dim() != 0 or not tensor.is_floating_point():
            raise ValueError(f"Expected '{name}' to be a single number (got {list(tensor.shape)}).")
        value = self._check(tensor)
        if not isinstance(given, Parameter):
            self.start = tensor
            return
        if value == high:
            raise ValueError(f"Expected '{name}' to be below {high:g} where it is learned.")
        self.raw = Parameter(torch.zeros_like(given), given.requires_grad)
        # Saved with u, which means nothing without it.
        self.register_buffer("start", given.detach().clone())

    def forward(self) -> Tensor:
        """Return p, 0-d; of what is learned in float64, on the CPU."""
        p = self.start
        if self.raw is not None:
            start, u = (each.to("cpu", torch.float64) for each in (self.start, self.raw))
            share = start / self.high
            p = start / (share + (1 - share) * torch.exp(-u))
        self._check(p)
        return p

    def _check(self, p: Tensor) -> float:
        value = float(p.detach())
        check_positive(self.name, value)
        if value > self.high:
            raise ValueError(f"Expected '{self.name}' to be in (0, {self.high:g}] (got {value}).")
        return value
