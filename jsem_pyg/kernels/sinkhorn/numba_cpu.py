"""Tiles in the cache on the CPU, with exponentials in vector registers.

Rows are cut into a number of parts that does not depend on the threads, and each part adds up its
column masses by itself: so the result is the same to the last bit whatever the number of threads.
"""

import numpy as np
import torch
from torch import Tensor

from ..threads import map_ranges
from .numba_fused import BLOCK, Packed, pack, run_tiles
from .result import SinkhornPass, check_problem
from .vectors import ROWS

_VECTOR = 64  # bytes: one register of AVX-512, or several smaller ones

# Entries. Less is over before a second thread has begun, in half a millisecond: a single part.
_MUCH_WORK = 1 << 20

_PARTS = 16  # of the rows


@torch.no_grad()
def sinkhorn_pass(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> SinkhornPass:
    """Compute :func:`.torch_rows.sinkhorn_pass`, without leading dimensions."""
    check_problem(u, v, g, log2_p, y)
    lanes = (0,) * (_VECTOR // u.itemsize)
    arrays = (each.detach().contiguous().numpy() for each in (u, v, g, log2_p, y))
    packed = Packed(*pack(*arrays, lanes))
    (tiles, _, _), (blocks, channels, _) = packed.u.shape, packed.y.shape
    f, peak = np.empty((2, tiles * ROWS))
    average = np.zeros((tiles, channels, ROWS))
    parts = min(tiles, _PARTS if u.size(0) * v.size(0) >= _MUCH_WORK else 1)
    column_mass = np.zeros((parts, blocks * BLOCK))

    def work(first: int, last: int) -> None:
        shares = np.empty(blocks * ROWS * BLOCK, packed.v.dtype)
        for part in range(first, last):
            run_tiles(
                *packed, part * tiles // parts, (part + 1) * tiles // parts,
                shares, f, peak, average.reshape(-1), column_mass[part], lanes,
            )  # fmt: skip

    map_ranges(work, range(parts + 1), min(torch.get_num_threads(), parts))
    columns = torch.from_numpy(column_mass.sum(0)[: v.size(0)])
    columns.masked_fill_(g == -torch.inf, 0)  # not quite, where other columns share the block
    by_rows = average.transpose(0, 2, 1).reshape(tiles * ROWS, channels)[: u.size(0), : y.size(1)]
    return SinkhornPass(
        torch.from_numpy(f[: u.size(0)]).to(u),
        columns,
        torch.from_numpy(by_rows).to(u),
        torch.from_numpy(peak[: u.size(0)]).to(u),
    )
