"""The place of points along a Hilbert curve: near along the curve is near in space."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MOST_AXES, _KEY_BITS = 4, 60


def along_curve(points: Array) -> Array:
    """[n] int64, how far along a Hilbert curve each of the points [n, d] lies.

    The curve fills a cube around the points. Of more than four axes, the four principal ones of
    the points are taken.

    Source: Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707 (2004).
    """
    points = _principal_axes(points)
    axes = points.shape[1]
    if points.size == 0:
        return np.zeros(len(points), np.int64)
    bits = _KEY_BITS // axes
    x = _cells(points, bits)
    _turn(x, bits)
    key = np.zeros(points.shape[0], np.int64)
    for bit in range(bits - 1, -1, -1):  # the bits of all axes in turn
        for axis in range(axes):
            key = (key << 1) | ((x[axis] >> bit) & 1)
    return key


def _turn(x: Array, bits: int) -> None:
    """Cells of the cube, [d, n] -> their place along the curve, with the bits of all axes apart.

    Skilling's `AxestoTranspose`: undo the excess work of a Gray code, then encode it.
    """
    axes = x.shape[0]
    for level in range(bits - 1, 0, -1):
        low = (1 << level) - 1
        for axis in range(axes):
            is_set = (x[axis] >> level) & 1 == 1
            swapped = np.where(is_set, 0, (x[0] ^ x[axis]) & low)
            x[0] ^= np.where(is_set, low, swapped)
            x[axis] ^= swapped
    for axis in range(1, axes):
        x[axis] ^= x[axis - 1]
    flips = np.zeros_like(x[0])
    for level in range(bits - 1, 0, -1):
        flips ^= np.where((x[-1] >> level) & 1 == 1, (1 << level) - 1, 0)
    x ^= flips


def _cells(points: Array, bits: int) -> Array:
    """Points [n, d] -> the cell of each along every axis, [d, n], 0 to 2^bits - 1."""
    corner = points.min(0)
    extent = (points - corner).max()
    scale = (1 << bits) / extent if extent > 0 else 0.0
    return np.minimum(((points - corner) * scale).astype(np.int64), (1 << bits) - 1).T.copy()


def _principal_axes(points: Array) -> Array:
    if points.shape[1] <= _MOST_AXES:
        return points
    centred = points - points.mean(0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    return centred @ axes[:, : -_MOST_AXES - 1 : -1]
