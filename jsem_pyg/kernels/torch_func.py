"""Helpers for code that may run inside a transform of `torch.func`, a compiler, or autocast."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
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


def compute_dtype(x: Tensor | None) -> torch.dtype:
    """The type to compute in: that of x, or torch's default; float32 for half precision."""
    dtype = torch.get_default_dtype() if x is None else x.dtype
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Return a region without autocast: a recurrence would add up errors of low precision."""
    kind = device.type
    is_autocast = _has_autocast(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if is_autocast else nullcontext()


@torch.compiler.assume_constant_result  # torch.compile cannot trace it before torch 2.13
def _has_autocast(kind: str) -> bool:
    return torch.amp.is_autocast_available(kind)


def without_autocast(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function that computes in the types of what it is given, within autocast too."""

    @wraps(function)
    def outside(*args: P.args, **kwargs: P.kwargs) -> T:
        with ExitStack() as regions:
            for kind in filter(torch.is_autocast_enabled, ("cpu", "cuda", "mps", "xpu")):
                regions.enter_context(torch.autocast(kind, enabled=False))
            return function(*args, **kwargs)

    return outside


def check_type_of_layer(name: str, x: Tensor, lin: torch.nn.Module) -> None:
    """Raise a TypeError unless x is of the type of a linear map's weight; autocast converts it.

    Maps whose weight is made anew at each call, and replaced maps, are not checked.
    """
    weight = lin._parameters.get("weight")
    if weight is None or x.dtype == weight.dtype or not weight.is_floating_point():
        return
    if torch.is_autocast_enabled(x.device.type):
        return
    raise TypeError(
        f"Expected '{name}' to be {weight.dtype}, as the parameters of the layer are (got "
        f"{x.dtype}). To fix this, convert one to the other: {name}.to({weight.dtype}), or "
        f"layer.to({x.dtype})."
    )
