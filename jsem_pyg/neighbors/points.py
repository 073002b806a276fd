"""Points made ready for a neighbour search: checked, on the CPU, in the geometry of the metric.

Under both metrics what decides is a Euclidean distance: between the points, or between their
directions, because 1 - cos(u, v) = ||u - v||^2 / 2 for unit vectors u and v.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_choice, check_dense, check_finite, check_float
from .._precision import unit_rows
from .groups import SMALL, Groups
from .mapped_rows import MappedRows, check_array, check_block

METRICS = ("cosine", "l2")

# How many numbers one chunk of coordinates, or of their differences, may hold; and how many points
# are compared with all others at once.
_CHUNK_NUMBERS, _COMPARED_ROWS = 1 << 22, 64

_ROUNDING = 16  # units of the last place, of a sum of squares


class Points(NamedTuple):
    """N points and the geometry of their metric."""

    # [N, F] float32 or float64, scaled (l2) or of unit length (cosine)
    coordinates: Tensor | MappedRows
    center: Tensor  # [F] the mean of the coordinates
    metric: str
    scale: Tensor  # [N] under l2 the input is `coordinates * scale`, one number in each graph
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

    def centred(self, index: Tensor | slice = slice(None)) -> Tensor:
        """The points `index` around the mean of all, in float32, for searches."""
        # ||u - v||^2 is expanded in float32: what is common to all points would only cost digits.
        return (self.coordinates[index] - self.center).float().contiguous()

    def take(self, index: Tensor) -> "Points":
        """The points `index`, around their own mean."""
        coordinates = self.coordinates[index]
        return self._replace(
            coordinates=coordinates, center=coordinates.mean(0), scale=self.scale[index]
        )

    def distance(self, i: Tensor, j: Tensor, to: "Points | None" = None) -> Tensor:
        """The distances [M] from the points `i` [M] to the points `j` [M] (of `to`, or of these).

        They come from coordinate differences, so that near-duplicates keep their digits.
        """
        source, target = self.coordinates, (to or self).coordinates
        parts = [
            (source[a] - target[b]).square().sum(-1)
            for a, b in zip(i.split(self._chunk), j.split(self._chunk), strict=True)
        ]
        squared = torch.cat(parts) if parts else source.new_empty(0)
        return self.from_squared(squared, self.scale[i])

    def apart_from_all(self, row: Tensor, to: "Points") -> Iterator[tuple[Tensor, Tensor]]:
        """The points `row` [M], a few [Q] at a time, and their distances [Q, N] from all of `to`.

        By coordinate differences, in the type of the points and the unit of the coordinates.
        """
        assert isinstance(to.coordinates, Tensor)
        mode = "donot_use_mm_for_euclid_dist"
        for few in row.split(_COMPARED_ROWS):
            yield few, torch.cdist(self.coordinates[few], to.coordinates, compute_mode=mode)

    def search_rounding(self, row: Tensor, squared: Tensor, by_tree: bool = False) -> Tensor:
        """How much a search in float32 may round squared distances [M] from the points `row`.

        A search expands the square, and so rounds the squared lengths of both points, measured from
        the centre; the other point is no longer than this one and the way to it together. A tree
        takes differences of rounded points.
        """
        parts = [self.centred(few).norm(dim=1) for few in row.split(self._chunk)]
        length, way = torch.cat(parts).to(squared), squared.sqrt()
        unit = torch.finfo(torch.float32).eps
        size = length.square() + (length + way).square()
        if by_tree:
            size = length * (way + unit * length)
        return _ROUNDING * unit * size

    def is_copy(self, row: Tensor, squared: Tensor) -> Tensor:
        """True [M] where squared distances from the points `row` are those of equal ones.

        Directions were rounded; other coordinates are exact, and so is a difference between them.
        """
        if self.metric == "l2":
            return squared == 0
        parts = [self.coordinates[few].abs().amax(1) for few in row.split(self._chunk)]
        largest = torch.cat(parts)
        return squared <= (_ROUNDING * torch.finfo(squared.dtype).eps * largest).square()

    def from_squared(self, squared: Tensor, scale: Tensor) -> Tensor:
        """Distances from squared coordinate differences."""
        if self.metric == "cosine":
            return (squared / 2).clamp(max=2)
        return squared.sqrt() * scale

    def to_squared(self, distance: Tensor, scale: Tensor) -> Tensor:
        """The squared coordinate differences that distances come from."""
        return 2 * distance if self.metric == "cosine" else (distance / scale).square()


def prepare_points(x: Any, metric: str, groups: Groups | None = None) -> Points:
    """Check points [N, F] and bring them into the geometry of the metric, without their gradient.

    An array of NumPy's is read in blocks unless it is small.
    """
    check_choice("metric", metric, METRICS)
    check_matrix("x", x, arrays=True)
    if isinstance(x, np.ndarray):
        if x.shape[0] > SMALL:
            return _array_points(x, metric, groups)
        x = torch.from_numpy(np.array(x, dtype=x.dtype.newbyteorder("=")))
    check_finite("x", x)
    device, x = x.device, _plain(x)
    if metric == "cosine":
        coordinates, scale = _directions("x", x), x.new_ones(1).expand(x.size(0))
    else:
        scale = _scales(x, groups)
        coordinates = x / scale[:, None]
    return Points(coordinates, coordinates.mean(0), metric, scale, device)


def _array_points(x: NDArray[Any], metric: str, groups: Groups | None) -> Points:
    """Points that stay in an array: looked at once, block after block."""
    if groups is not None and groups.size.numel() > 1:
        raise ValueError(
            f"Expected 'batch' to be None for an array, whose points are one graph (got "
            f"{groups.size.numel()} graphs). To fix this, pass torch.from_numpy(x)."
        )
    rows = MappedRows(x, None if metric == "cosine" else 1.0)
    total, largest = torch.zeros(x.shape[1], dtype=torch.float64), torch.zeros(1, dtype=rows.dtype)
    for block in rows.blocks():
        values = rows.raw(block)
        check_block("x", values, block.start, allows_zero=metric == "l2")
        largest = torch.maximum(largest, values.abs().amax())
        total += (unit_rows(values) if metric == "cosine" else values).double().sum(0)
    scale = largest.new_ones(1) if metric == "cosine" else _power_of_two(largest)
    if metric == "l2":
        rows.scale = float(scale)
    center = (total / (x.shape[0] * float(scale))).to(rows.dtype)
    return Points(rows, center, metric, scale.expand(x.shape[0]), torch.device("cpu"))


def place_points(x_new: Any, fitted: Points) -> Points:
    """Check new points and bring them into the geometry that other points were brought into."""
    check_matrix("x_new", x_new)
    check_finite("x_new", x_new)
    num_features = fitted.coordinates.size(1)
    if x_new.size(1) != num_features:
        raise ValueError(
            f"Expected 'x_new' to have the {num_features} columns of the fitted points "
            f"(got {x_new.size(1)})."
        )
    device, x = x_new.device, _plain(x_new)
    if x.dtype != fitted.coordinates.dtype:
        raise TypeError(
            f"Expected 'x_new' to be {fitted.coordinates.dtype}, as the fitted points are in the "
            f"search (got {x_new.dtype}). To fix this, convert one or the other."
        )
    scale = fitted.scale[:1].expand(x.size(0))
    if fitted.metric == "cosine":
        return Points(_directions("x_new", x), fitted.center, "cosine", scale, device)
    coordinates = x / scale[:, None]
    if coordinates.numel() and not bool(coordinates.square().sum(1).float().isfinite().all()):
        raise ValueError(
            "Expected 'x_new' to be comparable with the fitted points, whose entries are below "
            f"{float(scale[0]):.3g} (got one of {float(x.abs().max()):.3g})."
        )
    return Points(coordinates, fitted.center, "l2", scale, device)


def check_matrix(name: str, x: Any, arrays: bool = False) -> None:
    """Raise unless `x` is a floating-point tensor of shape [N, F] with F > 0, or such an array."""
    if arrays and isinstance(x, np.ndarray):
        check_array(name, x)
        return
    check_float(name, x)
    check_dense(name, x)
    if x.dim() != 2 or x.size(1) == 0:
        raise ValueError(
            f"Expected '{name}' to have shape [N, F] with F > 0 (got {list(x.shape)})."
        )


def _plain(x: Tensor) -> Tensor:
    """`x` without its gradient, on the CPU, in float64 or else float32."""
    x = x.detach().cpu()
    return x if x.dtype == torch.float64 else x.float()


def _directions(name: str, x: Tensor) -> Tensor:
    zeros = int((x == 0).all(1).sum())
    if zeros:
        raise ValueError(
            f"Expected '{name}' without zero vectors, which have no direction for metric='cosine' "
            f"(got {zeros} of {x.size(0)} rows). To fix this, drop these rows or use metric='l2'."
        )
    return unit_rows(x)


def _scales(x: Tensor, groups: Groups | None) -> Tensor:
    """A power of two for each point, the same in a graph: dividing costs no digit.

    Then no square under- or overflows.
    """
    if x.size(0) == 0:
        return x.new_ones(0)
    row = x.abs().amax(1)
    scale = _power_of_two(row.amax().expand(1) if groups is None else groups.maximum(row))
    return scale.expand(x.size(0)) if groups is None else scale[groups.label]


def _power_of_two(largest: Tensor) -> Tensor:
    """The powers of two above the largest entries, as far as dividing by them is exact."""
    limit = 126 if largest.dtype == torch.float32 else 1000
    exponent = np.frexp(largest.numpy())[1].clip(-limit, limit)
    return torch.from_numpy(np.ldexp(np.ones_like(largest.numpy()), exponent))
