"""From features to a good assignment: the start, and the order of the moves."""

import logging
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from .assignment import Assignment, Task, best_assignment, greedy, kept_weight, make_task
from .branches import is_sparse, likely_pairs
from .candidates import search_candidates
from .confidence import edge_confidence
from .features import both_features, heat_features, local_features
from .moves import best_parts, open_nodes, percolate, swap
from .schedule import SCHEDULE
from .soft import anneal, soft_start

Array = NDArray[Any]

_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """Partners, and how the search came to them."""

    partner: Array  # [N] -1 for none
    stages: list[tuple[str, Array]]  # name, and the partners that it ended with


def search_assignment(source: csr_array, target: csr_array, max_iter: int, seed: int) -> Found:
    """Find an assignment that keeps many edges: every node of the smaller side has a partner.

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
    search = _Search(source, target, max_iter, seed)
    best = search.run()
    return Found(best.partner, search.stages)


class _Search:
    """A search that keeps its stages."""

    def __init__(self, source: csr_array, target: csr_array, max_iter: int, seed: int) -> None:
        self.sides, self.max_iter, self.seed = (source, target), max_iter, seed
        self.num_pairs = source.shape[0] * target.shape[0]
        self.local = local_features(source, target)
        self.task = make_task(source, target, self.local, seed)
        self.most = _most(self.task)
        self.stages: list[tuple[str, Array]] = []

    def run(self) -> Assignment:
        """Find the best assignment: the last stage has it."""
        self.stages += search_candidates(self.task, self.max_iter)
        best = Assignment(self.stages[-1][1], kept_weight(self.task, self.stages[-1][1]))
        if self.num_pairs > SCHEDULE.most_pairs:
            _log.info("match_graphs stays with candidates between %d x %d nodes.", *self._sizes())
            return best
        best = self._improve("neighbours", best)
        if self._misses(best, SCHEDULE.copy):
            best = self._search_longer(best)
        return self._note("best", best)

    def _search_longer(self, best: Assignment) -> Assignment:
        if self.num_pairs <= SCHEDULE.most_heat:
            heat = heat_features(*self.sides)
            self.task = make_task(*self.sides, heat, self.seed)
            best = self._cross("heat", best, self.task)
            if self._misses(best, SCHEDULE.nearly) and not is_sparse(*self.sides):
                both = both_features(self.local, heat)
                best = self._cross("both profiles", best, make_task(*self.sides, both, self.seed))
        is_branched = self.num_pairs <= SCHEDULE.most_branched and is_sparse(*self.sides)
        if self._misses(best, SCHEDULE.copy) and is_branched:
            likely = likely_pairs(*padded(*self.sides))[: self._sizes()[0]]
            alike = best_assignment(self.task, likely, best.partner)
            best = best_parts(self.task, best, self._improve("branches", alike))
        if self._misses(best, SCHEDULE.copy):
            best = self._anneal(best)
        if self._misses(best, SCHEDULE.nearly) and self.num_pairs <= SCHEDULE.most_relaxed:
            other = self._note("relaxed", _relaxed(self.task))
            best = max(best, other, key=lambda each: each.kept)
        return best

    def _anneal(self, best: Assignment) -> Assignment:
        """Repeat annealing until a whole round of confidences brings nothing.

        Or until edges are still kept by chance after a round: there is nothing to follow.
        """
        since, confidence = 0, edge_confidence(*self.sides, best.partner)
        for number in range(self.max_iter):
            least = SCHEDULE.confident[number % len(SCHEDULE.confident)]
            confident = confidence >= least if least else None
            # The last of each round looks everywhere, the others where edges are missing.
            is_last = least == SCHEDULE.confident[-1]
            rows = None if is_last else open_nodes(self.task, best.partner, confident)
            found = anneal(self.task, best, confident=confident, rows=rows)
            found = best_parts(self.task, best, self._note("annealing", swap(self.task, found)))
            has_gained = found.kept - best.kept > SCHEDULE.gain * best.kept
            since = 0 if has_gained else since + 1
            if found is not best:
                best, confidence = found, edge_confidence(*self.sides, found.partner)
            is_hopeless = is_last and _is_chance(*self.sides, best.partner)
            if since == len(SCHEDULE.confident) or is_hopeless:
                break
        return best

    def _cross(self, stage: str, best: Assignment, task: Task) -> Assignment:
        """Take the best of a start from features, of what was found, and of both annealed."""
        start = max(greedy(task), soft_start(task), key=lambda each: each.kept)
        other = self._note(stage, swap(task, percolate(task, start)))
        mixed = self._note("both", swap(task, anneal(task, best, other)))
        return best_parts(task, best_parts(task, best, other), mixed)

    def _improve(self, stage: str, start: Assignment) -> Assignment:
        return self._note(stage, swap(self.task, percolate(self.task, start)))

    def _note(self, stage: str, found: Assignment) -> Assignment:
        self.stages.append((stage, found.partner))
        return found

    def _misses(self, found: Assignment, share: float) -> bool:
        """Return True if less than a share of the most is kept."""
        return found.kept < share * self.most

    def _sizes(self) -> tuple[int, int]:
        return self.sides[0].shape[0], self.sides[1].shape[0]


def _is_chance(source: csr_array, target: csr_array, partner: Array) -> bool:
    """Return True if edges are kept as between graphs that have nothing in common.

    Only the number of edges that partners share counts, not their weights.
    """
    if any(np.ptp(each.data) > 0 for each in (source, target) if each.nnz):
        return False
    found, other = (
        float(edge_confidence(source, target, each).mean())
        for each in (partner, np.roll(partner, 1))
    )
    return found < SCHEDULE.unrelated + 2 * other


def _relaxed(task: Task) -> Assignment:
    """Find an assignment by SciPy's conditional gradients, and improve it by swaps.

    Source: Vogelstein et al., "Fast approximate quadratic programming for graph matching", PLOS
    ONE 10, 2015.
    """
    from scipy.optimize import quadratic_assignment  # slow to import

    sides = (each.toarray().astype(float) for each in padded(*task[:2]))
    found = quadratic_assignment(*sides, method="faq", options={"maximize": True})
    partner = found.col_ind[: task.source.shape[0]]
    return swap(task, Assignment(partner, kept_weight(task, partner)))


def _inverse(partner: Array, size: int) -> Array:
    """Turn partners [N] of K into partners [K], -1 for none."""
    inverse = np.full(size, -1)
    inverse[partner] = np.arange(len(partner))
    return inverse


def padded(source: csr_array, target: csr_array) -> tuple[csr_array, csr_array]:
    """Bring graphs to one size: nodes without edges join the smaller one."""
    size = max(source.shape[0], target.shape[0])
    entries = (each.tocoo() for each in (source, target))
    first, second = (coo_array((each.data, each.coords), (size, size)).tocsr() for each in entries)
    return first, second


def _most(task: Task) -> float:
    """Bound what assignments keep, by Cauchy and Schwarz, and by the largest weight.

    For graphs without weights, that is all edges of the graph with fewer.
    """
    first, second = (each.data.astype(np.float64) for each in task[:2])
    bounds = [float(np.sqrt((first**2).sum() * (second**2).sum()))]
    bounds += [
        float(each.sum() * other.max(initial=0.0))
        for each, other in ((first, second), (second, first))
    ]
    return min(bounds)
