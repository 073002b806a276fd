"""From features to a good assignment: where to start, and which moves to make when."""

import logging
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from .branches import is_sparse, likely_pairs
from .candidates import search_candidates
from .confidence import edge_confidence
from .features import both_features, heat_features, local_features
from .moves import (
    Assignment,
    Task,
    anneal,
    assignment_task,
    greedy,
    harden,
    kept_weight,
    percolate,
    soft_start,
    swap,
)
from .parts import best_parts, open_nodes

Array = NDArray[Any]

_log = logging.getLogger(__name__)

_COPY = 1 - 1e-6  # of the most that could be kept: there is nothing to find
_GAIN = 1e-4  # of what is kept, for another round to be worth it
_BELIEVED = (0.0, 0.5, 0.3, 0.7)  # confidence of the pairs that an annealing begins with
_UNRELATED = 0.01  # mean confidence in partners: that of related graphs is 0.04 and more
_RELAXED = 1 << 20  # pairs, up to which a convex relaxation takes some seconds
_QUICK = 1 << 17  # pairs, up to which it takes tenths of a second
_NEARLY = 0.99  # of the most that could be kept: there is little to find
_SMALL = 1 << 22  # pairs, up to which heat profiles take a second or two
_BRANCHED = 1 << 28  # pairs, of which all are looked at
_LARGE = 1 << 30  # pairs, beyond which candidates are the answer


class Found(NamedTuple):
    """Partners, and how the search came to them."""

    partner: Array  # [N] -1 for none
    stages: list[tuple[str, Array]]  # name, and the partners that it ended with


def search_assignment(source: csr_array, target: csr_array, max_iter: int, seed: int) -> Found:
    """Search the assignment that keeps most: every node of the smaller side has a partner.

    A few candidates for each node come first, and the best that moves make of them. Where that can
    be better, heat profiles of the nodes of small graphs, and alike branches of sparse ones, give
    other starts. What has been found is annealed as long as that helps, mostly around edges that
    are not kept. Of two assignments, the best parts of both are taken.

    Args:
        source: [N, N] A, symmetric, of weights > 0, without diagonal.
        target: [K, K] B.
        max_iter: the most steps between candidates, and the most annealings.
        seed: of the search for the nearest nodes of graphs of more than 20,000.
    """
    size = source.shape[0]
    if size > target.shape[0]:
        turned = search_assignment(target, source, max_iter, seed)
        stages = [(name, _inverse(each, size)) for name, each in turned.stages]
        return Found(_inverse(turned.partner, size), stages)
    sides = source, target
    local = local_features(*sides)
    task = assignment_task(*sides, local, seed)
    most = _most(task)
    stages = search_candidates(task, max_iter)

    def note(stage: str, found: Assignment) -> Assignment:
        stages.append((stage, found.partner))
        return found

    def improve(stage: str, start: Assignment, task: Task) -> Assignment:
        return note(stage, swap(task, percolate(task, start)))

    def crossed(stage: str, best: Assignment, task: Task) -> Assignment:
        start = max(greedy(task), soft_start(task), key=lambda each: each.kept)
        other = improve(stage, start, task)
        mixed = note("both", swap(task, anneal(task, best, other)))
        return best_parts(task, best_parts(task, best, other), mixed)

    best = Assignment(stages[-1][1], kept_weight(task, stages[-1][1]))
    num_pairs = size * target.shape[0]
    if num_pairs > _LARGE:
        _log.info(
            "match_graphs stays with candidates between %d x %d nodes.", size, target.shape[0]
        )
        return Found(best.partner, stages)
    best = improve("neighbours", best, task)
    if best.kept < _COPY * most and num_pairs <= _RELAXED and _is_chance(*sides, best.partner):
        # A longer search would have nothing to follow.
        best = max(best, note("relaxed", _relaxed(task)), key=lambda each: each.kept)
        note("best", best)
        return Found(stages.pop()[1], stages)
    if best.kept < _COPY * most and num_pairs <= _SMALL:
        heat = heat_features(*sides)
        task = assignment_task(*sides, heat, seed)
        best = crossed("heat", best, task)
        if best.kept < _NEARLY * most and not is_sparse(*sides):
            features = both_features(local, heat)
            best = crossed("both profiles", best, assignment_task(*sides, features, seed))
    if best.kept < _COPY * most and num_pairs <= _BRANCHED and is_sparse(*sides):
        alike = harden(task, likely_pairs(*_padded(*sides))[:size], best.partner)
        best = best_parts(task, best, improve("branches", alike, task))
    since, sure = 0, edge_confidence(*sides, best.partner)
    for number in range(max_iter if best.kept < _COPY * most else 0):
        least = _BELIEVED[number % len(_BELIEVED)]
        believed = sure >= least if least else None
        # The last of each round looks everywhere, the others where edges are missing.
        rows = None if least == _BELIEVED[-1] else open_nodes(task, best.partner, believed)
        found = note("annealing", swap(task, anneal(task, best, believed=believed, rows=rows)))
        found = best_parts(task, best, found)
        since = 0 if found.kept - best.kept > _GAIN * best.kept else since + 1
        if found is not best:
            best, sure = found, edge_confidence(*sides, found.partner)
        if since == len(_BELIEVED):
            break
    if best.kept < _NEARLY * most and num_pairs <= _QUICK:
        best = max(best, note("relaxed", _relaxed(task)), key=lambda each: each.kept)
    note("best", best)
    return Found(stages.pop()[1], stages)


def _is_chance(source: csr_array, target: csr_array, partner: Array) -> bool:
    """Return True if edges are kept as between graphs that have nothing in common.

    Only the number of edges that partners share is looked at, which says nothing of weights.
    """
    if any(np.ptp(each.data) > 0 for each in (source, target) if each.nnz):
        return False
    sure, other = (
        float(edge_confidence(source, target, each).mean())
        for each in (partner, np.roll(partner, 1))
    )
    return sure < _UNRELATED + 2 * other


def _relaxed(task: Task) -> Assignment:
    """The assignment that SciPy finds by conditional gradients, and swaps after it.

    Source: Vogelstein et al., "Fast approximate quadratic programming for graph matching", PLOS
    ONE 10, 2015.
    """
    from scipy.optimize import quadratic_assignment  # slow to import

    sides = (each.toarray().astype(float) for each in _padded(*task[:2]))
    found = quadratic_assignment(*sides, method="faq", options={"maximize": True})
    partner = found.col_ind[: task.source.shape[0]]
    return swap(task, Assignment(partner, kept_weight(task, partner)))


def _inverse(partner: Array, size: int) -> Array:
    """Partners [N] of K -> partners [K], -1 for none."""
    inverse = np.full(size, -1)
    inverse[partner] = np.arange(len(partner))
    return inverse


def _padded(source: csr_array, target: csr_array) -> tuple[csr_array, csr_array]:
    """Graphs of one size: nodes without edges join the smaller one."""
    size = max(source.shape[0], target.shape[0])
    entries = (each.tocoo() for each in (source, target))
    first, second = (coo_array((each.data, each.coords), (size, size)).tocsr() for each in entries)
    return first, second


def _most(task: Task) -> float:
    """A bound of what assignments keep, by Cauchy and Schwarz, and by the largest weight.

    For graphs without weights, that is all edges of the graph with fewer.
    """
    first, second = (np.abs(each.data.astype(np.float64)) for each in task[:2])
    bounds = [float(np.sqrt((first**2).sum() * (second**2).sum()))]
    bounds += [
        float(each.sum() * other.max(initial=0.0))
        for each, other in ((first, second), (second, first))
    ]
    return min(bounds)
