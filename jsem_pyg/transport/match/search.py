"""The search along edges: a first assignment, and the ways to a better one."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .annealing import repeat_annealing
from .assignment import Assignment, best_assignment, kept_weight
from .branches import MOST_BRANCHED, is_sparse, likely_pairs
from .candidates import search_candidates
from .moves import best_parts, swap
from .pair import COPY, NEARLY, Pair, padded
from .profiled import is_small, search_profiles

Array = NDArray[Any]

MOST_PAIRS = 1 << 30  # of nodes, beyond which the candidates are the answer
MOST_RELAXED = 1 << 17  # pairs of nodes up to which SciPy's relaxation takes tenths of a second

_log = logging.getLogger(__name__)


class Way(NamedTuple):
    """A way to a better assignment."""

    applies: Callable[[Pair], bool]
    improve: Callable[[Pair, Assignment], Assignment]


def search_branches(pair: Pair, best: Assignment) -> Assignment:
    """Start from nodes whose branches are alike, and take the best parts."""
    likely = likely_pairs(*padded(*pair.sides))[: pair.sizes[0]]
    alike = best_assignment(pair.task, likely, best.partner)
    return best_parts(pair.task, best, pair.improve("branches", alike))


def search_relaxed(pair: Pair, best: Assignment) -> Assignment:
    """Take SciPy's relaxation (FAQ) where it keeps more, as between some unrelated graphs."""
    from scipy.optimize import quadratic_assignment  # slow to import

    if not pair.misses(best, NEARLY):
        return best
    sides = (each.toarray().astype(float) for each in padded(*pair.sides))
    found = quadratic_assignment(*sides, method="faq", options={"maximize": True})
    partner = found.col_ind[: pair.sizes[0]]
    start = Assignment(partner, kept_weight(pair.task, partner))
    return max(best, pair.note("relaxed", swap(pair.task, start)), key=lambda each: each.kept)


WAYS = [
    Way(is_small, search_profiles),
    Way(lambda pair: pair.num_pairs <= MOST_BRANCHED and is_sparse(*pair.sides), search_branches),
    Way(lambda pair: True, repeat_annealing),
    Way(lambda pair: pair.num_pairs <= MOST_RELAXED, search_relaxed),
]


def search_assignment(
    source: csr_array, target: csr_array, max_iter: int, seed: int, likely: Any = None
) -> list[tuple[str, Array]]:
    """Find an assignment that keeps many edges: every node of the smaller side has a partner.

    A few candidates for each node come first, and the best that moves make of them. Where that can
    be better, it goes through all :data:`WAYS` that apply to the graphs, in their order.

    Args:
        source: [N, N] A, symmetric, of weights > 0, without diagonal.
        target: [K, K] B.
        max_iter: the most steps between candidates, and the most annealings.
        seed: of the search for the nearest nodes of graphs of more than 20,000.
        likely: probabilities [N, K] of pairs that are the start; the only way is annealing.

    Returns:
        Stages, a name and partners [N] each, -1 for none; the last one is the result.
    """
    size = source.shape[0]
    if size > target.shape[0]:
        other = None if likely is None else likely.T.tocsr()
        turned = search_assignment(target, source, max_iter, seed, other)
        return [(name, _inverse(each, size)) for name, each in turned]
    pair = Pair(source, target, max_iter, seed)
    pair.stages += search_candidates(pair.task, max_iter)
    partner = pair.stages[-1][1]
    if pair.num_pairs > MOST_PAIRS:
        _log.info("match_graphs stays with candidates between %d x %d nodes.", *pair.sizes)
        return pair.stages
    if likely is not None:
        partner = best_assignment(pair.task, likely, partner).partner
    best = pair.improve("neighbours", Assignment(partner, kept_weight(pair.task, partner)))
    for way in WAYS if likely is None else WAYS[2:3]:
        if pair.misses(best, COPY) and way.applies(pair):
            best = way.improve(pair, best)
    pair.note("best", best)
    return pair.stages


def _inverse(partner: Array, size: int) -> Array:
    """Turn partners [N] of K into partners [K], -1 for none."""
    inverse = np.full(size, -1)
    inverse[partner] = np.arange(len(partner))
    return inverse
