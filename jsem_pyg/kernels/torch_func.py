"""Helpers for code that may run inside a transform of `torch.func`."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch._C._functorch import TransformType
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

P = ParamSpec("P")
T = TypeVar("T")


def lasting(make: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function whose result is kept from call to call: it belongs to none of them.

    Tensors that are made in `torch.inference_mode` could not serve training later; and inside of
    `torch.func.grad` or `jvp` every new tensor is one of the transform's, even of plain ones.
    """

    @wraps(make)
    def outside(*args: P.args, **kwargs: P.kwargs) -> T:
        with torch.inference_mode(False):
            # Compiled code sees no transforms here, and could not leave them.
            if torch.compiler.is_compiling():
                return make(*args, **kwargs)
            with temporarily_clear_interpreter_stack():
                return make(*args, **kwargs)

    return outside


def is_transformed() -> bool:
    """Whether this runs inside of a transform of `torch.func`."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def check_forward_mode() -> None:
    """Raise a NotImplementedError in a forward-mode rule that runs inside of another.

    There torch disables the outer derivative, and would return zeros in its place.
    """
    stack = torch._C._functorch.get_interpreter_stack() or []
    if sum(each.key() == TransformType.Jvp for each in stack) > 1:
        raise NotImplementedError(
            "Expected no forward mode inside of forward mode (got a 'jvp' or 'jacfwd' in another). "
            "To fix this, take one of both derivatives in reverse mode, as torch.func.hessian "
            "does: with backend='reference', jacfwd(jacrev(...))."
        )
