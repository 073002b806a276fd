"""A few labels that spread over the neighbour graph, as a classifier of scikit-learn's."""

import logging
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from ..graph import GraphStructure
from ..training.label_spread import (
    UNCHANGED,
    average_ways,
    calibrated,
    choose_way,
    fill_sizes,
    logarithm,
    mean_cut,
    read_sizes,
    ways_to_spread,
)
from ..training.training_graph import TrainingGraph, keep_known
from .neighbor_estimator import ClassEstimator

logger = logging.getLogger(__name__)

# Texts of no label, in small letters: what pandas and scanpy make of one that is missing.
_UNKNOWN = ["", "-1", "-1.0", "nan", "none", "<na>", "unknown", "unassigned", "unlabeled"]
WEAK = 1e-5  # of the largest weights at both ends: no neighbours, but a link of far components


class DiffusionLabelSpreading(ClassifierMixin, ClassEstimator):
    """Classifies points when only a few have labels; -1 or "unknown" stands for no label.

    Labels spread over the graph of nearest neighbours as harmonic functions, by random walks of two
    lengths that restart at the labels, and by heat and a logistic regression of the features: the
    average of all, or one that predicts labels held out in turn better by two standard errors; few
    labels do not say which is best. Self-training (:func:`~jsem_pyg.training.fit`) goes on from
    there, and is kept if its own loss is lower by a standard error; between losses that are closer,
    the smaller share of weight that leaves a class decides. Classes count alike.

    With one label a class nothing can be held out, and harmonic functions spread it. The sizes of
    the classes, where they are known, say most then: probabilities get these means, and classes are
    told apart by heat, thresholds and sizes in turn.

    A point without a path to any label has the shares of the classes among the labels.

    New points are placed as in :class:`DiffusionClusterer`.

    Args:
        n_neighbors, metric, scale, kernel: as in :class:`HeatDiffusion`.
        t: how long features diffuse before the labels are learned, > 0, or "auto": of ten times
            from 1 to 50 the one that the unsupervised triplet loss prefers. Probabilities
            diffuse for that time or half of it.
        class_sizes: how large the classes are, if that is known: [C] numbers or shares, in the
            order of `classes_`.
        random_state: of the triplets and of an approximate search (above 100,000 points).

    Attributes:
        classes_: [C] the classes, sorted.
        transduction_: [N] the class of each fitted point: its label, if it has one.
        label_distributions_: [N, C] how probable each class is for it; certain if it has a
            label.
        by_graph_: True if labels were spread once; False if self-training was kept.
        edge_index_, edge_weight_, conductances_, t_: as in :class:`DiffusionClusterer`.
        n_neighbors_, metric_, scale_, n_features_in_, feature_names_in_: as in
            :class:`HeatDiffusion`.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(60, 2)) / 9 + np.repeat(np.eye(2), 30, axis=0)
        >>> y = np.full(60, -1)
        >>> y[0], y[59] = 3, 7
        >>> model = DiffusionLabelSpreading(random_state=0).fit(X, y)
        >>> model.transduction_[[1, 58]].tolist(), model.predict([[1.2, 0.1]]).tolist()
        ([3, 7], [3])
    """

    def __init__(
        self,
        n_neighbors: int = 15,
        *,
        metric: str = "auto",
        scale: str | None = "auto",
        t: float | Literal["auto"] = "auto",
        kernel: str | None = "gaussian",
        class_sizes: Sequence[float] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.class_sizes = class_sizes
        super().__init__(
            n_neighbors, metric=metric, scale=scale, t=t, kernel=kernel, random_state=random_state
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the classes of X from the labels that are known.

        Args:
            X: [N, D] array or data frame, finite, N >= 3.
            y: [N] labels of any kind, -1 for none. Texts "", "-1", "nan", "none", "unknown",
                "unassigned" and "unlabeled" are none as well, with a warning in the log.
        """
        y = _as_labels(y)
        with self._threads(X):
            y = self._fit_graph(X, y)
            graph = self._graph.graph
            known = _is_known(y)
            self.classes_, number = np.unique(y[known], return_inverse=True)
            sizes = read_sizes(self.class_sizes, len(self.classes_))
            labels = torch.full((len(y),), -1)
            labels[torch.from_numpy(known)] = torch.from_numpy(number)
            self._spread(labels, sizes)
            self._reached = _reached_by(labels >= 0, graph)
            self._shares = torch.bincount(labels[labels >= 0]) / (labels >= 0).sum()
            self._of_nodes = keep_known(self._result(self._reached, self._field.p), labels)
        self.label_distributions_ = self._of_nodes.numpy().copy()
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        self._is_fitted = True
        return self

    def _spread(self, labels: Tensor, sizes: Tensor | None) -> None:
        """Spread labels [N]; without sizes [C], self-train from there if held-out labels agree."""
        graph, count = self._graph.graph, len(self.classes_)
        t, ways = ways_to_spread(graph, self._times, self._seed)
        start = average_ways(ways, labels, self._seed)
        p = start.probabilities(labels)
        if sizes is not None:
            p = fill_sizes(*self._graph.edges, p, labels, sizes.to(p), slice(None))
            self._sharpness = UNCHANGED
            return self._take_instead(keep_known(p, labels))

        def train(known: Tensor) -> Tensor:
            self._self_train(count, known, times=[t], start=start)
            return logarithm(self._field.p)

        def spread(known: Tensor) -> Tensor:
            self._take_instead(keep_known(start.probabilities(known), known))
            return logarithm(self._field.p)

        trained = choose_way([train], labels, self._seed)
        classes = self._self_train(count, labels, times=[t], start=start)
        is_worse = start.beats(trained.losses)
        if not (is_worse or trained.beats(start.losses)):
            is_worse = mean_cut(graph, p.argmax(-1)) < mean_cut(graph, classes)
        if is_worse:
            trained = choose_way([spread], labels, self._seed)
            spread(labels)
        self._sharpness = trained.shares

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class [M] of each point [M, D], one by one."""
        likeliest = self.predict_proba(X).argmax(1)
        return self.classes_[likeliest]

    def _at(self, x: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        # A point is reached if its nearest neighbour is, or if it has none.
        reached = self._reached[neighbor[:, 0]] | (weight[:, 0] == 0)
        return self._result(reached, super()._at(x, neighbor, weight))

    def _result(self, reached: Tensor, p: Tensor) -> Tensor:
        """Sharpen p [N, C] as far as held-out labels ask; without a label, take their shares."""
        sharp = calibrated(logarithm(p), self._sharpness).to(p)
        return torch.where(reached[:, None], sharp, self._shares.to(p))


def _as_labels(y: Any) -> Any:
    """Return labels as they are, but text beside the number -1 as objects, not as text of both."""
    if hasattr(y, "to_numpy"):  # scikit-learn would make floats of pandas' nullable integers
        y = y.to_numpy()
    elif isinstance(y, list | tuple) and len({isinstance(label, str) for label in y}) > 1:
        y = np.array(y, dtype=object)
    if isinstance(y, np.ndarray) and y.dtype.kind in "Of":
        missing = [label for label in y if not isinstance(label, str | Number) or label != label]
        if missing:
            raise ValueError(
                f"Expected 'y' to hold -1 where a label is unknown (got {missing[0]!r}). To fix "
                "this, pass pandas.Series(y).astype(object).fillna(-1)."
            )
    return y


def find_unknown(name: str, labels: Iterable[Any]) -> np.ndarray:
    """Return a mask [N] of the labels that say that there is none; of texts the log says so."""
    texts = [label.strip().lower() if isinstance(label, str) else label for label in labels]
    unknown = np.array([text in _UNKNOWN or text == -1 for text in texts], dtype=bool)
    if words := sorted({text for text in texts if isinstance(text, str) and text in _UNKNOWN}):
        logger.warning(
            "the labels %s of %s count as unknown. If they are a class, give it another name.",
            ", ".join(map(repr, words)),
            name,
        )
    return unknown


def _is_known(y: np.ndarray) -> np.ndarray:
    """Return a mask [N] of the labels that are known; raise if these are no classes, or none."""
    known = ~find_unknown("y", y.tolist())
    if not known.any():
        raise ValueError("Expected 'y' to hold a label other than -1 (got none).")
    given = y[known].tolist()  # as a list: older scikit-learn refuses an array of objects
    if len({isinstance(label, str) for label in given}) > 1:
        raise ValueError("Expected the labels in 'y' to be all text, or all numbers (got both).")
    check_classification_targets(given)
    return known


def _reached_by(known: Tensor, graph: TrainingGraph) -> Tensor:
    """Find the nodes that a path of edges, none of them weak, joins to a known one: [N] bool."""
    edge_index, weight = graph.edge_index, graph.edge_weight
    if weight is not None:
        largest = weight.new_zeros(len(known)).scatter_reduce(0, edge_index[0], weight, "amax")
        edge_index = edge_index[:, weight > WEAK * largest[edge_index].amin(0)]
    component = GraphStructure(edge_index, len(known)).component
    return torch.isin(component, component[known])
