"""Points made ready for a neighbour search: checked, on the CPU, in the geometry of the metric.

Under both metrics what decides is a Euclidean distance: between the points, or between their
directions, because 1 - cos(u, v) = ||u - v||^2 / 2 for unit vectors u and v.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._checks import check_choice, check_finite, check_float

METRICS = ("cosine", "l2")

# How many numbers one chunk of coordinate differences may hold.
_CHUNK_NUMBERS = 1 << 22


class Points(NamedTuple):
    """N points, of which distances are asked."""

    coordinates: Tensor  # [N, F] float32 or float64, scaled (l2) or of unit length (cosine)
    search: Tensor  # [N, F] float32, the same points around their mean
    metric: str
    scale: float  # of the coordinates: the input is `coordinates * scale` under l2

    def distance(self, i: Tensor, j: Tensor) -> Tensor:
        """The distances [M] between the points `i` [M] and `j` [M].

        They come from coordinate differences, so that near-duplicates keep their digits.
        """
        step = max(1, _CHUNK_NUMBERS // self.coordinates.size(1))
        parts = [
            (self.coordinates[a] - self.coordinates[b]).square().sum(-1)
            for a, b in zip(i.split(step), j.split(step), strict=True)
        ]
        squared = torch.cat(parts) if parts else self.coordinates.new_empty(0)
        if self.metric == "cosine":
            return (squared / 2).clamp(max=2)
        return squared.sqrt() * self.scale


def prepare_points(x: Any, metric: str) -> Points:
    """Check the points and bring them into the geometry of the metric.

    Args:
        x: [N, F] floating-point tensor of any precision and device; its gradient is not followed.
        metric: "cosine" (1 - cos) or "l2" (Euclidean).

    Raises:
        TypeError: if `x` is not a floating-point tensor.
        ValueError: if `x` is not of shape [N, F] with F > 0, is not finite, or holds zero vectors
            under the cosine metric.
    """
    check_choice("metric", metric, METRICS)
    check_float("x", x)
    if x.dim() != 2 or x.size(1) == 0:
        raise ValueError(f"Expected 'x' to have shape [N, F] with F > 0 (got {list(x.shape)}).")
    check_finite("x", x)
    x = x.detach().cpu()
    x = x if x.dtype == torch.float64 else x.float()
    if metric == "cosine":
        coordinates, scale = _directions(x), 1.0
    else:
        coordinates, scale = _rescaled(x)
    # Faiss expands ||u - v||^2 in float32: what is common to all points would only cost digits.
    search = (coordinates - coordinates.mean(0)).float().contiguous()
    return Points(coordinates, search, metric, scale)


def _directions(x: Tensor) -> Tensor:
    largest = x.abs().amax(1, keepdim=True)
    zeros = int((largest == 0).sum())
    if zeros:
        raise ValueError(
            "Expected 'x' without zero vectors, which have no direction for metric='cosine' "
            f"(got {zeros} of {x.size(0)} rows). To fix this, drop these rows or use metric='l2'."
        )
    x = x / largest  # so that no square under- or overflows
    return x / x.norm(dim=1, keepdim=True)


def _rescaled(x: Tensor) -> tuple[Tensor, float]:
    """Divide by a power of two, which costs no digit, so that no square under- or overflows."""
    largest = float(x.abs().max()) if x.numel() else 0.0
    limit = 126 if x.dtype == torch.float32 else 1000
    exponent = max(-limit, min(limit, math.frexp(largest)[1]))
    return x * 2.0**-exponent, 2.0**exponent
