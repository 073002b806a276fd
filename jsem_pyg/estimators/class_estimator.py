"""The base of clusterer and classifier: a trained classifier, or classes found along the edges."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._checks import check_positive
from ..nn import DiffusionClassifier
from ..nn.class_field import ClassField
from ..training.self_training import TIMES, self_train
from ..training.training_graph import keep_known
from .neighbor_estimator import NeighborEstimator


class ClassEstimator(NeighborEstimator):
    """An estimator of class probabilities, with labels or without."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Compute class probabilities [M, C] of points [M, D], one by one."""
        return self._evaluate(X).numpy()

    def _self_train(self, num_classes: int, labels: Tensor | None = None) -> Tensor:
        """Train a classifier on the graph, and return the class [N] of each node."""
        graph = self._graph.graph
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn
            model = DiffusionClassifier(graph.x.size(1), num_classes).to(graph.x.dtype)
        self_train(model, graph, times=self._times, labels=labels, seed=self._seed)
        q = keep_known(model.classify(graph.x).detach(), labels)
        self._diffuse(model, q, by_graph=False)
        return keep_known(self._field.p, labels).argmax(-1)

    def _take_instead(self, p: Tensor) -> None:
        """Replace the trained probabilities by others [N, C], found along the edges."""
        self._model.isotropic.time.set(self._times[0])
        self._diffuse(self._model, p.to(self._q), by_graph=True)

    def _diffuse(self, model: DiffusionClassifier, q: Tensor, by_graph: bool) -> None:
        """Diffuse probabilities q [N, C] on the graph, ready for new points."""
        structure, edge_weight = self._graph.edges
        self._model, self._q, self.by_graph_ = model, q, by_graph
        self._field = ClassField(model, q, structure, edge_weight, by_graph)
        self.t_ = model.t.item()
        # Copies: users may change them.
        self.edge_index_ = self._graph.graph.edge_index.numpy().copy()
        self.edge_weight_ = edge_weight.numpy().copy()
        self.conductances_ = self._field.conductance.numpy().copy()

    def _at(self, x: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        return self._field.at(x, neighbor, weight)

    @property
    def _times(self) -> list[float]:
        """The diffusion times to choose from."""
        return list(TIMES) if self.t == "auto" else [float(self.t)]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.t != "auto":
            check_positive("t", self.t)
