"""Finds neighbours, exactly up to a number of points, approximately above it."""

import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from .._checks import check_bool, check_choice, check_nonnegative_int, check_positive
from .._progress import progress_bar
from .._random import seeded
from .all_pairs import all_pairs_neighbors
from .faiss_search import ApproximateIndex, faiss_nearest
from .groups import SMALL
from .mapped_rows import MappedRows
from .points import Points
from .tree_search import Tree, pays

logger = logging.getLogger(__name__)

INDEXES = ("auto", "flat", "hnsw", "ivf")

# "auto" searches more points than this approximately. On two cores with 64 features the exact
# search is as fast as the approximate one up to about 20,000 points; with 100,000 it takes 11 s
# against 2.4 s, and a hundred times that with a million. Below, being exact is worth the wait.
EXACT_LIMIT = 100_000

# Searches rank by float32 distances. That many more candidates are ranked again by their own
# distances, so that rounding at the k-th place does not choose.
_EXTRA_CANDIDATES = 8

# Points are searched for with more of them where these are alike beside the rounding of a search,
# such as copies of one point, and points of small groups that are far apart: up to so many, for so
# many points at once. Beyond, all points are compared.
_MOST_ALIKE, _WIDE_POINTS = 4096, 256

# What rounding may add to the square of a distance between points of one set. Of a set of equal
# distances, as between short documents without a common word, any may be taken.
_LONGER = 1e-4

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
        check_choice("index", self.index, INDEXES)
        check_positive("recall_target", self.recall_target)
        if self.recall_target > 1:
            raise ValueError(
                f"Expected 'recall_target' to be in (0, 1] (got {self.recall_target})."
            )
        check_nonnegative_int("seed", self.seed)
        object.__setattr__(self, "seed", int(self.seed))  # not NumPy's, of few bits
        check_bool("progress", self.progress)


class Searcher:
    """Finds the nearest of N points, again and again; the recall is measured for k neighbours."""

    def __init__(self, points: Points, k: int, options: SearchOptions) -> None:
        self.points = points
        self.progress = options.progress
        self.base: Tensor | None = None
        self.tree: Tree | None = None
        kind = choose_index(points, options.index)
        self.index: ApproximateIndex | None = None
        if kind != "flat":
            self.index = ApproximateIndex(kind, points, options.seed, options.progress)
            self._reach_recall(k, options)

    def neighbors(self, k: int) -> tuple[Tensor, Tensor]:
        """The k nearest other points of every point: indices and distances [N, k], ascending."""
        if self.points.num_points <= SMALL:
            everyone = torch.arange(self.points.num_points)[None]
            neighbor, distance = all_pairs_neighbors(self.points, everyone, everyone >= 0, k)
            return neighbor[0], distance[0]
        if self.index is not None:
            return self._search(self.points, k, True, self.index.order())
        return self._exactly(self.points, k, among_itself=True)

    def nearest(self, query: Points, k: int) -> tuple[Tensor, Tensor]:
        """The k nearest points of every point of `query`: indices and distances [M, k].

        Of points at the same distance the first are taken, independently of the other rows of
        `query`, except by an approximate index, which finds only some of them.
        """
        if self.index is not None:
            return self._search(query, k, among_itself=False)
        return self._exactly(query, k, among_itself=False)

    def _exactly(self, query: Points, k: int, among_itself: bool) -> tuple[Tensor, Tensor]:
        """The k nearest points, also where a search in float32 does not tell them apart."""
        wanted = min(self.points.num_points - among_itself, k + _EXTRA_CANDIDATES)
        neighbor, distance = self._search(query, wanted, among_itself)
        everyone = torch.arange(query.num_points)
        least = _LONGER if among_itself else 0.0
        open_ends = self._open_ends(query, everyone, distance, k, least).nonzero()[:, 0]
        neighbor, distance = neighbor[:, :k].contiguous(), distance[:, :k].contiguous()
        for row in open_ends.split(_WIDE_POINTS) if open_ends.numel() else ():
            neighbor[row], distance[row] = self._wide(query, row, k, wanted, among_itself)
        return neighbor, distance

    def _wide(
        self, query: Points, row: Tensor, k: int, wanted: int, among_itself: bool
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`_exactly`, for rows of which more than `wanted` candidates are alike."""
        most = min(self.points.num_points - among_itself, k + _MOST_ALIKE)
        least = _LONGER if among_itself else 0.0
        while wanted < most:
            wanted = min(4 * wanted, most)
            neighbor, distance = self._chunk(query, row, wanted, among_itself)
            if not bool(self._open_ends(query, row, distance, k, least).any()):
                break
        is_open = self._open_ends(query, row, distance, k, _LONGER)
        neighbor, distance = neighbor[:, :k].contiguous(), distance[:, :k].contiguous()
        if bool(is_open.any()) and not self.points.is_mapped:
            found = self._by_differences(query, row[is_open], k, among_itself)
            neighbor[is_open], distance[is_open] = found
        return neighbor, distance

    def _by_differences(
        self, query: Points, row: Tensor, k: int, among_itself: bool
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`_exactly`, by the coordinate differences from all points."""
        parts = []
        for few, apart in query.apart_from_all(row, self.points):
            candidate = apart.sort(dim=1, stable=True).indices[:, : k + 1]
            itself = few if among_itself else None
            parts.append(rank(self.points, query, few, candidate, itself, k))
        neighbor, distance = (torch.cat(each) for each in zip(*parts, strict=True))
        return neighbor, distance

    def _open_ends(
        self, query: Points, row: Tensor, distance: Tensor, k: int, least: float
    ) -> Tensor:
        """True [M] where a search in float32 may have left out one of the k nearest.

        So it may where the last candidate [M, wanted] is no farther than the k-th by more than the
        rounding of a search. A rounding below `least` of the square does not count, nor do copies:
        nothing is nearer than a copy.
        """
        if distance.size(1) >= self.points.num_points - (query is self.points):
            return torch.zeros_like(row, dtype=torch.bool)
        scale = query.scale[row]
        squared = self.points.to_squared(distance[:, [k - 1, -1]], scale[:, None])
        rounding = query.search_rounding(row, squared[:, 1], by_tree=self.tree is not None)
        is_open = squared[:, 1] - squared[:, 0] <= rounding
        if least > 0:
            is_open &= rounding > least * squared[:, 0]
            is_open &= ~query.is_copy(row, squared[:, 0])
        return is_open

    def _search(
        self, query: Points, k: int, among_itself: bool, order: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        order = torch.arange(query.num_points) if order is None else order
        neighbor = torch.empty(query.num_points, k, dtype=torch.int64)
        distance = query.coordinates.new_empty(query.num_points, k)
        with progress_bar("neighbours", query.num_points, self.progress) as advance:
            for chunk in order.split(_CHUNK_POINTS):
                neighbor[chunk], distance[chunk] = self._chunk(query, chunk, k, among_itself)
                advance(chunk.numel())
        return neighbor, distance

    def _chunk(
        self, query: Points, index: Tensor, k: int, among_itself: bool
    ) -> tuple[Tensor, Tensor]:
        """The k nearest points of the points `index` [Q] of `query`: [Q, k], ascending."""
        neighbor, distance = self._candidates(query, index, k, among_itself, exactly=False)
        missing = distance[:, -1].isinf()
        if bool(missing.any()):  # an approximate index may find fewer
            found = self._candidates(query, index[missing], k, among_itself, exactly=True)
            neighbor[missing], distance[missing] = found
        return neighbor, distance

    def _candidates(
        self, query: Points, index: Tensor, k: int, among_itself: bool, exactly: bool
    ) -> tuple[Tensor, Tensor]:
        """As :meth:`_chunk`, with infinite distances for what an approximate index has missed."""
        # An exact search asks for more of them anyway.
        spare = 0 if self.index is None else _EXTRA_CANDIDATES
        count = min(self.points.num_points, k + among_itself + spare)
        rows = query.centred(index)
        if self.index is None or exactly:
            candidate = self._exact(rows, count)
        else:
            candidate = self.index.search(rows, count)
        itself = index if among_itself else None
        return rank(self.points, query, index, candidate, itself, k)

    def _exact(self, rows: Tensor, k: int) -> Tensor:
        if self.points.is_mapped:
            return block_neighbors(rows, self.points, k)
        if self.base is None:
            self.base = self.points.centred()
            self.tree = Tree(self.base) if pays(self.base) else None
        if self.tree is not None:
            return self.tree.search(rows, k)
        return faiss_nearest(rows, self.base, k)[1]

    def _reach_recall(self, k: int, options: SearchOptions) -> None:
        """Raise the effort until the target is met on a sample, and report what was reached."""
        assert self.index is not None
        generator = seeded(options.seed)
        sample = torch.randperm(self.points.num_points, generator=generator)[:_RECALL_SAMPLE]
        last = self._candidates(self.points, sample, k, True, exactly=True)[1][:, -1:]
        self.base = self.tree = None  # only kept where it is searched again
        while True:
            found = self._candidates(self.points, sample, k, True, exactly=False)[1]
            # By distance: which of several duplicates was found does not matter.
            share = (found <= last).double().mean(1)
            recall = float(share.mean())
            error = float(share.std()) / share.numel() ** 0.5 if share.numel() > 1 else 0.0
            if recall - error >= options.recall_target or not self.index.raise_effort():
                break
        self._report(recall, error, options.recall_target)

    def _report(self, recall: float, error: float, target: float) -> None:
        assert self.index is not None
        met = recall >= target
        logger.log(
            logging.INFO if met else logging.WARNING,
            "Recall of index=%r on a sample of %d points: %.4f ± %.4f (target %g%s), effort %d "
            "of at most %d.",
            self.index.kind,
            min(self.points.num_points, _RECALL_SAMPLE),
            recall,
            error,
            target,
            "" if met else " missed; to fix this, use index='ivf' or 'flat'",
            self.index.effort,
            self.index.most,
        )


def choose_index(points: Points, index: str) -> str:
    """The index type for these points: "flat", "hnsw" or "ivf"."""
    if points.num_points <= SMALL:
        return "flat"
    if index != "auto":
        return index
    if points.num_points <= EXACT_LIMIT:
        return "flat"
    if not points.is_mapped and pays(points.centred()):
        return "flat"
    return "ivf"


def block_neighbors(query: Tensor, points: Points, k: int) -> Tensor:
    """For each query [Q, F] the k nearest points: [Q, k]; the points are read block by block."""
    assert isinstance(points.coordinates, MappedRows)
    best = query.new_full((query.size(0), k), torch.inf)
    found = torch.full((query.size(0), k), -1)
    for block in points.coordinates.blocks():
        count = min(k, block.stop - block.start)
        squared, index = faiss_nearest(query, points.centred(block), count)
        best, order = torch.cat([best, squared], dim=1).topk(k, largest=False)
        found = torch.cat([found, index + block.start], dim=1).gather(1, order)
    return found


def rank(
    points: Points, query: Points, index: Tensor, candidate: Tensor, itself: Tensor | None, k: int
) -> tuple[Tensor, Tensor]:
    """The k nearest of the candidates [Q, C] (without `itself` [Q] and -1), and distances: [Q, k].

    They ascend; ties go to the lower index. Where there are fewer, distances are infinite.
    """
    candidate = candidate.sort(dim=1).values
    source = index.repeat_interleave(candidate.size(1))
    distance = query.distance(source, candidate.flatten().clamp(min=0), to=points)
    distance = distance.view_as(candidate).masked_fill(candidate < 0, torch.inf)
    if itself is not None:
        distance = distance.masked_fill(candidate == itself[:, None], torch.inf)
    distance, order = distance.sort(dim=1, stable=True)
    return candidate.gather(1, order)[:, :k].contiguous(), distance[:, :k].contiguous()
