"""What is kept from call to call belongs to none: to no inference mode, and to no transform."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

P = ParamSpec("P")
T = TypeVar("T")


def lasting(make: Callable[P, T]) -> Callable[P, T]:
    """Let a function, whose result is kept, run as if nobody had called it from somewhere.

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
