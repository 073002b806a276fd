"""Clusters whose probabilities diffuse, as a clusterer of scikit-learn's."""

import logging
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import ClusterMixin

from .._checks import check_positive_int
from ..nn.agreement_conductance import normalize_rows
from ..training import choose_num_classes
from .class_estimator import ClassEstimator
from .fitted_graph import FittedGraph

logger = logging.getLogger(__name__)


class DiffusionClusterer(ClusterMixin, ClassEstimator):
    """Clusters points without labels: a classifier whose probabilities diffuse teaches itself.

    Fits a :class:`~jsem_pyg.nn.DiffusionClassifier` to the neighbour graph of X by
    :func:`~jsem_pyg.training.self_train`. New points do not change what was fitted, nor each other:
    one that is equal to a fitted point is of its cluster; any other is joined to its nearest fitted
    points, classified by its own features, and hears the diffused probabilities of its neighbours
    (:mod:`jsem_pyg.nn.class_field`).

    Args:
        n_clusters: how many, or "auto": as many as hold heat together and can be told apart without
            the graph (:func:`~jsem_pyg.training.choose_num_classes`). Where you know the number,
            say it.
        n_neighbors: neighbours of each point, at most half of the others.
        metric: "cosine" (1 - cos; a row of zeros is joined to nobody) or "l2".
        t: how long features diffuse before they are clustered, > 0, or "auto": of ten times from 1
            to 50 the one whose clusters have the highest modularity. Probabilities diffuse for
            that time or half of it.
        kernel: how distances become weights: "gaussian", "self_tuning", "cosine" or None (ones).
        max_clusters: the largest number that "auto" tries.
        n_components: sparse X of more columns is first reduced to so many by `TruncatedSVD`.
        random_state: of k-means, of an approximate search (above 100,000 points) and of the
            reduction.
        n_jobs: how many threads, -1 for all; None for what the libraries take.

    Attributes:
        labels_: [N] the cluster of each fitted point, from 0 on.
        probabilities_: `[N, n_clusters_]` how probable each cluster is for it.
        n_clusters_: how many clusters there are; fewer than `n_clusters` where some lost all their
            points, which is logged.
        edge_index_: [2, E] the graph, both directions of every edge.
        edge_weight_: [E] the weights of its edges.
        conductances_: [E] how well each edge conducts, in (0, 1].
        t_: how long probabilities diffuse.
        curve_: the score of every number that "auto" tried, or None.
        n_neighbors_: the number of neighbours.
        reducer_: the `TruncatedSVD` of sparse X, or None.
        n_features_in_: the number of columns of X.
        feature_names_in_: their names, if all are strings.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(60, 2)) / 9 + np.repeat(np.eye(2), 30, axis=0)
        >>> clusterer = DiffusionClusterer(2, random_state=0).fit(X)
        >>> len(set(clusterer.labels_[:30])), len(set(clusterer.labels_[30:]))
        (1, 1)
        >>> bool(clusterer.predict([[1.2, 0.1]])[0] == clusterer.labels_[0])
        True
    """

    def __init__(
        self,
        n_clusters: int | Literal["auto"] = "auto",
        *,
        n_neighbors: int = 15,
        metric: str = "cosine",
        t: float | Literal["auto"] = "auto",
        kernel: str | None = "gaussian",
        max_clusters: int = 30,
        n_components: int = 100,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.t = t
        self.kernel = kernel
        self.max_clusters = max_clusters
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters of X.

        Args:
            X: [N, D] array, data frame or sparse matrix, finite, N >= 3.
            y: not looked at.

        Raises:
            TypeError: if a parameter is of the wrong type.
            ValueError: if X or a parameter does not fit.
        """
        check_positive_int("max_clusters", self.max_clusters)
        if not self._is_auto:
            check_positive_int("n_clusters", self.n_clusters)
        with self._threads():
            graph, seed, _ = self._fit_graph(X)
            count = self._count_clusters(graph, seed)
            p = self._train(graph, seed, count)
        kept, labels = p.argmax(-1).unique(return_inverse=True)
        if len(kept) < count:
            logger.warning("%d of %d clusters have no point left.", count - len(kept), count)
        self._classes = kept
        self.n_clusters_ = len(kept)
        self.labels_ = labels.numpy()
        self.probabilities_ = self._of_classes(p).numpy()
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable cluster [M] of each point [M, D], by itself."""
        return self.predict_proba(X).argmax(1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """How probable each cluster is for points [M, D], each by itself: `[M, n_clusters_]`.

        Raises:
            ValueError: if X does not fit to what was fitted.
        """
        return self._of_classes(self._probabilities(X)).numpy()

    @property
    def _is_auto(self) -> bool:
        return isinstance(self.n_clusters, str) and self.n_clusters == "auto"

    def _count_clusters(self, graph: FittedGraph, seed: int) -> int:
        """As many as asked for, or as fit the graph best."""
        self.curve_ = None
        if self._is_auto:
            chosen = choose_num_classes(graph.data, largest=self.max_clusters, seed=seed)
            self.curve_ = chosen.curve
            return chosen.num_classes
        count = int(self.n_clusters)
        if count > len(graph.graph.x):
            raise ValueError(
                f"Expected 'n_clusters' to be at most the number of points (got {count} for "
                f"{len(graph.graph.x)} points)."
            )
        return count

    def _of_classes(self, p: torch.Tensor) -> torch.Tensor:
        """The probabilities of clusters that have points."""
        return p if len(self._classes) == p.size(1) else normalize_rows(p[:, self._classes])
