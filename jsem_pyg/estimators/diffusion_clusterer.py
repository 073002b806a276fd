"""Clusters on a neighbour graph, as a clusterer of scikit-learn's."""

import logging
import os
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from .._checks import check_positive_int
from .._files import as_path
from .._precision import normalize_rows
from .._tensor_file import load_tree, save_tree
from ..training.choose_num_classes import Level, choose_levels
from ..training.clusters import SpectralClusters
from ..training.distinctness import add_rivals, lie_apart, measure_distinctness, metric_of
from ..training.training_graph import TrainingGraph
from .cluster_tree import ClusterLevel, ClusterTree
from .columns import name_by_columns
from .neighbor_estimator import ClassEstimator, FittedGraph

logger = logging.getLogger(__name__)

_KIND = "fitted clusterer"
_ROWS, _LEAST = 2_000, 1e-15  # by which metrics are compared; entries that have distances
_ROUNDINGS = 16  # by which points may differ, since a type of fewer digits holds them
# What a file keeps of the fitted attributes as it is.
_VALUES = ["n_neighbors_", "n_features_in_", "metric_", "scale_", "by_graph_", "curve_"]
_VALUES += ["cluster_names_", "distinctness_", "_seed"]


class DiffusionClusterer(ClusterMixin, ClassEstimator):
    """Clusters points without labels, on the graph of their nearest neighbours.

    Of two clusterings the better one is kept. Self-training (:func:`~jsem_pyg.training.fit`) finds
    clusters that overlap, such as those of embeddings. Spectral clustering (k-means of the
    smoothest modes of the graph) finds clusters that lie apart, of any shape and size. It is kept
    if the eigenvalues leave a gap after so many, if self-training loses clusters, or if the valleys
    around its clusters are deeper; where they are alike, if its modularity is 0.01 higher.

    New points change nothing. One that is equal to a fitted point has its probabilities. Any other
    is joined to its nearest fitted points: it begins with its own class (self-training) or their
    mean (spectral clustering), and receives their diffused probabilities.

    Args:
        n_clusters: how many, or "auto": the number of clusters that lie apart, else that of the
            highest score, else 1 (:func:`~jsem_pyg.training.choose_num_classes`). Up to two other
            levels are fitted as well, see `tree_`. If you know the number, pass it.
        n_neighbors, metric, scale, kernel: as in :class:`HeatDiffusion`; where only distances show
            clusters that lie apart, "auto" does not take the cosine.
        t: how long features diffuse before they are clustered, > 0, or "auto": of ten times from 1
            to 50 that of the highest modularity. Probabilities diffuse as long, or half of it.
        max_clusters: the largest number that "auto" tries.
        random_state: of k-means and of an approximate search (above 100,000 points).

    Attributes:
        labels_: [N] the cluster of each fitted point, from 0 on.
        probabilities_: `[N, n_clusters_]` how probable each cluster is for it.
        n_clusters_: how many clusters there are.
        distinctness_: how much better the clusters are than those of data without clusters, from 0
            to 1; below 1/3 "auto" answers 1 cluster, and it is that of the best not taken.
        by_graph_: True if spectral clustering found them, False if self-training did.
        edge_index_, edge_weight_: [2, E] the graph, both directions of every edge; [E] weights.
        conductances_: [E] how well each edge conducts, in (0, 1].
        t_: how long probabilities diffuse.
        tree_: clusterings into every number, a `ClusterTree`: `levels`, those that "auto"
            found, the one that is taken first; `cut(n_clusters)`; `linkage`.
        cluster_names_: [C] for a data frame, what sets each apart: "high income, low age"; or None.
        curve_: the score of every number that "auto" tried, or None.
        n_neighbors_, metric_, scale_, n_features_in_, feature_names_in_: as `HeatDiffusion` has.

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
        metric: str = "auto",
        scale: str | None = "auto",
        t: float | Literal["auto"] = "auto",
        kernel: str | None = "gaussian",
        max_clusters: int = 30,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.max_clusters = max_clusters
        super().__init__(
            n_neighbors, metric=metric, scale=scale, t=t, kernel=kernel, random_state=random_state
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters of X: [N, D] array or data frame, finite, N >= 3."""
        check_positive_int("max_clusters", self.max_clusters)
        is_auto = isinstance(self.n_clusters, str) and self.n_clusters == "auto"
        if not is_auto:
            check_positive_int("n_clusters", self.n_clusters, " or 'auto'")
        largest = self.max_clusters if is_auto else int(self.n_clusters)
        with self._threads(X):
            self._fit_graph(X)
            modes = self._choose_metric(largest)
            graph = self._graph.graph
            add_rivals(modes, graph, self._seed, self.metric_)
            if not is_auto and largest > self._graph.num_different:
                raise ValueError(
                    "Expected 'n_clusters' to be at most the number of points that differ (got "
                    f"{largest} for {self._graph.num_different} of {len(graph.x)} points)."
                )
            levels, finest, self.curve_ = [Level(largest, 1.0)], None, None
            if is_auto:
                chosen, labels = choose_levels(graph, largest, self._seed, modes, self.metric_)
                levels, self.curve_ = chosen.levels, chosen.curve
                self.distinctness_ = chosen.distinctness
                finest = labels.unique(return_inverse=True)[1].numpy()  # numbers without gaps
            # The first level comes last: what is fitted last predicts.
            fitted = [self._fit_level(level, modes) for level in reversed(levels)]
            self.tree_ = ClusterTree(fitted[::-1], *self._graph.edges, finest)
            if not is_auto:
                found = torch.from_numpy(self.labels_), modes.lie_apart(largest)
                self.distinctness_ = measure_distinctness(graph, *found, self._seed, self.metric_)
        self.cluster_names_ = None
        if hasattr(self, "feature_names_in_"):
            x = graph.x.numpy()
            self.cluster_names_ = name_by_columns(x, self.labels_, self.feature_names_in_)
        self._is_fitted = True
        return self

    def _choose_metric(self, largest: int) -> SpectralClusters:
        """Compare by length instead of angle if that alone shows clusters that lie apart."""
        x, modes = self._graph.graph.x, SpectralClusters(self._graph.graph, largest, self._seed)
        is_open = self.metric == "auto" and self.metric_ == "cosine" and metric_of(x) == "l2"
        is_open &= float(x.abs().max()) > _LEAST
        if not is_open or lie_apart(self._graph.graph, modes.apart, self._seed, "cosine"):
            return modes
        some = x[np.random.default_rng(self._seed).permutation(len(x))[:_ROWS]]  # fast for many
        rival = FittedGraph(some, self.n_neighbors, "l2", self.kernel, self._seed).graph
        found = SpectralClusters(rival, largest, self._seed).apart
        if not lie_apart(rival, found, self._seed, "l2"):
            return modes
        logger.info("metric='l2': by it clusters lie apart, by the cosine they do not")
        self._graph = FittedGraph(x, self.n_neighbors, "l2", self.kernel, self._seed)
        self.metric_, self.n_neighbors_ = "l2", self._graph.k
        return SpectralClusters(self._graph.graph, largest, self._seed)

    def _fit_level(self, level: Level, modes: SpectralClusters) -> ClusterLevel:
        """Find the clusters of one level, by self-training or by spectral clustering."""
        count = level.num_classes
        found = modes.instead_of(self._self_train(count), count)
        if found is not None:
            self._take_instead(F.one_hot(found, count))
        self._place_clusters()
        if self.n_clusters_ < count:
            logger.warning("%d of %d clusters have no point left.", count - self.n_clusters_, count)
        return ClusterLevel(self.n_clusters_, level.persistence, self.labels_.copy())

    def _place_clusters(self) -> None:
        """Number the clusters that have points, and keep their probabilities."""
        self._classes, labels = self._field.p.argmax(-1).unique(return_inverse=True)
        self.n_clusters_ = len(self._classes)
        self.labels_ = labels.numpy()
        self._of_nodes = self._of_clusters(self._field.p)
        self.probabilities_ = self._of_nodes.numpy().copy()

    def _of_clusters(self, p: Tensor) -> Tensor:
        """Keep the probabilities [N, n_clusters_] of clusters that have points."""
        return p if len(self._classes) == p.size(1) else normalize_rows(p[:, self._classes])

    def _at(self, x: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        return self._of_clusters(super()._at(x, neighbor, weight))

    @property
    def points_(self) -> np.ndarray:
        """The fitted points [N, D] as they were compared: divided by `scale_`."""
        check_is_fitted(self)
        return self._graph.graph.x.numpy().copy()

    def was_fitted_to(self, X: Any) -> bool:
        """Return True if X [N, D] are the fitted points in their order, up to rounding."""
        check_is_fitted(self)
        x, fitted = np.asarray(X), self._graph.graph.x
        if x.shape != (len(fitted), self.n_features_in_) or x.dtype.kind not in "fiu":
            return False
        given = np.finfo(x.dtype).eps if x.dtype.kind == "f" else 0.0
        rounding = max(float(given), torch.finfo(fitted.dtype).eps)
        difference = (self._read(x.astype(np.float64), fitted.dtype) - fitted).abs()
        return bool((difference <= _ROUNDINGS * rounding * fitted.abs().amax(0)).all())

    def cut(self, n_clusters: int) -> np.ndarray:
        """Return the clusters [N] of the level of this number, or of the next finer one, merged."""
        check_is_fitted(self)
        return self.tree_.cut(n_clusters)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable cluster [M] of each point [M, D], one by one."""
        return self.predict_proba(X).argmax(1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was fitted to one file of tensors and plain values, with a hash of all.

        Unlike a pickle, it executes nothing when it is read: `DiffusionClusterer.load(path)`.
        """
        check_is_fitted(self)
        graph, tree = self._graph.graph, self.tree_
        names = getattr(self, "feature_names_in_", None)
        content = {
            "parameters": self.get_params(deep=False),
            "values": {name: getattr(self, name) for name in _VALUES},
            "feature_names_in_": None if names is None else [str(name) for name in names],
            "kernel": self._graph.kernel,  # parameters may have been set since
            "graph": (graph.x, graph.edge_index, graph.edge_weight),
            "model": self._model.state_dict(),
            "q": self._q,
            "levels": list(map(tuple, tree.levels)),
            "finest": tree.finest,
        }
        save_tree(as_path("path", path), _KIND, "clusterer", content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote; the index of neighbours is built again from the points.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is damaged, of another kind, or of another version.
        """
        content = load_tree(as_path("path", path), _KIND)
        self = cls(**content["parameters"])
        for name, value in content["values"].items():
            setattr(self, name, value)
        if content["feature_names_in_"] is not None:
            self.feature_names_in_ = np.array(content["feature_names_in_"], dtype=object)
        x, edge_index, edge_weight = content["graph"]
        self._graph = FittedGraph(x, self.n_neighbors_, self.metric_, content["kernel"], self._seed)
        # The same edges, wherever ties fall now.
        self._graph.graph = TrainingGraph(x, edge_index, edge_weight)
        q = content["q"]
        model = self._new_model(q.size(1)).eval()
        model.load_state_dict(content["model"])
        self._diffuse(model, q, self.by_graph_)
        self._place_clusters()
        levels = [ClusterLevel(*level) for level in content["levels"]]
        self.tree_ = ClusterTree(levels, *self._graph.edges, content["finest"])
        self._is_fitted = True
        return self
