"""Numbers with first derivatives in reverse mode; autograd refuses all others.

Derivatives of an optimum are taken at a plan that is held fixed. Autograd would differentiate what
it sees once more, and give a wrong number without a word.
"""

from typing import Any

from torch import Tensor
from torch.autograd.function import Function, once_differentiable


class _Entrance(Function):
    """The identity, whose gradient has no derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


def first_order(x: Tensor) -> Tensor:
    """Give a tensor a first derivative in whatever is computed from it, and no second."""
    if x.is_inference():  # which autograd could not save
        return x.clone()
    found: Tensor = _Entrance.apply(x)
    return found
