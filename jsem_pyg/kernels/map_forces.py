"""The forces of UMAP between the points of a map, compiled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .compiled import compiled

Array = NDArray[Any]

# At a distance d points are joined with probability 1 / (1 + A d^(2 B)): UMAP's own fit.
_A, _B, _ONE, _TWO, _FARTHEST, _LEAST = np.array([1.577, 0.8951, 1, 2, 4, 1e-3], np.float32)
_MIX, _FACTOR, _HALF = np.array([0x9E3779B97F4A7C15, 6364136223846793005, 32], np.uint64)


@compiled(nogil=True, fastmath=True)
def move_points(
    rowptr: Array, col: Array, share: Array, place: Array, moved: Array,
    key: int, epoch: int, rate: float, first: int, last: int,
) -> None:  # fmt: skip
    """Move points [first, last) of a map [N, 2] by one epoch; others stay where they are.

    An edge counts in its share [nnz] of all epochs. It pulls its point, from which two or three
    others, drawn at random for the key, are pushed off.
    """
    for i in range(first, last):
        x, y = place[i, 0], place[i, 1]
        state = np.uint64(key) ^ (np.uint64(i) * _MIX)
        state = (state ^ (state >> _HALF)) * _MIX
        for slot in range(rowptr[i], rowptr[i + 1]):
            if int((epoch + 1) * share[slot]) == int(epoch * share[slot]):
                continue
            dx, dy = x - place[col[slot], 0], y - place[col[slot], 1]
            square = dx * dx + dy * dy
            to_x = to_y = np.float32(0)
            if square > 0:
                power = square**_B
                force = -_TWO * _A * _B * power / (square * (_ONE + _A * power))
                to_x = min(max(force * dx, -_FARTHEST), _FARTHEST)
                to_y = min(max(force * dy, -_FARTHEST), _FARTHEST)
            for _ in range(2 + ((slot + epoch) & 1)):
                state = state * _FACTOR + _MIX
                j = np.int64(((state >> _HALF) * np.uint64(len(place))) >> _HALF)
                if j != i:
                    dx, dy = x - place[j, 0], y - place[j, 1]
                    square = dx * dx + dy * dy
                    force = _TWO * _B / ((_LEAST + square) * (_ONE + _A * square**_B))
                    to_x += min(max(force * dx, -_FARTHEST), _FARTHEST)
                    to_y += min(max(force * dy, -_FARTHEST), _FARTHEST)
            x, y = x + rate * to_x, y + rate * to_y
        moved[i, 0], moved[i, 1] = x, y
