"""How much features say about pairs of nodes: a likelihood ratio that is learned from edges."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from ..profiles import Comparable
from .assignment import BLOCK
from .likeness import NEAREST, find_nearest
from .soft import Soft

Array = NDArray[Any]

RANDOM_PAIRS = 1 << 18  # whose distances are compared
DISTANCE_STEPS = 16
PRIOR_PAIRS = 10.0  # pairs that features which say nothing count as
LEAST_LEARNED = 0.01  # probability of a pair from which the ratio is learned


class FeatureLikelihood:
    """The logarithm of P(distance | partners) / P(distance | random pair), in steps.

    Distances are compared by their rank among random pairs: a step holds half as many of these as
    the step after it. Before anything is learned, the ratio is the inverse root of the
    rank. Then it is the share of likely partners in a step over the share of random pairs, and does
    not grow with distance.

    Args:
        first: [N, d] features of the source, dense or a SciPy CSR array, float32.
        second: [K, d] features of the target, in the same space.
        seed: of the random pairs.
        weight: what the logarithm is multiplied by.
    """

    def __init__(self, first: Any, second: Any, seed: int, weight: float = 1.0) -> None:
        self.first, self.second, self.weight = first, second, weight
        draw = np.random.default_rng(seed)
        ends = (draw.integers(0, each.shape[0], RANDOM_PAIRS) for each in (first, second))
        distance = self._distances(*ends)
        shares = 2.0 ** np.arange(-DISTANCE_STEPS, 0)
        self.steps = np.unique(np.quantile(distance, shares))
        count = np.bincount(self._step(distance), minlength=len(self.steps) + 1) + 0.5
        self.random = count / count.sum()
        self.ratio = -0.5 * np.log(np.cumsum(self.random))
        self.nearest = self._find_nearest(seed)

    def start(self) -> Soft:
        """Score the nearest pairs by features alone."""
        return Soft(self.nearest, self._scores(self.nearest))

    def learn(self, beliefs: csr_array) -> None:
        """Learn the ratio from probabilities of pairs that edges alone give."""
        from sklearn.isotonic import IsotonicRegression  # slow to import

        entries = beliefs.tocoo()
        likely = entries.data > LEAST_LEARNED
        step = self._step(self._distances(*(each[likely] for each in entries.coords)))
        found = np.bincount(step, entries.data[likely], len(self.random))
        few = PRIOR_PAIRS
        share = (found + few * self.random) / (found.sum() + few)
        place = np.arange(len(share))
        model = IsotonicRegression(increasing=False)
        model.fit(place, np.log(share / self.random), sample_weight=share)
        self.ratio = model.predict(place)

    def bits(self) -> float:
        """Compute what a partner's distance says on average, in bits: zero for random features."""
        share = self.random * np.exp(self.ratio)
        return float((share * self.ratio).sum() / share.sum() / np.log(2))

    def joined(self, column: Array, score: Array, offset: Array) -> Soft:
        """Add features to scores by edges, and the pairs that only features suggest."""
        size = len(offset)
        row = np.arange(len(column))[:, None] * size
        scored = np.where(column >= 0, row + column, -1)
        is_open = (column >= 0).any(1, keepdims=True) & (offset[self.nearest] > -np.inf)
        new = np.where(is_open & ~np.isin(row + self.nearest, scored), self.nearest, -1)
        both = np.concatenate([column, new], 1)
        by_edges = np.concatenate([score, np.where(new >= 0, offset[new], -np.inf)], 1)
        return Soft(both, (by_edges + self._scores(both)).astype(np.float32))

    def _scores(self, column: Array) -> Array:
        """Compute the logarithms for columns [N, m], -1 for none."""
        row, place = np.nonzero(column >= 0)
        found = np.full(column.shape, -np.inf, np.float32)
        ratio = self.ratio[self._step(self._distances(row, column[row, place]))]
        found[row, place] = self.weight * ratio
        return found

    def _step(self, distance: Array) -> Array:
        return np.searchsorted(self.steps, distance, "left")

    def _distances(self, row: Array, column: Array) -> Array:
        """Compute squared distances of pairs, some at a time."""
        found = np.empty(len(row), np.float32)
        block = max(1, BLOCK // (8 * self.first.shape[1]))
        block = BLOCK if issparse(self.first) else block
        for start in range(0, len(row), block):
            some = slice(start, start + block)
            apart = self.first[row[some]] - self.second[column[some]]
            found[some] = apart.power(2).sum(1) if issparse(apart) else np.square(apart).sum(1)
        return found

    def _find_nearest(self, seed: int) -> Array:
        """Find the nearest nodes of the target, [N, m] int32; of sparse features by blocks."""
        if not issparse(self.first):
            both = (torch.from_numpy(each) for each in (self.first, self.second))
            return find_nearest(Comparable(*both), seed)[0]
        size = self.second.shape[0]
        count = min(NEAREST, size)
        length = self.second.power(2).sum(1)
        column = np.empty((self.first.shape[0], count), np.int32)
        block = max(1, BLOCK // size)
        for start in range(0, len(column), block):
            product = (self.first[start : start + block] @ self.second.T).toarray()
            nearest = np.argpartition(length - 2 * product, count - 1, 1)
            column[start : start + block] = nearest[:, :count]
        return column
