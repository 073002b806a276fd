"""Triangles and squares in plain torch, on any device: paths of two edges, in bounded chunks.

A path is looked up in the sorted list of edges by binary search, so nothing has N x N entries, and
no chunk has many more paths than a fixed number.
"""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from ..._groups import group_starts
from ..csr import CSR
from .reference import mean_weight

_CHUNK_PATHS = 1 << 22


def triangle_counts(csr: CSR, reverse: Tensor) -> Tensor:
    """See :func:`.reference.triangle_counts`."""
    csr = csr.derived(_wide)
    return _triangle_sums(csr, reverse, torch.ones_like(csr.col, dtype=torch.float64))[0]


def forman(csr: CSR, reverse: Tensor, weight: Tensor | None, with_triangles: bool) -> Tensor | None:
    """See :func:`.reference.forman`: the sums over all neighbours, less those that do not count."""
    csr = csr.derived(_wide)
    weight = mean_weight(csr, reverse, weight)
    if weight is None:
        return None
    root = weight.sqrt()
    length = 1 / root
    reach = torch.segment_reduce(length, "sum", offsets=csr.rowptr, unsafe=True)
    # Leaving out j at i and i at j adds sqrt(w) w^(-1/2) twice: 2 + 2 = 4.
    curvature = 4 - root * (reach[csr.row] + reach[csr.col])
    if with_triangles:
        count, sides = _triangle_sums(csr, reverse, length)
        curvature += weight.square() * count + root * sides
    return curvature


def _wide(csr: CSR) -> CSR:
    """The pattern in int64: keys are products of two indices."""
    return CSR(csr.rowptr, csr.col.long())


def list_triangles(csr: CSR) -> Tensor:
    """The triangles [3, F] of a graph, nodes i < j < k, in lexicographic order."""
    csr = csr.derived(_wide)
    found = [csr.col.new_empty(3, 0)]
    for uv, vw, _ in _triangles(csr):
        found.append(torch.stack([csr.row[uv], csr.col[uv], csr.col[vw]]))
    i, j, k = torch.cat(found, dim=1).sort(0).values
    order = k.argsort()
    # By i and j next, without mixing up the k: one number of all three might overflow.
    order = order[(i * csr.num_rows + j)[order].argsort(stable=True)]
    return torch.stack([i, j, k])[:, order]


def _triangles(csr: CSR) -> Iterator[Tensor]:
    """The slots (u, v), (v, w) and (u, w) of all triangles, [3, F] in chunks.

    Edges are directed from the lower to the higher degree, after which no node has more than
    sqrt(2 E) successors, and each triangle is found once, from its lowest node (Schank and Wagner,
    "Finding, counting and listing all triangles in large graphs", 2005, algorithm "forward").
    """
    degree = csr.rowptr.diff()
    low, high = degree[csr.row], degree[csr.col]
    forward = ((low < high) | ((low == high) & (csr.row < csr.col))).nonzero()[:, 0]
    row, col = csr.row[forward], csr.col[forward]
    graph = CSR(group_starts(row, csr.num_rows), col)
    key = _keys(graph)
    for chunk in _chunks(graph.rowptr.diff()[graph.col]):
        uv, vw = _paths(graph, chunk)
        uw, is_edge = _find(key, graph.row[uv] * graph.num_rows + graph.col[vw])
        yield forward[torch.stack([uv, vw, uw])[:, is_edge]]


def _triangle_sums(csr: CSR, reverse: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """For every slot (i, j): the triangles (i, j, k), and the sum of values_ik + values_jk."""
    count, total = torch.zeros_like(csr.col), torch.zeros_like(values)
    for triangle in _triangles(csr):
        others = values[triangle[[1, 0, 0]]] + values[triangle[[2, 2, 1]]]
        count += torch.bincount(triangle.flatten(), minlength=count.numel())
        total.index_add_(0, triangle.flatten(), others.flatten())
    return count + count[reverse], total + total[reverse]


def square_counts(csr: CSR) -> tuple[Tensor, Tensor]:
    """See :func:`.reference.square_counts`.

    For a path i - j - w, with w neither i nor next to it, each other path i - k - w makes a square
    i - j - w - k - i, unless j and k are neighbours.
    """
    csr = csr.derived(_wide)
    count, largest = torch.zeros_like(csr.col), torch.zeros_like(csr.col)
    key, degree = _keys(csr), csr.rowptr.diff()
    # Whole nodes i, since all paths from i may meet.
    around = torch.zeros_like(degree).index_add(0, csr.row, degree[csr.col])
    for nodes in _chunks(around):
        slots = slice(int(csr.rowptr[nodes.start]), int(csr.rowptr[nodes.stop]))
        ij, jw = _paths(csr, slots)
        pair = csr.row[ij] * csr.num_rows + csr.col[jw]
        is_far = (csr.row[ij] != csr.col[jw]) & ~_find(key, pair)[1]
        _count_squares(csr, key, slots, ij[is_far], pair[is_far], count, largest)
    return count, largest


def _count_squares(
    csr: CSR, key: Tensor, slots: slice, ij: Tensor, pair: Tensor, count: Tensor, largest: Tensor
) -> None:
    """Count from all paths of some nodes i: their first slots, ascending, and their ends (i, w)."""
    num_slots = csr.col.numel()
    first = ij[pair.argsort()]  # the slots (i, k) that lead to each (i, w), one list after another
    _, group, size = torch.unique(pair, return_inverse=True, return_counts=True)
    begin = size.cumsum(0) - size
    work = count.new_zeros(slots.stop - slots.start).index_add(0, ij - slots.start, size[group])
    for part in _chunks(work):
        bounds = torch.tensor([part.start, part.stop], device=ij.device) + slots.start
        low, high = torch.searchsorted(ij, bounds).tolist()
        path, place = _expand(size[group[low:high]])
        path = path + low
        this, other = ij[path], first[begin[group[path]] + place]
        j, k = csr.col[this], csr.col[other]
        apart = (j != k) & ~_find(key, j * csr.num_rows + k)[1]
        met, c = torch.unique(this[apart] * num_slots + other[apart], return_counts=True)
        slot = met // max(num_slots, 1)
        count += torch.bincount(slot, minlength=num_slots)
        largest.scatter_reduce_(0, slot, c, "amax")


def _keys(csr: CSR) -> Tensor:
    """A number for each slot, ascending."""
    return csr.row * csr.num_rows + csr.col


def _find(key: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Where in the sorted keys each wanted one would be, and whether it is there."""
    if key.numel() == 0:
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(key, wanted).clamp(max=key.numel() - 1)
    return place, key[place] == wanted


def _paths(csr: CSR, slots: slice) -> tuple[Tensor, Tensor]:
    """All paths of two edges whose first edge is one of `slots`: both slots of each."""
    end = csr.col[slots]
    first, place = _expand(csr.rowptr.diff()[end])
    return first + slots.start, csr.rowptr[end][first] + place


def _expand(length: Tensor) -> tuple[Tensor, Tensor]:
    """Lists of these lengths, one after another: the list of each item, and its place in there."""
    item = torch.repeat_interleave(length)
    begin = length.cumsum(0) - length
    return item, torch.arange(item.numel(), device=length.device) - begin[item]


def _chunks(cost: Tensor) -> Iterator[slice]:
    """Cut a sequence where its running cost passes multiples of the limit."""
    running = cost.cumsum(0)
    total = int(running[-1]) if cost.numel() else 0
    marks = torch.arange(_CHUNK_PATHS, max(total, _CHUNK_PATHS), _CHUNK_PATHS, device=cost.device)
    cuts = torch.searchsorted(running, marks).tolist()
    for start, stop in pairwise(sorted({0, *cuts, cost.numel()})):
        yield slice(start, stop)
