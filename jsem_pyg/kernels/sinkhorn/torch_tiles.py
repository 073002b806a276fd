"""Tiles of rows, in torch: any device, memory bounded whatever the size of the plan."""

import torch
from torch import Tensor

from ..._precision import full_precision
from .result import Rows, SinkhornPass, bounded, bounded_potential, close_rows

# Numbers of a tile. On the CPU it then stays in the cache; a GPU wants work for all its cores.
_TILE = {"cpu": 1 << 19}
_LARGE_TILE = 1 << 25


def row_tiles(num_rows: int, num_columns: int, device: torch.device) -> list[slice]:
    """Which rows of the plan are looked at together; none where there is nothing to look at."""
    step = max(1, _TILE.get(device.type, _LARGE_TILE) // max(1, num_columns))
    return [slice(start, start + step) for start in range(0, num_rows, step) if num_columns]


@torch.no_grad()
def sinkhorn_pass(
    u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor, damping: float = 1.0
) -> SinkhornPass:
    """See :func:`.reference.sinkhorn_pass`, without leading dimensions."""
    (num_rows, _), (num_columns, channels) = u.shape, y.shape
    f, peak = u.new_full((num_rows,), -torch.inf), u.new_zeros(num_rows)
    average = u.new_zeros(num_rows, channels)
    column_mass = u.new_zeros(num_columns, dtype=torch.float64)
    with full_precision(u.device):
        u, v, g = bounded(u), bounded(v), bounded_potential(g)
        for tile in row_tiles(num_rows, num_columns, u.device):
            share, rows = _rows_of_plan(u[tile], v, g, log2_p[tile], damping)
            f[tile], peak[tile] = rows.f, rows.peak
            average[tile] = (share @ y).mul_(rows.scale[:, None])
            column_mass += rows.scale @ share
    return SinkhornPass(f, column_mass, average, peak)


def _rows_of_plan(
    u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, damping: float
) -> tuple[Tensor, Rows]:
    """A tile's 2^(S - top), and its closed rows."""
    share = torch.addmm(g, u, v.T)
    top = share.amax(1)
    top = torch.where(top > -torch.inf, top, 0)
    share.sub_(top[:, None]).exp2_()
    return share, close_rows(top, share.sum(1), log2_p, damping)
