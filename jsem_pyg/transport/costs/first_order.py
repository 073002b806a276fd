"""Numbers with first derivatives only: a second one is refused.

Where a derivative is not that of a graph of operations, as that of an optimum, autograd would
differentiate what it sees once more, and give another number, or zero, without a word.
"""

from typing import Any, NoReturn

from torch import Tensor
from torch.autograd import Function

from ...kernels.torch_func import has_forward_derivative


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
    """A gradient, which depends on x in the graph of autograd."""

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


def check_reverse_mode(what: str, *inputs: Tensor | None) -> None:
    """Raise a NotImplementedError if an input has a derivative in forward mode or of torch.func."""
    if any(each is not None and has_forward_derivative(each) for each in inputs):
        raise NotImplementedError(
            f"Expected {what} to be differentiated by backward() or torch.autograd.grad (got a "
            "tensor of torch.func or of forward mode, which it has no derivative for)."
        )


def first_order(x: Tensor, what: str) -> Tensor:
    """The same numbers, with a first derivative in whatever is computed from them, and no second.

    Only in reverse mode: others are refused. `what` names, in the errors, what has no others.
    """
    check_reverse_mode(what, x)
    if x.is_inference():  # which the derivatives of the optimum itself could not save
        return x.clone()
    return _Entrance.apply(x, what) if x.requires_grad else x
