"""Numerical range: types to compute in, and rows normalised without over- or underflow."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

P = ParamSpec("P")
T = TypeVar("T")

OFFSET = 1.5  # of a constant column, in mean lengths; chosen on digits and AG News


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


def unit_rows(x: Tensor) -> Tensor:
    """Scale rows [..., D] to length one, however long they are; a row of zeros stays zero.

    Example:
        >>> unit_rows(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    if x.size(-1) == 0:
        return x
    # By a power of two near the largest entry first, which is exact: no square over- or underflows.
    largest = x.detach().abs().amax(-1, keepdim=True)
    unit = torch.ldexp(torch.ones_like(largest), torch.frexp(largest).exponent - 1)
    return F.normalize(x / unit, dim=-1)


def normalize_rows(p: Tensor) -> Tensor:
    """Rows [..., C] >= 0 that sum to one; a row of zeros becomes 1 / C everywhere."""
    total = p.sum(-1, keepdim=True)
    return torch.where(total > 0, p / total.clamp(min=torch.finfo(p.dtype).tiny), 1 / p.size(-1))


def lengths(x: Tensor) -> Tensor:
    """Return the lengths [N, 1] of rows [N, D], of which no square over- or underflows."""
    return (x * unit_rows(x)).sum(-1, keepdim=True)


def affine_rows(x: Tensor, length: Tensor) -> Tensor:
    """Rows x [N, D] beside a constant of 1.5 times a length, of length one together: [N, D + 1].

    A linear classifier of them has any hyperplane of x as its boundary, not only those through 0.
    """
    return unit_rows(torch.cat([x, (OFFSET * length).expand(len(x), 1)], dim=1))


def center_and_normalize(x: Tensor, center: Tensor | None = None) -> Tensor:
    """Rows [N, D] less their centre [D], of length one; a row at the centre stays zero.

    The centre is their mean if omitted.
    """
    return unit_rows(x - (x.mean(0) if center is None else center))
