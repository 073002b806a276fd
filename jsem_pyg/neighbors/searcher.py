"""Finds neighbours: one of the searches proposes them, their true distances rank them."""

import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checks import check_bool, check_choice, check_nonnegative_int, check_positive
from .._progress import progress_bar
from .._random import seeded
from .flat_search import FlatSearch
from .points import Points
from .search import ApproximateSearch, Search
from .searches import SEARCHES

logger = logging.getLogger(__name__)

# A search compares in float32. So many more points than wanted are proposed and ranked by their own
# distances, so that rounding does not choose the last.
_SPARE = 8

# So few points are compared one by one, whatever the index.
_FEW = 128

# How many points are searched for at once.
_CHUNK_POINTS = 1 << 14

# How many points the recall is measured on.
_RECALL_SAMPLE = 1000


@dataclass(frozen=True)
class SearchOptions:
    """Options of a neighbour search; see :func:`~.knn.knn_search`."""

    index: str = "auto"
    recall_target: float = 0.95
    seed: int = 0
    progress: bool = True

    def __post_init__(self) -> None:
        check_choice("index", self.index, ("auto", *SEARCHES))
        check_positive("recall_target", self.recall_target)
        if self.recall_target > 1:
            raise ValueError(f"Expected 'recall_target' in (0, 1] (got {self.recall_target}).")
        check_nonnegative_int("seed", self.seed)
        object.__setattr__(self, "seed", int(self.seed))  # not NumPy's, of few bits
        check_bool("progress", self.progress)


class Searcher:
    """Finds the nearest of N points, again and again; the recall is measured for k neighbours."""

    def __init__(self, points: Points, k: int, options: SearchOptions) -> None:
        self.points, self.progress = points, options.progress
        self.word = choose_search(points, options.index)
        self.search = SEARCHES[self.word](points, options.seed)
        self._exact = self.search if self.search.is_exact else None
        if isinstance(self.search, ApproximateSearch):
            self._reach_recall(self.search, k, options)
            self._exact = None  # which holds a copy of the points; few need it again

    def neighbors(self, k: int) -> tuple[Tensor, Tensor]:
        """Find the k nearest other points of every point: numbers and distances [N, k].

        If there are fewer others, there are as many columns; a lone point is its own neighbour.
        """
        num_points = self.points.num_points
        if num_points == 1:
            itself = torch.zeros(1, 1, dtype=torch.int64)
            return itself, torch.zeros(1, 1, dtype=self.points.coordinates.dtype)
        order = self.search.order(num_points)
        return self._find_all(self.points, order, min(k, num_points - 1), among_itself=True)

    def nearest(self, query: Points, k: int) -> tuple[Tensor, Tensor]:
        """Find the k nearest points of every point of `query`: numbers and distances [M, k]."""
        return self._find_all(query, torch.arange(query.num_points), k, among_itself=False)

    def _find_all(
        self, query: Points, order: Tensor, k: int, among_itself: bool
    ) -> tuple[Tensor, Tensor]:
        """Find the neighbours of all points of `query`, in this order."""
        neighbor = torch.empty(query.num_points, k, dtype=torch.int64)
        distance = query.coordinates.new_empty(query.num_points, k)
        with progress_bar("neighbours", query.num_points, self.progress) as advance:
            for index in order.split(_CHUNK_POINTS):
                found, apart = self._find(self.search, query, index, k, among_itself)
                missing = apart[:, -1].isinf()
                if bool(missing.any()):  # an approximate search may find fewer
                    again = self._find(self.exact, query, index[missing], k, among_itself)
                    found[missing], apart[missing] = again
                neighbor[index], distance[index] = found, apart
                advance(index.numel())
        return neighbor, distance

    def _find(
        self, search: Search, query: Points, index: Tensor, k: int, among_itself: bool
    ) -> tuple[Tensor, Tensor]:
        """Find the k nearest points of the points `index` [Q] of `query`: [Q, k], ascending.

        Of equal distances the lower number comes first. Distances are infinite if too few points
        are found.
        """
        count = min(self.points.num_points, k + among_itself + _SPARE)
        candidate = search.find(query.centred(index), count).sort(dim=1).values
        source = index.repeat_interleave(count)
        distance = query.distance(source, candidate.flatten().clamp(min=0), to=self.points)
        distance = distance.view_as(candidate).masked_fill(candidate < 0, torch.inf)
        if among_itself:
            distance = distance.masked_fill(candidate == index[:, None], torch.inf)
        distance, order = distance.sort(dim=1, stable=True)
        return candidate.gather(1, order)[:, :k].contiguous(), distance[:, :k].contiguous()

    @property
    def exact(self) -> Search:
        """An exact search of the same points."""
        if self._exact is None:
            self._exact = FlatSearch(self.points, seed=0)
        return self._exact

    def _reach_recall(self, search: ApproximateSearch, k: int, options: SearchOptions) -> None:
        """Double the budget until the target is met on a sample, and log the recall."""
        sample = torch.randperm(self.points.num_points, generator=seeded(options.seed))
        sample = sample[:_RECALL_SAMPLE]
        last = self._find(self.exact, self.points, sample, k, among_itself=True)[1][:, -1:]
        while True:
            found = self._find(search, self.points, sample, k, among_itself=True)[1]
            # By distance: which of several duplicates was found does not matter.
            share = (found <= last).double().mean(1)
            recall, error = float(share.mean()), float(share.std()) / len(share) ** 0.5
            if recall - error >= options.recall_target or search.budget == search.most:
                break
            search.set_budget(min(2 * search.budget, search.most))
        is_met = recall >= options.recall_target
        logger.log(
            logging.INFO if is_met else logging.WARNING,
            "Recall of index=%r on a sample of %d points: %.4f ± %.4f (target %g%s), budget %d of "
            "at most %d.",
            self.word,
            len(sample),
            recall,
            error,
            options.recall_target,
            "" if is_met else " missed; to fix this, use index='ivf' or 'flat'",
            search.budget,
            search.most,
        )


def choose_search(points: Points, index: str) -> str:
    """Return the search in the table that `index` means; "auto" is the first that suits."""
    if points.num_points <= _FEW:
        return "flat"
    if index != "auto":
        return index
    return next(word for word, search in SEARCHES.items() if search.suits(points))
