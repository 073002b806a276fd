"""Points made ready for a neighbour search: checked, on the CPU, in the geometry of the metric.

Under both metrics what decides is a Euclidean distance: between the points, or between their
directions, because 1 - cos(u, v) = ||u - v||^2 / 2 for unit vectors u and v.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_choice, check_dense, check_float
from .._precision import unit_rows
from .mapped_rows import MappedRows

METRICS = ("cosine", "l2")

# The supported range (docs/scope.md) of the largest entry: float32 holds the squares.
_LEAST, _MOST = 1e-15, 1e15

# How many numbers one chunk of coordinates, or of their differences, may hold.
_CHUNK_NUMBERS = 1 << 22

_ARRAYS = ("float16", "float32", "float64")


class Points(NamedTuple):
    """N points and the geometry of their metric."""

    # [N, F] float32 or float64; of length one under the cosine
    coordinates: Tensor | MappedRows
    center: Tensor  # [F] the mean of the coordinates
    metric: str
    device: torch.device  # of the input: where links between components are found

    @property
    def num_points(self) -> int:
        """N."""
        return self.coordinates.size(0)

    @property
    def is_mapped(self) -> bool:
        """True if the points are on the disk, and not to be read all at once."""
        return isinstance(self.coordinates, MappedRows)

    @property
    def _chunk(self) -> int:
        """How many points are looked at together."""
        return max(1, _CHUNK_NUMBERS // self.coordinates.size(1))

    def blocks(self) -> Iterator[slice]:
        """Yield all points, in blocks that may be read at once: one, if they are in memory."""
        if isinstance(self.coordinates, MappedRows):
            return self.coordinates.blocks()
        return iter([slice(0, self.num_points)])

    def centred(self, index: Tensor | slice = slice(None)) -> Tensor:
        """Return the points `index` around the mean of all, in float32, for searches."""
        # ||u - v||^2 is expanded in float32: what is common to all points would only cost digits.
        return (self.coordinates[index] - self.center).float().contiguous()

    def chunks(self, index: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the points `index`, or all, as :meth:`centred` does, in blocks."""
        index = torch.arange(self.num_points) if index is None else index
        return map(self.centred, index.split(self._chunk))

    def take(self, index: Tensor) -> "Points":
        """Return the points `index`, around their own mean, in memory."""
        coordinates = self.coordinates[index]
        return self._replace(coordinates=coordinates, center=coordinates.mean(0))

    def distance(self, i: Tensor, j: Tensor, to: "Points | None" = None) -> Tensor:
        """Return the distances [M] from the points `i` [M] to the points `j` [M] (of `to`).

        They come from coordinate differences, so that near-duplicates keep their digits.
        """
        source, target = self.coordinates, (to or self).coordinates
        parts = [
            (source[a] - target[b]).square().sum(-1)
            for a, b in zip(i.split(self._chunk), j.split(self._chunk), strict=True)
        ]
        return self.from_squared(torch.cat(parts))

    def from_squared(self, squared: Tensor) -> Tensor:
        """Turn squared coordinate differences into distances of the metric."""
        return (squared / 2).clamp(max=2) if self.metric == "cosine" else squared.sqrt()


def prepare_points(x: Any, metric: str) -> Points:
    """Check points [N, F] and bring them into the geometry of the metric, without their gradient.

    An array of NumPy's stays where it is, and is looked at once, block after block.
    """
    check_choice("metric", metric, METRICS)
    _check_matrix("x", x)
    if isinstance(x, np.ndarray):
        return _array_points(x, metric)
    coordinates = _plain(x)
    largest = _largest_entry("x", coordinates, metric)
    _check_not_tiny(largest, metric)
    if metric == "cosine":
        coordinates = unit_rows(coordinates)
    return Points(coordinates, coordinates.mean(0), metric, x.device)


def _array_points(x: NDArray[Any], metric: str) -> Points:
    rows = MappedRows(x, unit=metric == "cosine")
    total, largest = torch.zeros(x.shape[1], dtype=torch.float64), 0.0
    for block in rows.blocks():
        values = rows.read(np.arange(block.start, block.stop))
        largest = max(largest, _largest_entry("x", values, metric, block.start))
        total += (unit_rows(values) if metric == "cosine" else values).double().sum(0)
    _check_not_tiny(largest, metric)
    center = (total / x.shape[0]).to(rows.dtype)
    return Points(rows, center, metric, torch.device("cpu"))


def place_points(x_new: Any, fitted: Points) -> Points:
    """Check new points and bring them into the geometry of other points, and into their type."""
    check_float("x_new", x_new)
    _check_matrix("x_new", x_new)
    num_features = fitted.coordinates.size(1)
    if x_new.size(1) != num_features:
        raise ValueError(
            f"Expected 'x_new' to have the {num_features} columns of the fitted points "
            f"(got {x_new.size(1)})."
        )
    coordinates = _plain(x_new).to(fitted.coordinates.dtype)
    _largest_entry("x_new", coordinates, fitted.metric)
    if fitted.metric == "cosine":
        coordinates = unit_rows(coordinates)
    return Points(coordinates, fitted.center, fitted.metric, x_new.device)


def _check_matrix(name: str, x: Any) -> None:
    """Raise unless `x` is a floating-point tensor or array of shape [N, F] with F > 0."""
    if not isinstance(x, np.ndarray):
        check_float(name, x)
        check_dense(name, x)
    elif x.dtype.name not in _ARRAYS:
        raise TypeError(f"Expected '{name}' to be one of {', '.join(_ARRAYS)} (got {x.dtype}).")
    if len(x.shape) != 2 or x.shape[1] == 0:
        raise ValueError(f"Expected '{name}' to have shape [N, F], F > 0 (got {list(x.shape)}).")


def _largest_entry(name: str, x: Tensor, metric: str, first_row: int = 0) -> float:
    """Return the largest absolute value; raise a ValueError that names the first row at fault."""
    if x.size(0) == 0:
        return 0.0
    largest = x.abs().amax(1)
    wrong = ~(largest <= _MOST)  # NaN, too
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        value = float(x[row][~(x[row].abs() <= _MOST)][0])
        what = "lie within 1e15 of zero" if math.isfinite(value) else "be finite"
        raise ValueError(f"Expected '{name}' to {what} (got {value} in row {first_row + row}).")
    if metric == "cosine" and bool((largest == 0).any()):
        zero = (largest == 0).nonzero()[:, 0]
        raise ValueError(
            f"Expected '{name}' without zero vectors, which have no direction for metric='cosine' "
            f"(got {zero.numel()} of {x.size(0)} rows, such as row {first_row + int(zero[0])}). To "
            "fix this, drop these rows or use metric='l2'."
        )
    return float(largest.max())


def _check_not_tiny(largest: float, metric: str) -> None:
    if metric == "l2" and 0 < largest < _LEAST:
        raise ValueError(
            f"Expected 'x' to have entries of {_LEAST:g} or more, whose squares float32 holds (got "
            f"{largest:.3g} at most). To fix this, multiply by a constant."
        )


def _plain(x: Tensor) -> Tensor:
    """Return `x` without its gradient, on the CPU, in float64 or else float32."""
    x = x.detach().cpu()
    return x if x.dtype == torch.float64 else x.float()
