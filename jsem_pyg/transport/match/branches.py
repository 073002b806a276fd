r"""Sparse graphs: pairs of nodes whose branches are alike, by belief propagation.

Where nodes have two or three neighbours, all look alike for some hops, and a missing edge changes
all that lies behind it. A sum over the ways to match neighbours, and their neighbours in turn,
keeps what is left: the likelihood ratio of two branches, with a chance for every edge to be missing
(:func:`jsem_pyg.kernels.branches.numba_cpu.sweep`). Each round looks one hop farther. After some
rounds, nodes compete for partners (a node has one), so that certain pairs decide about their
neighbours, and unlikely pairs are dropped; neighbours of certain pairs come back.

Source: Ganassali, Massoulié and Semerjian, "Statistical limits of correlation detection in trees",
Annals of Applied Probability 34, 2024, for the ratio; Bayati, Gleich, Saberi and Wang,
"Message-passing algorithms for sparse network alignment", ACM TKDD 7, 2013, for the competition.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from ...kernels.branches.graph import Kinds, Neighbours, Pairs, Rates, read_neighbours
from .soft import shares_of

Array = NDArray[Any]

MOST_BRANCHED = 1 << 28  # up to which branches are compared
MEAN_DEGREE = 4.0
LARGEST_DEGREE = 64
DEPTH = 3  # hops in the first round
MOST_KINDS = 2  # pairs of kinds of branches, per pair of nodes: else one hop less
FIRST_PAIRS = 1 << 23  # in the first rounds
LATER_PAIRS = 600  # of a node in later rounds
UNLIKELY = 1e-7  # the least probability of a pair
ALONE = 3  # rounds without competition
ROUNDS = 48
DROPPED_EVERY = 3  # rounds
LIKELY = 0.3  # the probability of a pair whose neighbours come back
MISSING = 0.05  # chance of a missing edge, besides those that the numbers show

_DOUBT = 1e-6  # the least


def is_sparse(source: csr_array, target: csr_array) -> bool:
    """Return True if the nodes of both graphs have few neighbours, as this search needs."""
    degrees = [np.diff(each.indptr) for each in (source, target)]
    return all(
        each.size > 1 and 0 < each.mean() <= MEAN_DEGREE and each.max() <= LARGEST_DEGREE
        for each in degrees
    )


def likely_pairs(source: csr_array, target: csr_array, known: Array | None = None) -> csr_array:
    """Estimate probabilities [N, N] of pairs, a few for a node, with sums of at most one.

    Pairs that are `known` [2, M] are certain.
    """
    from ...kernels.branches.numba_cpu import compare, sweep  # numba loads slowly

    known = np.empty((2, 0), np.int64) if known is None else known
    sides = read_neighbours(source), read_neighbours(target)
    rates = _rates(*sides)
    size = source.shape[0]
    count = min(size, FIRST_PAIRS // (2 * size) if size**2 > FIRST_PAIRS else size)
    scores = _competing(torch.from_numpy(branch_scores(compare, sides, rates)))
    closest = (scores.topk(count, dim).indices.numpy() for dim in (1, 0))
    node = np.arange(size)
    rows, columns = next(closest), next(closest)
    key = (node[:, None] * size + rows).reshape(-1), (columns * size + node).reshape(-1)
    found = _possible(np.unique(np.concatenate(key)), known, size)
    pairs = _pairs(sides, found)
    message: Array = np.ones(pairs.offset[-1], np.float32)
    odds: Array = np.ones(len(found))
    odds[np.searchsorted(found, known[0] * size + known[1])] = size / _DOUBT
    for step in range(1, ROUNDS + 1):
        score, message = sweep(*sides, pairs, message, odds, rates)
        if step < ALONE:
            odds = score
            odds[np.searchsorted(found, known[0] * size + known[1])] = size / _DOUBT
            continue
        likely = shares_of(csr_array((score, pairs.node, pairs.indptr), (size, size)))
        odds = _odds(likely.data, size)
        if step % DROPPED_EVERY == 0 and step < ROUNDS:
            kept = _possible(_kept(source, target, likely, found), known, size)
            before, old = pairs, found
            pairs, found = _pairs(sides, kept), kept
            message, odds = _carried(before, old, pairs, found, message, odds)
    return likely


def _possible(key: Array, known: Array, size: int) -> Array:
    """Leave out pairs of which one node has another, known partner; and join the known pairs."""
    is_known = [np.isin(np.arange(size), each) for each in known]
    row, column = np.divmod(key, size)
    key = key[~is_known[0][row] & ~is_known[1][column]]
    return np.union1d(key, known[0] * size + known[1])


def _competing(scores: Tensor, steps: int = 20) -> Tensor:
    """Scale scores [N, K] towards sums of one of rows and columns, in place."""
    right = scores.new_ones(scores.size(1))
    for _ in range(steps):
        left = 1 / (scores @ right)
        right = 1 / (scores.T @ left)
    return scores.mul_(left[:, None]).mul_(right)


def _rates(first: Neighbours, second: Neighbours) -> Rates:
    """Estimate rates by the numbers of edges, and of the other neighbours of a neighbour."""
    edges = [max(1, len(each.node)) for each in (first, second)]
    fewer = [max(0.0, 1 - edges[1 - side] / edges[side]) for side in (0, 1)]
    missing = [min(each + MISSING, 1 - MISSING) for each in fewer]
    squares = [float((np.diff(each.indptr) ** 2).sum()) for each in (first, second)]
    mean = [max(0.1, squares[side] / edges[side] - 1) for side in (0, 1)]
    shared = np.sqrt(mean[0] * (1 - missing[0]) * mean[1] * (1 - missing[1]))
    return Rates(missing[0], missing[1], shared / (mean[0] * mean[1]), np.exp(shared / 2))


def _pairs(sides: tuple[Neighbours, Neighbours], key: Array) -> Pairs:
    """List the pairs of sorted numbers i N + j."""
    degrees = [np.diff(each.indptr) for each in sides]
    size = len(degrees[0])
    row, column = np.divmod(key, size)
    indptr = np.searchsorted(row, np.arange(size + 1))
    width = degrees[0][row] * degrees[1][column]
    return Pairs(indptr, column, np.concatenate([[0], np.cumsum(width)]))


def _odds(probability: Array, size: int) -> Array:
    """Turn probabilities into odds, relative to a random pair."""
    return size * probability / np.maximum(1 - probability, _DOUBT)


def _kept(source: csr_array, target: csr_array, likely: csr_array, key: Array) -> Array:
    """Keep the likeliest partners of every node, on both sides, and neighbours of likely pairs."""
    size = likely.shape[0]
    row, column = np.divmod(key, size)
    alive = np.flatnonzero(likely.data > UNLIKELY)
    is_kept = np.zeros(len(key), bool)
    # NumPy sorts 16 bits at a time in linear time, and positive numbers as their bits.
    bits = ~likely.data[alive].astype(np.float32).view(np.uint32)
    order = np.argsort(bits.astype(np.uint16), kind="stable")
    alive = alive[order[np.argsort((bits >> 16).astype(np.uint16)[order], kind="stable")]]
    for side in (row, column):
        order = alive[np.argsort(side[alive].astype(np.uint16), kind="stable")]
        count = np.bincount(side[order], minlength=size)
        place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
        is_kept[order[place < LATER_PAIRS]] = True
    certain = likely.data > LIKELY
    seeds = csr_array((certain[certain], (row[certain], column[certain])), likely.shape)
    around = (source.astype(bool) @ seeds @ target.astype(bool)).tocoo()
    beside = around.coords[0].astype(np.int64) * size + around.coords[1]
    return np.union1d(key[is_kept], beside)


def _carried(
    before: Pairs, old: Array, pairs: Pairs, key: Array, message: Array, odds: Array
) -> tuple[Array, Array]:
    """Carry messages and odds of the pairs that stay; new pairs have ones."""
    place = np.minimum(np.searchsorted(old, key), len(old) - 1)
    stays = old[place] == key
    width = np.diff(pairs.offset)
    at = np.repeat(before.offset[place] - pairs.offset[:-1], width) + np.arange(pairs.offset[-1])
    held = np.repeat(stays, width)
    moved = np.ones(len(held), np.float32)
    moved[held] = message[at[held]]
    return moved, np.where(stays, odds[place], 1.0)


def branch_scores(compare: Any, sides: tuple[Neighbours, Neighbours], rates: Rates) -> Array:
    """Compute the likelihood ratios [N, K] float32 of all pairs of nodes, some hops deep.

    Without competition for partners, knowledge of two branches depends on what is behind them, and
    most branches of two hops look like many others. So kinds of branches are compared, not
    branches: between graphs of thousands of nodes that is a hundredth of the work of a sweep over
    all pairs. `compare` is the kernel.
    """
    most = MOST_KINDS * np.prod([len(each.indptr) - 1 for each in sides])
    kinds: list[Array] = [np.zeros(len(each.node), np.int64) for each in sides]
    known = np.ones((1, 1), np.float32)
    for _ in range(DEPTH - 1):
        behind = [_distinct(*_behind(*each)) for each in zip(sides, kinds, strict=True)]
        if np.prod([len(each.indptr) - 1 for each, _ in behind]) > most:
            break
        known = compare(*(each for each, _ in behind), known, rates)
        kinds = [each for _, each in behind]
    around = (Kinds(each.indptr, kind) for each, kind in zip(sides, kinds, strict=True))
    found: Array = compare(*around, known, rates)
    return found


def _behind(side: Neighbours, kind: Array) -> Kinds:
    """List for every edge the kinds of the branches of its other end, but for the way back."""
    width = np.diff(side.indptr)[side.node] - 1
    indptr = np.concatenate([[0], np.cumsum(width)])
    edge = np.repeat(np.arange(len(width)), width)
    place = np.arange(len(edge)) - indptr[edge]
    place += place >= side.back[edge]
    return Kinds(indptr, kind[side.indptr[side.node[edge]] + place])


def _distinct(indptr: Array, kind: Array) -> tuple[Kinds, Array]:
    """Find the distinct lists, up to order, and the number of each list."""
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    inside = kind[np.lexsort((kind, row))].tolist()
    lists = [tuple(inside[start:stop]) for start, stop in pairwise(indptr.tolist())]
    number = {each: place for place, each in enumerate(dict.fromkeys(lists))}
    width = np.array([len(each) for each in number], np.int64)
    kinds = np.array([each for some in number for each in some], np.int64)
    found = Kinds(np.concatenate([[0], np.cumsum(width)]), kinds)
    return found, np.array([number[each] for each in lists], np.int64)
