"""Heat on the neighbour graph, as a transformer of scikit-learn's."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import OneToOneFeatureMixin
from torch import Tensor

from ..diffusion.inductive import heat_field
from ..training.heat_classifier import TIMES, choose_time
from .neighbor_estimator import NeighborTransformer

_NORMALIZATION = "rw"  # takes means, of whatever degree


class HeatDiffusion(OneToOneFeatureMixin, NeighborTransformer):
    r"""Smooths points along their neighbour graph: :math:`e^{-t \mathbf{L}} \mathbf{X}`.

    Every point becomes a mean of the points from which heat comes in the time t, itself and its
    neighbours first; noise goes, clusters draw together. The columns are those of X.

    New points do not change what was fitted, nor each other. One that is equal to a fitted point
    becomes what that point became. Any other point x is joined to its k nearest fitted points with
    the weights w_j that the graph's kernel gives, receives their heat for the same time, and
    becomes

    .. math::
        e^{-t} \, \mathbf{x} + \sum_j \frac{w_j}{\sum_i w_i} \int_0^t e^{-(t - s)} \,
        \mathbf{y}_j(s) \, ds.

    Here :math:`\mathbf{y}_j(s)` is what its neighbour j has become after the time s. This is exact
    heat on the graph with x and edges that lead to it; for t = 0 it is x. L is the random walk's
    Laplacian, :math:`\mathbf{I} - \mathbf{D}^{-1} \mathbf{W}`.

    Args:
        n_neighbors: neighbours of each point, at most half of the others.
        metric: "cosine" (1 - cos; a row of zeros has no neighbour), "l2", or "auto": "l2" for up to
            50 columns unless rows have length one, "cosine" for embeddings.
        scale: what columns are divided by: "robust" (their interquartile range), "standard" (their
            standard deviation), None, or "auto": "robust" for "l2" if the columns have different
            units (neighbouring values of one lie thirty times farther apart than of another).
        t: how long heat flows, >= 0, or "auto": of eight times from 0.5 to 20 the one that the
            unsupervised triplet loss prefers (:func:`jsem_pyg.training.select_time`).
        kernel: how distances become weights: "gaussian", "self_tuning", "cosine" or None (ones).
        random_state: of the triplets and of an approximate search (above 100,000 points).

    Attributes:
        embedding_: [N, D] what the fitted points became.
        t_: the time.
        n_neighbors_: the number of neighbours.
        metric_: "cosine" or "l2".
        scale_: what the columns are divided by, [D], or None: interquartile ranges over 1.35, the
            standard deviation of a normal distribution.
        n_features_in_: D, the number of columns of X.
        feature_names_in_: their names, if all are strings.

    Source: Coifman and Lafon, "Diffusion maps", 2006, for heat on neighbour graphs.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(40, 3))
        >>> heat = HeatDiffusion(n_neighbors=5, t=1.0).fit(X)
        >>> heat.transform(X[:2] + 0.1).shape
        (2, 3)
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Diffuse X on its neighbour graph: [N, D] array or data frame, N >= 3."""
        with self._threads(X):
            self._fit_graph(X)
            graph = self._graph.graph
            if self.t == "auto":
                self.t_ = choose_time(graph, TIMES, _NORMALIZATION, self._seed).t
            else:
                self.t_ = float(self.t)
            self._field = heat_field(
                graph.x, *self._graph.edges, self.t_, normalization=_NORMALIZATION
            )
        self._end_fit(self._field.heat)
        return self

    def _at(self, x: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        return self._field.at(x, neighbor, weight)

    def _columns(self, result: Tensor) -> np.ndarray:
        """Keep the units of X: heat flows in each column by itself, whatever its unit."""
        if self.scale_ is not None:
            result = result * torch.from_numpy(self.scale_).to(result.dtype)
        return result.numpy()
