"""Helpers for code that may run inside a transform of `torch.func`, or of a compiler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

P = ParamSpec("P")
T = TypeVar("T")


def lasting(make: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function whose result is kept from call to call: it belongs to none of them.

    So it carries no gradient. Tensors that are made in `torch.inference_mode` could not serve
    training later, and inside of `torch.func.grad` every new tensor is one of the transform's.
    """

    @wraps(make)
    def outside(*args: P.args, **kwargs: P.kwargs) -> T:
        with torch.inference_mode(False), torch.no_grad():  # the first allows gradients again
            # Compiled code sees no transforms here, and could not leave them.
            if torch.compiler.is_compiling():
                return make(*args, **kwargs)
            with temporarily_clear_interpreter_stack():
                return make(*args, **kwargs)

    return outside


def eager(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function for which there is no registered op: compiled code calls it as it is.

    The graph of `torch.compile` breaks around it; `torch.export`, which cannot break, is refused.
    """

    @torch.compiler.disable
    @wraps(function)
    def outside(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():  # by torch.export, which traces this as well
            name = function.__qualname__.partition("._")[0].removesuffix(".forward")
            raise NotImplementedError(
                f"Expected no torch.export of this {name}, for which there is no op. "
                "To fix this, export heat_diffusion or a layer on graphs with times, without a "
                "filter, 'node_mass' and transforms of torch.func, hooks and fuse=False."
            )
        return function(*args, **kwargs)

    return outside


@contextmanager
def outside_inference() -> Iterator[None]:
    """Allow derivatives within `torch.inference_mode`, in a region or a decorated function."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


def is_transformed() -> bool:
    """Return True inside of a transform of `torch.func`."""
    return torch._C._are_functorch_transforms_active()  # which compilers know
