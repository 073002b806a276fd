"""Scores of all pairs of nodes by the likelihood of their branches, some hops deep.

Without competition for partners, knowledge of two branches depends on what is behind them, and most
branches of two hops look like many others. So kinds of branches are compared, not branches: between
graphs of thousands of nodes that is a hundredth of the work of a sweep over all pairs.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...kernels.branches.graph import Kinds, Neighbours, Rates

Array = NDArray[Any]

_DEPTH = 3  # hops
_MOST = 2  # pairs of kinds, per pair of nodes: above, one hop less is compared


def branch_scores(compare: Any, sides: tuple[Neighbours, Neighbours], rates: Rates) -> Array:
    """Likelihood ratios [N, K] float32 of all pairs of nodes; `compare` is that of a backend."""
    most = _MOST * np.prod([len(each.indptr) - 1 for each in sides])
    kinds: list[Array] = [np.zeros(len(each.node), np.int64) for each in sides]
    known = np.ones((1, 1), np.float32)
    for _ in range(_DEPTH - 1):
        behind = [_distinct(*_behind(*each)) for each in zip(sides, kinds, strict=True)]
        if np.prod([len(each.indptr) - 1 for each, _ in behind]) > most:
            break
        known = compare(*(each for each, _ in behind), known, rates)
        kinds = [each for _, each in behind]
    around = (Kinds(each.indptr, kind) for each, kind in zip(sides, kinds, strict=True))
    found: Array = compare(*around, known, rates)
    return found


def _behind(side: Neighbours, kind: Array) -> Kinds:
    """For each edge, the kinds of the branches of its other end, but for the way back."""
    width = np.diff(side.indptr)[side.node] - 1
    indptr = np.concatenate([[0], np.cumsum(width)])
    edge = np.repeat(np.arange(len(width)), width)
    place = np.arange(len(edge)) - indptr[edge]
    place += place >= side.back[edge]
    return Kinds(indptr, kind[side.indptr[side.node[edge]] + place])


def _distinct(indptr: Array, kind: Array) -> tuple[Kinds, Array]:
    """The distinct lists, whose order does not count, and the number of each list among them."""
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    inside = kind[np.lexsort((kind, row))].tolist()
    lists = [tuple(inside[start:stop]) for start, stop in pairwise(indptr.tolist())]
    number = {each: place for place, each in enumerate(dict.fromkeys(lists))}
    width = np.array([len(each) for each in number], np.int64)
    kinds = np.array([each for some in number for each in some], np.int64)
    found = Kinds(np.concatenate([[0], np.cumsum(width)]), kinds)
    return found, np.array([number[each] for each in lists], np.int64)
