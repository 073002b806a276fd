"""From a noisy picture to a graph of similar patches."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# How many shifts are compared with the nearest so far at a time.
_BLOCK = 16

# In units of the noise; beyond it, one difference is as large as another.
_FARTHEST = 1e8

# Added before logarithms: a hundredth of what noise alone makes of a squared difference.
_SMALLEST = 0.01


class _Shift(NamedTuple):
    """A way from a pixel to another, downwards or to the right: half of all ways."""

    down: int
    right: int

    def ends(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Two views of [..., H, W]: where it starts, and where it leads to."""
        height, width = maps.shape[-2:]
        low, high = max(0, -self.right), min(width, width - self.right)
        start = maps[..., : height - self.down, low:high]
        return start, maps[..., self.down :, low + self.right : high + self.right]


def patch_graph(
    image: Tensor, noise: float, k: int = 16, window: int = 10, radius: int = 2
) -> tuple[Tensor, Tensor]:
    r"""Build a graph of the pixels of a noisy picture: edges join pixels with similar patches.

    These are its eight neighbours on the grid, and among the pixels of a window the k with the
    nearest patches: those with the smallest mean squared difference. Nothing clean is needed. A
    conductance of the features of the edges can learn which of them to close, see
    `examples/benchmarks/denoising.py`.

    Features are logarithms, and in units of the noise, so that they mean the same in other pictures
    and at other noise. With :math:`d_r^2` the mean squared difference of two patches of
    :math:`2r + 1` by :math:`2r + 1` pixels, :math:`v` the variance in a patch of 5 by 5, and noise
    :math:`\sigma`, an edge has, once for the picture and once more for the picture blurred by
    [1, 2, 1] / 4 along both axes, with the :math:`\sigma` that this leaves,

    - :math:`\log(d_r^2 / 2 \sigma^2 + 0.01)` for r = 0, ..., `radius`,
    - :math:`\log(v / \sigma^2 + 0.01)`, the larger of both ends, and then the smaller,

    and last the logarithm of its length in pixels, and whether it is one of the grid.

    Args:
        image: [H, W] or [C, H, W] floating-point values; pixels are numbered row by row.
        noise: the standard deviation of the noise in every value, in the unit of `image`.
        k: how many similar pixels each one looks for; it may be found by more.
        window: how far to look, in pixels along each axis.
        radius: of the patches, in pixels: 2 compares 5 by 5. At the border, what lies outside does
            not count.

    Returns:
        `edge_index` [2, E] (int64), both directions of every edge, all of one first, and
        `edge_attr` [E, F] with F = 2 (radius + 3) + 2, on the device of `image` and in its type
        (float32 for half precision). A graph is discrete, so no gradient flows back to `image`.

    Source: Buades, Coll and Morel, "A non-local algorithm for image denoising", CVPR 2005.
    """
    picture = _in_units_of_noise(image, noise)
    shifts = _shifts(window, *picture.shape[-2:])
    is_edge = _nearest(picture, shifts, k, radius)
    blurred = _blur(picture) / 0.375  # the root of the sum of the squared weights
    features = [_edge_features(guide, shifts, is_edge, radius) for guide in (picture, blurred)]
    pairs, length = _pairs(shifts, is_edge)
    is_grid = (length < 1.5).to(length)
    attr = torch.cat([*features, torch.stack([length.log(), is_grid], 1)], dim=1)
    return torch.cat([pairs, pairs.flip(0)], dim=1), torch.cat([attr, attr])


def _in_units_of_noise(image: Tensor, noise: float) -> Tensor:
    """[C, H, W]; around zero, since squares of small differences of large numbers round badly."""
    picture = image.detach().double()
    picture = picture.unsqueeze(0) if picture.dim() == 2 else picture
    picture = picture - picture.mean((1, 2), keepdim=True)
    dtype = torch.promote_types(image.dtype, torch.float32)
    return (picture / noise).clamp(-_FARTHEST, _FARTHEST).to(dtype)


def _shifts(window: int, height: int, width: int) -> list[_Shift]:
    down, right = min(window, height - 1), min(window, width - 1)
    ways = (_Shift(y, x) for y in range(down + 1) for x in range(-right, right + 1))
    return [way for way in ways if way.down > 0 or way.right > 0]


def _mean(maps: Tensor, radius: int) -> Tensor:
    """The mean in a square around every pixel of [C, H, W], of what lies inside."""
    for size, pad in (((1, 2 * radius + 1), (0, radius)), ((2 * radius + 1, 1), (radius, 0))):
        maps = F.avg_pool2d(maps, size, 1, pad, count_include_pad=False)
    return maps


def _blur(picture: Tensor) -> Tensor:
    padded = F.pad(picture, (1, 1, 1, 1), mode="replicate")
    rows = (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4
    return (rows[..., :-2] + 2 * rows[..., 1:-1] + rows[..., 2:]) / 4


def _differences(picture: Tensor, shift: _Shift) -> Tensor:
    """[1, ., .] the mean squared difference of the ends of a shift."""
    start, end = shift.ends(picture)
    return (start - end).square().mean(0, keepdim=True)


def _nearest(picture: Tensor, shifts: list[_Shift], k: int, radius: int) -> Tensor:
    """[shifts, H, W] whether a pixel is joined to that which a shift leads to."""
    height, width = picture.shape[-2:]
    far = picture.new_full((k, height, width), torch.inf)
    nearest, way = far, torch.zeros_like(far, dtype=torch.int64)
    for first in range(0, len(shifts), _BLOCK):
        block = shifts[first : first + _BLOCK]
        found = picture.new_full((len(block), 2, height, width), torch.inf)
        for at, shift in zip(found, block, strict=True):
            distance = _mean(_differences(picture, shift), radius)[0]
            shift.ends(at[0])[0].copy_(distance)  # seen from where it starts
            shift.ends(at[1])[1].copy_(distance)  # seen from where it leads to
        new = torch.arange(2 * first, 2 * (first + len(block)), device=picture.device)
        ways = torch.cat([way, new[:, None, None].expand(-1, height, width)])
        both = torch.cat([nearest, found.flatten(0, 1)])
        nearest, kept = both.topk(k, dim=0, largest=False)
        way = ways.gather(0, kept)
    is_found = torch.zeros(2 * len(shifts) + 1, height, width, dtype=torch.bool, device=far.device)
    is_found.scatter_(0, way.where(nearest.isfinite(), 2 * len(shifts)), True)
    is_edge, from_end = is_found[:-1].unflatten(0, (len(shifts), 2)).unbind(1)
    for at, back, shift in zip(is_edge, from_end, shifts, strict=True):
        start, _ = shift.ends(at)
        start |= shift.ends(back)[1]
        if max(shift.down, abs(shift.right)) == 1:
            start.fill_(True)
    return is_edge


def _edges_of(shifts: list[_Shift], is_edge: Tensor) -> Iterator[tuple[_Shift, Tensor]]:
    """Every shift and where it starts: a mask like what `_differences` returns."""
    for shift, at in zip(shifts, is_edge, strict=True):
        yield shift, shift.ends(at)[0]


def _pairs(shifts: list[_Shift], is_edge: Tensor) -> tuple[Tensor, Tensor]:
    """Both ends [2, E / 2] of every edge, and its length [E / 2]."""
    height, width = is_edge.shape[-2:]
    pixel = torch.arange(height * width, device=is_edge.device).view(height, width)
    pairs = [pixel.new_empty(2, 0)]
    lengths = [torch.empty(0, device=is_edge.device)]
    for shift, mask in _edges_of(shifts, is_edge):
        pairs.append(torch.stack([end[mask] for end in shift.ends(pixel)]))
        length = (shift.down**2 + shift.right**2) ** 0.5
        lengths.append(torch.full((pairs[-1].size(1),), length, device=is_edge.device))
    return torch.cat(pairs, dim=1), torch.cat(lengths)


def _edge_features(guide: Tensor, shifts: list[_Shift], is_edge: Tensor, radius: int) -> Tensor:
    """[E / 2, radius + 3]: distances of patches, and the variances around both ends."""
    # In float64, since noise of one is to be left where squares of a bright picture cancel.
    wide = guide.double()
    variance = (_mean(wide.square(), 2) - _mean(wide, 2).square()).mean(0).clamp(min=0).to(guide)
    columns = [guide.new_empty(0, radius + 3)]
    for shift, mask in _edges_of(shifts, is_edge):
        difference = _differences(guide, shift) / 2
        distances = [_mean(difference, each)[0][mask] for each in range(radius + 1)]
        start, end = (each[mask] for each in shift.ends(variance))
        columns.append(
            torch.stack([*distances, torch.maximum(start, end), torch.minimum(start, end)], 1)
        )
    return (torch.cat(columns) + _SMALLEST).log()
