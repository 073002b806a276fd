"""The comparison of branches in Python, by definition."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jsem_pyg.kernels.branches.graph import (
    CERTAIN,
    EXACT,
    LEAST,
    SMALLEST,
    Kinds,
    Neighbours,
    Pairs,
    Rates,
)

Array = NDArray[Any]


def sweep(
    source: Neighbours,
    target: Neighbours,
    pairs: Pairs,
    message: Array,
    belief: Array,
    rates: Rates,
) -> tuple[Array, Array]:
    """Compute what `numba_cpu.sweep` does."""
    scores, following = np.empty(len(pairs.node)), np.empty_like(message)
    place = {
        (i, pairs.node[each]): each
        for i in range(len(pairs.indptr) - 1)
        for each in range(pairs.indptr[i], pairs.indptr[i + 1])
    }
    for (i, j), each in place.items():
        first = range(source.indptr[i], source.indptr[i + 1])
        second = range(target.indptr[j], target.indptr[j + 1])
        weight = np.zeros((len(first), len(second)))
        for x, e in enumerate(first):
            for y, f in enumerate(second):
                k, n = source.node[e], target.node[f]
                if (k, n) in place:
                    other = place[k, n]
                    width = target.indptr[n + 1] - target.indptr[n]
                    at = pairs.offset[other] + source.back[e] * width + target.back[f]
                    known = min(float(message[at]) * belief[other], CERTAIN)
                    weight[x, y] = rates.match * known / (rates.source * rates.target)
        is_hub = min(weight.shape) > EXACT
        scores[each] = max(_score(weight, rates, is_hub), LEAST)
        for x in range(len(first)):
            for y in range(len(second)):
                left = np.delete(np.delete(weight, x, 0), y, 1)
                at = pairs.offset[each] + x * len(second) + y
                following[at] = _score(left, rates, is_hub) / scores[each]
    return scores, following


def compare(source: Kinds, target: Kinds, known: Array, rates: Rates) -> Array:
    """Compute what `numba_cpu.compare` does."""
    sides = [np.split(each.kind, each.indptr[1:-1]) for each in (source, target)]
    factor = rates.match / (rates.source * rates.target)
    scores = np.empty([len(each.indptr) - 1 for each in (source, target)], np.float32)
    for i, j in np.ndindex(scores.shape):
        several = known[np.ix_(sides[0][i], sides[1][j])].astype(float)
        weight = np.minimum(several, CERTAIN) * factor
        is_hub = min(weight.shape) > EXACT
        scores[i, j] = max(_score(weight, rates, is_hub), SMALLEST)
    return scores


def _score(weight: Array, rates: Rates, is_hub: bool) -> float:
    missing = rates.source ** weight.shape[0] * rates.target ** weight.shape[1]
    return rates.base * missing * (_of_hubs(weight) if is_hub else _matchings(weight))


def _of_hubs(weight: Array) -> float:
    """Match nodes of the shorter side alone, with rivals for each partner."""
    table = weight if weight.shape[0] >= weight.shape[1] else weight.T
    rivals = table.sum(1, keepdims=True) - table
    return float(np.prod(1 + (table / (1 + rivals)).sum(0)))


def _matchings(weight: Array) -> float:
    """The sum over partial matchings of the products of weights [A, B]."""
    if weight.size == 0:
        return 1.0
    rest = weight[1:]
    total = _matchings(rest)
    for column in range(weight.shape[1]):
        total += weight[0, column] * _matchings(np.delete(rest, column, 1))
    return total
