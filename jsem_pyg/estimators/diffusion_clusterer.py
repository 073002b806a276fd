"""Clusters on a neighbour graph, as a clusterer of scikit-learn's."""

import logging
import os
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import ClusterMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.utils.validation import check_is_fitted

from .._checks import check_positive_int
from .._files import as_path
from .._precision import normalize_rows
from .._tensor_file import load_tree, save_tree
from ..graph import GraphStructure
from ..nn import DiffusionClassifier
from ..training.choose_num_classes import Level, choose_levels
from ..training.spectral_clusters import SpectralClusters, is_better
from .class_estimator import ClassEstimator
from .cluster_tree import ClusterLevel, ClusterTree
from .columns import name_by_columns
from .fitted_graph import FittedGraph

logger = logging.getLogger(__name__)

_KIND = "fitted clusterer"
# What a file keeps of the fitted attributes.
_ARRAYS = ("labels_", "probabilities_", "edge_index_", "edge_weight_", "conductances_")
_VALUES = (
    *("t_", "by_graph_", "cluster_names_", "n_clusters_", "curve_"),
    *("n_neighbors_", "n_features_in_", "metric_"),
)


class DiffusionClusterer(ClusterMixin, ClassEstimator):
    """Clusters points without labels, on the graph of their nearest neighbours.

    Two clusterings are made, and the better one is kept. Self-training fits a
    :class:`~jsem_pyg.nn.DiffusionClassifier` to the graph (:func:`~jsem_pyg.training.fit`): it
    finds clusters that overlap, such as those of embeddings. Spectral clustering (k-means of the
    smoothest modes of the graph, :func:`~jsem_pyg.diffusion.low_modes`) finds clusters of any
    shape that lie apart, and needs no more than one column. It is kept where self-training loses
    clusters, where its modularity is at least 0.01 higher, or where much less weight lies between
    its clusters.

    New points do not change what was fitted, nor each other. A point that is equal to a fitted one
    has its probabilities, those of the first of several. Any other point is joined to its nearest
    fitted points: it begins with its own class (self-training) or with the mean of its neighbours
    (spectral clustering), and receives their diffused probabilities.

    A shift of the columns changes nothing, nor does a turn, unless columns are scaled.

    Args:
        n_clusters: how many, or "auto": the number of clusters that lie apart; without such
            clusters the number with the highest score: heat stays inside the clusters, and a
            classifier predicts them from the features alone
            (:func:`~jsem_pyg.training.choose_num_classes`). Up to two other levels are fitted as
            well, see `tree_`. Where you know the number, pass it.
        n_neighbors: neighbours of each point, at most half of the others.
        metric: "cosine" (1 - cos; a row of zeros has no neighbour), "l2", or "auto": "l2" for up to
            50 columns unless rows have length one, "cosine" for embeddings.
        scale: what columns are divided by: "robust" (their interquartile range), "standard" (their
            standard deviation), None, or "auto": "robust" for "l2" if the columns have different
            units (neighbouring values of one lie thirty times farther apart than of another).
        t: how long features diffuse before they are clustered, > 0, or "auto": of ten times from 1
            to 50 the one whose clusters have the highest modularity. Probabilities diffuse for
            that time or half of it.
        kernel: how distances become weights: "gaussian", "self_tuning", "cosine" or None (ones).
        max_clusters: the largest number that "auto" tries.
        n_components: sparse X of more columns is first reduced to so many by `TruncatedSVD`.
        random_state: of k-means, of an approximate search (above 100,000 points) and of the
            reduction.
        n_jobs: how many threads, -1 for all; None for one up to 5,000 rows, and for what the
            libraries take beyond.

    Attributes:
        labels_: [N] the cluster of each fitted point, from 0 on.
        probabilities_: `[N, n_clusters_]` how probable each cluster is for it.
        n_clusters_: how many clusters there are.
        by_graph_: True if spectral clustering found them, False if self-training did.
        edge_index_: [2, E] the graph, both directions of every edge.
        edge_weight_: [E] the weights of its edges.
        conductances_: [E] how well each edge conducts, in (0, 1].
        t_: how long probabilities diffuse.
        tree_: a :class:`ClusterTree`: the levels that "auto" found, that which is taken first, and
            clusterings into every other number; of a given number, it and what it merges into.
        cluster_names_: for a data frame, the columns that set each cluster apart, such as "high
            income, low age", [C] texts; else None.
        curve_: the score of every number that "auto" tried, or None.
        n_neighbors_: the number of neighbours.
        metric_: "cosine" or "l2".
        scale_: what the columns are divided by, [D], or None: interquartile ranges over 1.35,
            which of a normal distribution is the standard deviation.
        reducer_: the `TruncatedSVD` of sparse X, or None.
        n_features_in_: the number of columns of X.
        feature_names_in_: their names, if all are strings.

    Source: Ng, Jordan and Weiss, "On spectral clustering", 2001, for clusters by modes.

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
        n_components: int = 100,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.scale = scale
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
            ValueError: if X or a parameter does not fit, or fewer points differ than `n_clusters`.
        """
        check_positive_int("max_clusters", self.max_clusters)
        if not self._is_auto:
            check_positive_int("n_clusters", self.n_clusters, " or 'auto'")
        with self._threads(X):
            graph, seed, _ = self._fit_graph(X)
            largest = self.max_clusters if self._is_auto else int(self.n_clusters)
            if not self._is_auto and largest > graph.num_different:
                raise ValueError(
                    "Expected 'n_clusters' to be at most the number of points that differ (got "
                    f"{largest} for {graph.num_different} of {len(graph.graph.x)} points)."
                )
            modes = SpectralClusters(graph.graph, largest, seed)
            chosen, finest = self._choose_levels(graph, seed, modes)
            fitted = [self._fit_level(graph, seed, level, modes) for level in reversed(chosen)]
            edges = graph.graph.structure, graph.data.edge_weight
            self.tree_ = ClusterTree(fitted[::-1], *edges, finest)
        self.cluster_names_ = None
        if hasattr(self, "feature_names_in_") and self.reducer_ is None:
            x = graph.graph.x.numpy()
            self.cluster_names_ = name_by_columns(x, self.labels_, self.feature_names_in_)
        self._is_fitted = True
        return self

    def cut(self, n_clusters: int | None = None, *, min_size: int | None = None) -> np.ndarray:
        """The clusters [N] of another number or size, without fitting: :meth:`ClusterTree.cut`."""
        check_is_fitted(self)
        return self.tree_.cut(n_clusters, min_size=min_size)

    def _fit_level(
        self, graph: FittedGraph, seed: int, level: Level, modes: SpectralClusters
    ) -> ClusterLevel:
        """Find the clusters of one level; what is fitted last is what the estimator predicts."""
        count = level.num_classes

        def spectral(labels: torch.Tensor) -> torch.Tensor | None:
            if not 1 < count <= modes.largest:
                return None
            found, has_lost = modes.labels(count), len(labels.unique()) < count
            takes = has_lost or is_better(found, labels, graph.graph)
            return F.one_hot(found, count) if takes else None

        p = self._train(graph, seed, count, spectral)
        kept, labels = p.argmax(-1).unique(return_inverse=True)
        if len(kept) < count:
            logger.warning("%d of %d clusters have no point left.", count - len(kept), count)
        self._classes = kept
        self.n_clusters_ = len(kept)
        self.labels_ = labels.numpy()
        self.probabilities_ = self._of_classes(p).numpy()
        return ClusterLevel(len(kept), level.persistence, self.labels_.copy())

    def predict(self, X: Any) -> np.ndarray:
        """The most probable cluster [M] of each point [M, D], by itself."""
        return self.predict_proba(X).argmax(1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Cluster probabilities `[M, n_clusters_]` of points [M, D], each by itself.

        Raises:
            ValueError: if X does not fit to what was fitted.
        """
        return self._of_classes(self._probabilities(X)).numpy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was fitted to one file of tensors and plain values, with a hash of all.

        Unlike a pickle, it executes nothing where it is read.

        Args:
            path: the file; an existing one is replaced in one step.

        Raises:
            TypeError: if a parameter is no plain value, such as `random_state` of another type.
            OSError: if the file cannot be written.

        Example:
            >>> import tempfile
            >>> X = np.random.default_rng(0).normal(size=(60, 2))
            >>> clusterer = DiffusionClusterer(2, random_state=0).fit(X)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     clusterer.save(f"{folder}/clusters.safetensors")
            ...     again = DiffusionClusterer.load(f"{folder}/clusters.safetensors")
            >>> bool((again.predict_proba(X) == clusterer.predict_proba(X)).all())
            True
        """
        check_is_fitted(self)
        path = as_path("path", path)
        names = getattr(self, "feature_names_in_", None)
        reducer = None if self.reducer_ is None else torch.from_numpy(self.reducer_.components_)
        tree = {
            "parameters": self.get_params(deep=False),
            "kernel": self._graph.kernel,  # parameters may have been set since
            "seed": self._seed,
            "x": self._graph.graph.x,
            "model": dict(self._model.state_dict()),
            "q": self._q,
            "p": self._of_nodes,
            "classes": self._classes,
            "levels": [
                (level.n_clusters, level.persistence, torch.from_numpy(level.labels))
                for level in self.tree_.levels
            ],
            "finest": torch.from_numpy(self.tree_.finest),
            "reducer": reducer,
            "scale": None if self.scale_ is None else torch.from_numpy(self.scale_),
            "feature_names_in_": None if names is None else [str(name) for name in names],
            "arrays": {name: torch.from_numpy(getattr(self, name)) for name in _ARRAYS},
            "values": {name: getattr(self, name) for name in _VALUES},
        }
        save_tree(path, _KIND, "clusterer", tree)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote; the index of neighbours is built again from the points.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is damaged, of another kind, or of another version.
        """
        tree = load_tree(as_path("path", path), _KIND)
        self = cls(**tree["parameters"])
        for name, array in tree["arrays"].items():
            setattr(self, name, array.numpy())
        for name, value in tree["values"].items():
            setattr(self, name, value)
        if tree["feature_names_in_"] is not None:
            self.feature_names_in_ = np.array(tree["feature_names_in_"], dtype=object)
        x, q = tree["x"], tree["q"]
        self._dtype, self._seed = x.dtype, tree["seed"]
        self._classes, self._of_nodes = tree["classes"], tree["p"]
        self.scale_ = None if tree["scale"] is None else tree["scale"].numpy()
        self.reducer_ = None
        if tree["reducer"] is not None:
            self.reducer_ = TruncatedSVD(self.n_components)
            self.reducer_.components_ = tree["reducer"].numpy()
            self.reducer_.n_features_in_ = self.n_features_in_
        with torch.random.fork_rng(devices=[]):  # initial weights, which are drawn for nothing
            model = DiffusionClassifier(x.size(1), q.size(1)).to(x.dtype).eval()
        model.load_state_dict(tree["model"])
        edges = torch.from_numpy(self.edge_index_), torch.from_numpy(self.edge_weight_)
        graph = FittedGraph(x, self.n_neighbors_, self.metric_, tree["kernel"], self._seed)
        structure = GraphStructure(edges[0], len(x))
        self._place_classes(graph, model, q, structure, edges[1], self.by_graph_)
        levels = [ClusterLevel(n, share, of.numpy()) for n, share, of in tree["levels"]]
        self.tree_ = ClusterTree(levels, structure, edges[1], tree["finest"].numpy())
        self._is_fitted = True
        return self

    @property
    def _is_auto(self) -> bool:
        return isinstance(self.n_clusters, str) and self.n_clusters == "auto"

    def _choose_levels(
        self, graph: FittedGraph, seed: int, modes: SpectralClusters
    ) -> tuple[list[Level], np.ndarray | None]:
        """The numbers to fit, the first for good, and a finer clustering [N] than all of them."""
        self.curve_ = None
        if self._is_auto:
            chosen, finest = choose_levels(graph.graph, self.max_clusters, seed=seed, modes=modes)
            self.curve_ = chosen.curve
            # Without numbers that no point has.
            return chosen.levels, finest.unique(return_inverse=True)[1].numpy()
        return [Level(int(self.n_clusters), 1.0)], None

    def _of_classes(self, p: torch.Tensor) -> torch.Tensor:
        """The probabilities of clusters that have points."""
        return p if len(self._classes) == p.size(1) else normalize_rows(p[:, self._classes])
