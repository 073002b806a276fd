"""Some edges at a time, in plain torch, on any device."""

from collections.abc import Iterator

import torch
from torch import Tensor

from . import reference

# How many numbers the pairs of rows of one chunk may hold.
_CHUNK_NUMBERS = 1 << 22


def dots(a: Tensor, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """See :func:`.reference.dots`."""
    out = torch.empty(i.size(0), dtype=a.dtype, device=a.device)
    for part in _chunks(i.size(0), a.size(1)):
        out[part] = reference.dots(a, b, i[part], j[part])
    return out


def sums(g: Tensor, z: Tensor, i: Tensor, j: Tensor, num_rows: int) -> Tensor:
    """See :func:`.reference.sums`."""
    out = z.new_zeros(num_rows, z.size(1))
    for part in _chunks(i.size(0), z.size(1)):
        out.index_add_(0, i[part], g[part].unsqueeze(-1) * z.index_select(0, j[part]))
    return out


def _chunks(num_edges: int, num_channels: int) -> Iterator[slice]:
    step = max(1, _CHUNK_NUMBERS // max(num_channels, 1))
    return (slice(begin, begin + step) for begin in range(0, num_edges, step))
