"""Helpers for code that may run inside a transform of `torch.func`, or of a compiler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

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
    """A region, or a decorated function, that can differentiate within `torch.inference_mode`."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


class LightFunction(torch.autograd.Function):
    """A Function with `setup_context` and a cheap way to call it outside of `torch.func`.

    In `apply`, torch binds the default arguments of `forward` by its signature at every call, which
    takes as long as ten small operations. These Functions have no default arguments.
    """

    @classmethod
    def call(cls, *args: Any) -> Any:
        """Return the result of `apply`."""
        if torch.compiler.is_compiling() or is_transformed():
            return cls.apply(*args)
        return super(torch.autograd.Function, cls).apply(*args)  # type: ignore[misc]


def is_transformed() -> bool:
    """True if this runs inside of a transform of `torch.func`."""
    return torch._C._are_functorch_transforms_active()  # which compilers know


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
