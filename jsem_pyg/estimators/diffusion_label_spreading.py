"""A few labels that spread over the neighbour graph, as a classifier of scikit-learn's."""

from numbers import Number
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from .._precision import normalize_rows
from ..diffusion.filters import PersonalizedPageRank
from ..graph import GraphStructure
from ..training.clusters import is_better
from ..training.training_graph import TrainingGraph, keep_known
from .neighbor_estimator import ClassEstimator

RESTART = 0.01  # long walks: a few labels reach the ends of long clusters
WEAK = 1e-5  # of the largest weights at both ends: no neighbours, but a link of far components


class DiffusionLabelSpreading(ClassifierMixin, ClassEstimator):
    """Classifies points when only a few have labels; -1 stands for no label.

    Labels spread over the graph of nearest neighbours in two ways, and the better one is kept. In
    self-training (:func:`~jsem_pyg.training.fit`) a linear classifier learns the known labels, its
    probabilities diffuse, and it learns again from the result. Random walks that restart at the
    labels follow the edges alone, as scikit-learn's `LabelSpreading` does: they find classes of any
    shape. They are kept if their modularity is at least 0.01 higher, or if much less weight lies
    between their classes.

    A point without a path to any label has the shares of the classes among the labels.

    New points are placed as in :class:`DiffusionClusterer`.

    Args:
        n_neighbors, metric, scale, kernel: as in :class:`HeatDiffusion`.
        t: how long features diffuse before the labels are learned, > 0, or "auto": of ten times
            from 1 to 50 the one that the unsupervised triplet loss prefers. Probabilities
            diffuse for that time or half of it.
        random_state: of the triplets and of an approximate search (above 100,000 points).

    Attributes:
        classes_: [C] the classes, sorted.
        transduction_: [N] the class of each fitted point: its label, if it has one.
        label_distributions_: [N, C] how probable each class is for it; certain if it has a
            label.
        by_graph_: True if labels were spread along the edges alone.
        edge_index_, edge_weight_, conductances_, t_: as in :class:`DiffusionClusterer`.
        n_neighbors_, metric_, scale_, n_features_in_, feature_names_in_: as in
            :class:`HeatDiffusion`.

    Source: Zhou et al., "Learning with local and global consistency", 2004, for the task.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(60, 2)) / 9 + np.repeat(np.eye(2), 30, axis=0)
        >>> y = np.full(60, -1)
        >>> y[0], y[59] = 3, 7
        >>> model = DiffusionLabelSpreading(random_state=0).fit(X, y)
        >>> model.transduction_[[1, 58]].tolist(), model.predict([[1.2, 0.1]]).tolist()
        ([3, 7], [3])
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the classes of X from the labels that are known.

        Args:
            X: [N, D] array or data frame, finite, N >= 3.
            y: [N] labels of any kind, -1 for none. With strings and -1, pass a list, or an array of
                dtype object.
        """
        y = _as_labels(y)
        with self._threads(X):
            y = self._fit_graph(X, y)
            graph = self._graph.graph
            known = _is_known(y)
            self.classes_, number = np.unique(y[known], return_inverse=True)
            labels = torch.full((len(y),), -1)
            labels[torch.from_numpy(known)] = torch.from_numpy(number)
            trained = self._self_train(len(self.classes_), labels)
            spread = _spread_labels(graph, labels, len(self.classes_))
            if is_better(spread.argmax(-1), trained, graph):
                self._take_instead(keep_known(spread, labels))
            self._reached = _reached_by(labels >= 0, graph)
            self._shares = torch.bincount(labels[labels >= 0]) / (labels >= 0).sum()
            self._of_nodes = self._or_shares(self._reached, keep_known(self._field.p, labels))
        self.label_distributions_ = self._of_nodes.numpy().copy()
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        self._is_fitted = True
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class [M] of each point [M, D], one by one."""
        likeliest = self.predict_proba(X).argmax(1)
        return self.classes_[likeliest]

    def _at(self, x: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        # A point is reached if its nearest neighbour is, or if it has none.
        reached = self._reached[neighbor[:, 0]] | (weight[:, 0] == 0)
        return self._or_shares(reached, super()._at(x, neighbor, weight))

    def _or_shares(self, reached: Tensor, p: Tensor) -> Tensor:
        """Return p [N, C] for nodes with heat of a label; for others the shares of the labels."""
        return torch.where(reached[:, None], p, self._shares.to(p))


def _as_labels(y: Any) -> Any:
    """Return labels as they are, but text beside the number -1 as objects, not as text of both."""
    if hasattr(y, "to_numpy"):  # scikit-learn would make floats of pandas' nullable integers
        y = y.to_numpy()
    elif isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) > 1:
        y = np.array(y, dtype=object)
    if isinstance(y, np.ndarray) and y.dtype == object:
        missing = [label for label in y if not isinstance(label, str | Number)]
        if missing:
            raise ValueError(
                f"Expected 'y' to hold -1 where a label is unknown (got {missing[0]!r})."
            )
    return y


def _is_known(y: np.ndarray) -> np.ndarray:
    """Return a mask [N] of the labels that are not -1; raise if these are no classes, or none."""
    known = np.array([label != -1 for label in y.tolist()], dtype=bool)
    if not known.any():
        raise ValueError("Expected 'y' to hold a label other than -1 (got none).")
    given = y[known].tolist()  # as a list: older scikit-learn refuses an array of objects
    if len({isinstance(label, str) for label in given}) > 1:
        raise ValueError("Expected the labels in 'y' to be all text, or all numbers (got both).")
    check_classification_targets(given)
    return known


@torch.no_grad()
def _spread_labels(graph: TrainingGraph, labels: Tensor, num_classes: int) -> Tensor:
    """Estimate class probabilities [N, C] by random walks that restart at labels [N].

    Unknown labels are -1.

    Source: Zhou et al., "Learning with local and global consistency", 2004, with classes divided by
    the root of their sums.
    """
    start = F.one_hot(labels.clamp(min=0), num_classes).double() * (labels >= 0)[:, None]
    weight = None if graph.edge_weight is None else graph.edge_weight.double()
    score = PersonalizedPageRank(RESTART)(start, graph.structure, weight, tol=1e-9)
    score = score.clamp(min=0)
    return normalize_rows(score / score.sum(0).sqrt())


def _reached_by(known: Tensor, graph: TrainingGraph) -> Tensor:
    """Find the nodes that a path of edges, none of them weak, joins to a known one: [N] bool."""
    edge_index, weight = graph.edge_index, graph.edge_weight
    if weight is not None:
        largest = weight.new_zeros(len(known)).scatter_reduce(0, edge_index[0], weight, "amax")
        edge_index = edge_index[:, weight > WEAK * largest[edge_index].amin(0)]
    component = GraphStructure(edge_index, len(known)).component
    reached = torch.zeros(len(known), dtype=torch.bool)
    reached[component[known]] = True
    return reached[component]
