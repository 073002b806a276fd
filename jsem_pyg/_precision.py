"""The types to compute in."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def compute_dtype(x: Tensor) -> torch.dtype:
    """The type to compute in: that of x, or float32 for half precision."""
    return x.dtype if x.dtype in (torch.float32, torch.float64) else torch.float32


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """A region without autocast: a long recurrence would add up the errors of low precision."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
