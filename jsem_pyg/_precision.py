"""The types to compute in."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ._checks import has_tiny


def compute_dtype(x: Tensor) -> torch.dtype:
    """The type to compute in: that of x, or float32 for half precision."""
    return x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32


def widen(weight: Tensor) -> Tensor:
    """Weights in float64, where float32 has too few digits for them (on a CPU)."""
    return weight.double() if weight.device.type == "cpu" and has_tiny(weight) else weight


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """A region without autocast: a long recurrence would add up the errors of low precision."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def power_of_two(value: Tensor) -> Tensor:
    """The largest powers of two that are not above `value` > 0: to divide by them is exact.

    No gradient flows through them. (That of `torch.ldexp` itself is zero at negative exponents.)

    Example:
        >>> power_of_two(torch.tensor([0.3, 5.0]))
        tensor([0.2500, 4.0000])
    """
    value = value.detach()
    return torch.ldexp(torch.ones_like(value), torch.frexp(value).exponent - 1)


def unit_rows(x: Tensor) -> Tensor:
    """Rows [..., D] of length one, however long they are; a row of zeros stays zero.

    Example:
        >>> unit_rows(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    if x.size(-1) == 0:
        return x
    # By about the largest entry first, so that no square over- or underflows.
    return F.normalize(x / power_of_two(x.abs().amax(-1, keepdim=True)), dim=-1)
