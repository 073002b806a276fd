"""Tiles of rows, in torch: any device, memory bounded whatever the size of the plan."""

import torch
from torch import Tensor

from ..._precision import full_precision
from .result import Rows, SinkhornPass, bounded, bounded_potential, check_problem, close_rows

# Numbers of a tile. On the CPU it then stays in the cache; a GPU wants work for all its cores.
_TILE = {"cpu": 1 << 19}
_LARGE_TILE = 1 << 25

# Some products of matrices add up one term after the other: longer sums than this in float32 would
# lose their digits, so parts of them are added up in float64.
_LONGEST = 1 << 10


def _row_tiles(num_rows: int, num_columns: int, device: torch.device) -> list[slice]:
    """Divide the rows into blocks that are computed together; none if the plan is empty."""
    step = _TILE.get(device.type, _LARGE_TILE) // max(1, num_columns)
    step = min(max(1, step), _LONGEST)
    return [slice(start, start + step) for start in range(0, num_rows, step) if num_columns]


def product(a: Tensor, b: Tensor) -> Tensor:
    """Compute A @ b, in the type of both, whatever the length of the sums."""
    if b.size(0) <= _LONGEST or b.dtype == torch.float64:
        return a @ b
    total = a.new_zeros(a.size(0), b.size(1), dtype=torch.float64)
    for left, right in zip(a.split(_LONGEST, 1), b.split(_LONGEST), strict=True):
        total += left @ right
    return total.to(b)


@torch.no_grad()
def sinkhorn_pass(
    u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor, damping: float = 1.0
) -> SinkhornPass:
    """Compute :func:`.reference.sinkhorn_pass`, without leading dimensions."""
    check_problem(u, v, g, log2_p, y)
    (num_rows, _), (num_columns, channels) = u.shape, y.shape
    f, peak = u.new_full((num_rows,), -torch.inf), u.new_zeros(num_rows)
    average = u.new_zeros(num_rows, channels)
    column_mass = u.new_zeros(num_columns, dtype=torch.float64)
    with full_precision(u.device):
        u, v, g = bounded(u), bounded(v), bounded_potential(g)
        for tile in _row_tiles(num_rows, num_columns, u.device):
            share, rows = _rows_of_plan(u[tile], v, g, log2_p[tile], damping)
            f[tile], peak[tile] = rows.f, rows.peak
            average[tile] = product(share, y).mul_(rows.scale[:, None])
            column_mass += rows.scale @ share
    return SinkhornPass(f, column_mass, average, peak)


def _rows_of_plan(
    u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, damping: float
) -> tuple[Tensor, Rows]:
    """Compute a tile's 2^(S - top), and its closed rows."""
    share = torch.addmm(g, u, v.T)
    top = share.amax(1)
    top = torch.where(top > -torch.inf, top, 0)
    share.sub_(top[:, None]).exp2_()
    return share, close_rows(top, share.sum(1), log2_p, damping)
