"""The base of clusterer and classifier: self-training of a diffusion classifier, or the graph."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._checks import check_positive
from ..graph import GraphStructure
from ..nn import DiffusionClassifier
from ..nn.class_field import ClassField
from ..training.self_training import TIMES, self_train
from ..training.training_graph import keep_known
from .fitted_graph import FittedGraph
from .neighbor_estimator import NeighborEstimator


class ClassEstimator(NeighborEstimator):
    """An estimator of class probabilities, with labels or without."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.t != "auto":
            check_positive("t", self.t)

    def _train(
        self,
        graph: FittedGraph,
        seed: int,
        num_classes: int,
        better_by_graph: Callable[[Tensor], Tensor | None],
        labels: Tensor | None = None,
    ) -> Tensor:
        """Train a classifier on the graph: the probabilities [N, C] of its nodes.

        `better_by_graph` may return other probabilities [N, C], which do not look at the features,
        if they are better than the classes [N] that the classifier has found.
        """
        x = graph.graph.x
        with torch.random.fork_rng(devices=[]):  # training draws initial weights
            model = DiffusionClassifier(x.size(1), num_classes).to(x.dtype)
        times = TIMES if self.t == "auto" else [float(self.t)]
        self_train(model, graph.graph, times=times, labels=labels, seed=seed)
        q = keep_known(model.classify(x).detach(), labels)
        edges = graph.graph.structure, graph.data.edge_weight
        self._place_classes(graph, model, q, *edges, by_graph=False)
        other = better_by_graph(keep_known(self._field.p, labels).argmax(-1))
        if other is not None:
            model.isotropic.time.set(times[0])
            self._place_classes(graph, model, other.to(q), *edges, by_graph=True)
        self.by_graph_ = other is not None
        self.t_ = model.t.item()
        self._of_nodes = keep_known(self._field.p, labels)
        # Copies, like what this returns: users may change them, and not what predicts.
        self.edge_index_ = graph.data.edge_index.numpy().copy()
        self.edge_weight_ = graph.data.edge_weight.numpy().copy()
        self.conductances_ = self._field.conductance.numpy().copy()
        return self._of_nodes.clone()

    def _place_classes(
        self,
        graph: FittedGraph,
        model: DiffusionClassifier,
        q: Tensor,
        structure: GraphStructure,
        edge_weight: Tensor,
        by_graph: bool,
    ) -> None:
        """Keep the graph, and what new points need of a trained model."""
        self._graph, self._model, self._q = graph, model, q
        self._field = ClassField(model, q, structure, edge_weight, by_graph)

    def _probabilities(self, X: Any) -> Tensor:
        """Probabilities [M, C] of points that may be new, each by itself."""
        x = self._read_new(X)
        with self._threads(X):
            return self._graph.evaluate(x, self._of_nodes, self._at)

    def _at(self, x: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        """Probabilities [M, C] of points that are no fitted ones."""
        return self._field.at(x, neighbor, weight)
