"""The base of the transformers: new columns for the points of a neighbour graph."""

from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from torch import Tensor

from .neighbor_estimator import NeighborEstimator


class NeighborTransformer(TransformerMixin, NeighborEstimator):
    """An estimator that gives each point new columns.

    Attributes:
        embedding_: [N, C] the columns of the fitted points.
    """

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit to X and return its new columns: [N, C]."""
        self.fit(X, y)
        return self.embedding_.copy()

    def transform(self, X: Any) -> np.ndarray:
        """Compute the new columns of points [M, D], placed in the fitted graph one by one."""
        return self._columns(self._evaluate(X))

    def _end_fit(self, of_nodes: Tensor) -> None:
        """Keep the new columns of the fitted points."""
        self._of_nodes = of_nodes
        self.embedding_ = self._columns(of_nodes).copy()  # users may change it
        self._is_fitted = True

    def _columns(self, result: Tensor) -> np.ndarray:
        return result.numpy()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
