"""Signals and diffusion times: checked, and brought into one shape."""

import math
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from .._checks import as_float, check_float, list_of, real_numbers

LONGEST = 1e4  # times in units of the fastest rate


class Times(NamedTuple):
    """Diffusion times that have passed their checks."""

    value: Tensor  # [S, 1 or D], float64, on the CPU, where the Bessel functions are computed
    longest: float  # zero if there are no times, or in compiled code, which has no values

    def reach(self, fastest: float) -> float:
        """The longest time in units of a rate."""
        return self.longest * fastest

    def by_channel(self, num_channels: int) -> "Times":
        """Turn S scales of C channels into one scale of S C channels, scale by scale."""
        return self._replace(value=self.value.reshape(-1).repeat_interleave(num_channels)[None])


def read_times(t: float | Tensor, x: Tensor, name: str = "t") -> Times:
    """Check diffusion times for signals x, and bring them to the shape [S, 1 or D]."""
    times = shape_times(t, x, name)
    numbers = list_of(times)
    if not all(0 <= each < math.inf for each in numbers):
        width = times.size(1)
        rows = [numbers[i : i + width] for i in range(0, len(numbers), width)]
        several = numbers if width == 1 else rows
        given = numbers[0] if is_single(t) else several
        raise ValueError(f"Expected '{name}' to be finite and >= 0 (got {given}).")
    return Times(times, max(numbers, default=0.0))


def shape_times(t: float | Tensor, x: Tensor, name: str = "t") -> Tensor:
    """Times of the shape [S, 1 or D]. Their values are not checked: compiled code cannot."""
    if isinstance(t, (float, int)) and not isinstance(t, bool):  # torch 2.8 traces no float | int
        # Not `as_tensor`, for which torch.compile would make new code for every number.
        t = t if isinstance(t, float) or torch.compiler.is_compiling() else as_float(t)
        return (torch.zeros((), dtype=torch.float64, device="cpu") + t).reshape(1, 1)
    times = real_numbers(name, t)
    is_empty = times.dim() > 0 and times.size(0) == 0
    is_other_width = times.dim() == 2 and times.size(1) != 1 and times.size(1) != x.size(-1)
    if is_empty or is_other_width or times.dim() > 2:
        raise ValueError(
            f"Expected '{name}' to be a number, [S] scales or [S, D] scales and channels, with "
            f"D = {x.size(-1)} (got shape {list(times.shape)})."
        )
    times = times.to("cpu", torch.float64)
    return times if times.dim() == 2 else times.reshape(-1, 1)


def check_reach(reach: float, fastest: float) -> None:
    """Raise a ValueError if the longest time, in units of the fastest rate, is out of range."""
    if not reach <= LONGEST * (1 + 1e-6):  # by rounding; nor NaN
        raise ValueError(
            f"Expected 't' to be at most {LONGEST / fastest:.3g}, {LONGEST:.0e} in units of the "
            f"fastest rate of the Laplacian, which is {fastest:.3g} (got {reach / fastest:.3g}). "
            "To fix this, take a shorter time, or the limit: the (weighted) mean of 'x' over each "
            "connected component."
        )


def check_single_time(t: float | Tensor) -> None:
    """Raise a ValueError where `t` holds several times."""
    shape = real_numbers("t", t).shape
    if len(shape) > 0:
        raise ValueError(
            f"Expected 't' to be a number or a 0-d tensor, a single time (got {list(shape)})."
        )


def squeeze_scales(out: Tensor, t: float | Tensor) -> Tensor:
    """[..., S, N, D] -> [..., N, D] where `t` is a single time without scales."""
    return out.squeeze(-3) if is_single(t) else out


def is_single(t: float | Tensor) -> bool:
    """True if `t` is one time, without scales."""
    # A number first: compiled code cannot ask it for attributes, as it can arrays and tensors.
    return isinstance(t, Real) or getattr(t, "ndim", None) == 0


def check_signal(x: Tensor, name: str = "x", may_be_sparse: bool = False) -> None:
    """Raise unless a signal is a dense floating-point tensor of shape [..., N, D]."""
    if torch.jit.is_tracing():
        raise NotImplementedError(
            "Expected no torch.jit.trace, in which the graph would become a constant. To fix this, "
            "use torch.export, which takes the layers on graphs."
        )
    check_float(name, x)
    if x.layout != torch.strided and not may_be_sparse:
        raise ValueError(
            f"Expected '{name}' to be dense, since heat soon fills every row (got {x.layout}). To "
            f"fix this, pass {name}.to_dense(), or map the features to fewer channels first."
        )
    if x.dim() < 2:
        raise ValueError(f"Expected '{name}' to have shape [..., N, D] (got {list(x.shape)}).")
