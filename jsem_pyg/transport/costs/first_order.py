"""Numbers with first derivatives only: a second one is refused.

The derivative of an optimum is taken at a plan that is held fixed. Autograd would differentiate
what it sees once more, and give a wrong number, or zero, without a word. Forward mode and
`torch.func` are refused by autograd itself.
"""

from typing import Any, NoReturn

from torch import Tensor
from torch.autograd import Function


class _Entrance(Function):
    """The identity, whose gradient is differentiable in name only."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, what: str) -> Tensor:
        ctx.save_for_backward(x)
        ctx.what = what
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Gradient.apply(grad, *ctx.saved_tensors, ctx.what), None


class _Gradient(Function):
    """A gradient that depends on x in the graph of autograd."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, x: Tensor, what: str) -> Tensor:
        ctx.what = what
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> NoReturn:
        raise NotImplementedError(
            f"Expected {ctx.what} to be differentiated once (got a second derivative). To fix "
            "this, take differences of first derivatives."
        )


def first_order(x: Tensor, what: str) -> Tensor:
    """Give a tensor a first derivative in whatever is computed from it, and no second.

    `what` names, in the error, what has no second derivative.
    """
    if x.is_inference():  # which autograd could not save
        return x.clone()
    found: Tensor = _Entrance.apply(x, what)
    return found
