"""The bases of the estimators: they read X, build the neighbour graph, and place new points."""

import numbers
from collections.abc import Callable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits
from torch import Tensor

from .._checks import (
    check_choice,
    check_nonnegative,
    check_positive,
    check_positive_int,
    check_signal_range,
    check_unmasked,
    tensor_of,
)
from ..graph import GraphStructure
from ..kernels.torch_func import full_precision
from ..neighbors import NeighborIndex
from ..neighbors.affinity import KERNELS
from ..neighbors.points import METRICS
from ..nn import DiffusionClassifier
from ..nn.class_field import ClassField
from ..training.self_training import TIMES, self_train
from ..training.training_graph import TrainingGraph, keep_known
from .columns import choose_metric, choose_scale

_FLOATS = [np.float64, np.float32]
CHUNK = 1 << 13  # new points at once, each with the probabilities of all its neighbours
_FEW = 5_000  # points, for which several threads would only wait for each other


def limit_threads(num_points: int) -> AbstractContextManager:
    """Use one thread for up to 5,000 points, and beyond as many as the libraries take."""
    # Only OpenMP's, whose number belongs to a thread of Python; BLAS has one for the process.
    return threadpool_limits(1, "openmp") if num_points <= _FEW else nullcontext()


class FittedGraph:
    """The neighbour graph of points, in which new points are placed.

    Under the cosine a point of zeros has no direction: it has no neighbour, and keeps its own
    features. A new point that is equal to a fitted one is that node, the first of several.

    Args:
        x: [N, D] the points.
        k: neighbours of each point; at most half of the others, since a graph that joins all
            points has no structure.
        metric: "cosine" or "l2".
        kernel: how distances become weights, see :func:`jsem_pyg.neighbors.knn_graph`.
        seed: of an approximate search.
    """

    def __init__(self, x: Tensor, k: int, metric: str, kernel: str | None, seed: int) -> None:
        self.metric, self.kernel = metric, kernel
        nodes = self._has_direction(x).nonzero().flatten()
        if nodes.numel() < 3:
            raise ValueError(
                f"Expected 'X' to have three rows or more that are not zero, since others have no "
                f"direction for metric={metric!r} (got {nodes.numel()} of {len(x)}). To fix this, "
                "use metric='l2'."
            )
        self.k = min(k, (nodes.numel() - 1) // 2)
        self._nodes = nodes
        self._index = NeighborIndex(
            x[nodes], self.k, metric, kernel=kernel, seed=seed, progress=False
        )
        self.graph = TrainingGraph(x, nodes[self._index.edge_index], self._index.edge_weight)
        self._node_of: dict[bytes, int] = {}
        for node, digest in enumerate(_digests(x)):
            self._node_of.setdefault(digest, node)
        self.num_different = len(self._node_of)

    @property
    def edges(self) -> tuple[GraphStructure, Tensor]:
        """The structure of the graph, and its weights [E]."""
        assert self.graph.edge_weight is not None
        return self.graph.structure, self.graph.edge_weight

    def evaluate(
        self, x_new: Tensor, of_nodes: Tensor, at: Callable[[Tensor, Tensor, Tensor], Tensor]
    ) -> Tensor:
        """Look up rows of `of_nodes` [N, C] for fitted points among x_new [M, D]; else call `at`.

        It takes new points [m, D], their neighbours [m, k] and weights [m, k], which are zero for a
        point without neighbours, and returns [m, C].
        """
        node = torch.tensor([self._node_of.get(key, -1) for key in _digests(x_new)]).long()
        found = of_nodes[node]
        new = (node < 0).nonzero().flatten()
        for part in new.split(CHUNK) if len(new) else ():
            found[part] = at(x_new[part], *self._links(x_new[part]))
        return found

    def _links(self, x_new: Tensor) -> tuple[Tensor, Tensor]:
        """Find the fitted neighbours [m, k] of new points, and the weights [m, k]."""
        joined = self._has_direction(x_new)
        neighbor = torch.zeros(len(x_new), self.k, dtype=torch.int64)
        weight = x_new.new_zeros(len(x_new), self.k)
        if bool(joined.any()):
            found, weight[joined] = self._index.links(x_new[joined])
            neighbor[joined] = self._nodes[found]
        return neighbor, weight

    def _has_direction(self, x: Tensor) -> Tensor:
        return (x != 0).any(1) if self.metric == "cosine" else torch.ones(len(x), dtype=torch.bool)


def _digests(x: Tensor) -> list[bytes]:
    """Hash each row [N, D]; equal rows have equal hashes."""
    rows = (x + 0.0).contiguous().numpy()  # -0 becomes 0
    return [blake2b(row, digest_size=16).digest() for row in rows]


class NeighborEstimator(BaseEstimator):
    """An estimator that stands on the neighbour graph of its points.

    A subclass fits `_of_nodes`, the result at the fitted points, and computes `_at` new ones.
    """

    _graph: FittedGraph
    _of_nodes: Tensor  # [N, C]
    _is_fitted = False

    def __init__(
        self,
        n_neighbors: int = 15,
        *,
        metric: str = "auto",
        scale: str | None = "auto",
        t: float | Literal["auto"] = "auto",
        kernel: str | None = "gaussian",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.scale = scale
        self.t = t
        self.kernel = kernel
        self.random_state = random_state

    def _fit_graph(self, X: Any, y: Any = "no_validation") -> Any:
        """Read X and y, build the neighbour graph of X, and return y."""
        self._check_parameters()
        check_unmasked("X", X)
        self._is_fitted = False  # until `fit` ends: parts of two fits must not predict together
        read = validate_data(self, X, y, ensure_min_samples=3, dtype=_FLOATS)
        X, y = read if isinstance(read, tuple) else (read, None)
        self._seed = self._draw_seed()
        given = tensor_of("X", X)
        check_signal_range("X", given)
        self.metric_ = choose_metric(self.metric, X)
        self.scale_ = choose_scale(self.scale, X, self.metric_)
        x = self._read(X, given.dtype)
        self._graph = FittedGraph(x, self.n_neighbors, self.metric_, self.kernel, self._seed)
        self.n_neighbors_ = self._graph.k
        return y

    def _evaluate(self, X: Any) -> Tensor:
        """Return the results [M, C] at points [M, D]; a result depends on its own row only."""
        check_is_fitted(self)
        check_unmasked("X", X)
        X = validate_data(self, X, reset=False, dtype=_FLOATS)
        x = self._read(X, self._graph.graph.x.dtype)
        with self._threads(X):
            return self._graph.evaluate(x, self._of_nodes, self._at)

    def _at(self, x: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        """Compute the results [M, C] at new points, by neighbours [M, k] and weights [M, k]."""
        raise NotImplementedError

    def _read(self, X: np.ndarray, dtype: torch.dtype) -> Tensor:
        """Copy points [M, D] in the type of the fitted ones, divided by `scale_`."""
        x = tensor_of("X", X).to(dtype, copy=True)
        check_signal_range("X", x)
        if self.scale_ is not None:
            x /= torch.from_numpy(self.scale_).to(dtype)
            check_signal_range("X / scale_", x)
        return x

    def _draw_seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_parameters(self) -> None:
        check_positive_int("n_neighbors", self.n_neighbors)
        check_choice("metric", self.metric, ("auto", *METRICS))
        check_choice("scale", self.scale, ("auto", "robust", "standard", None))
        check_choice("kernel", self.kernel, KERNELS)
        if not (isinstance(self.t, str) and self.t == "auto"):
            check_nonnegative("t", self.t)

    @contextmanager
    def _threads(self, X: Any) -> Iterator[None]:
        """Allow no more threads than pay for the rows of X, and no autocast."""
        shape = getattr(X, "shape", None) or (len(X) if isinstance(X, Sized) else 0,)
        with limit_threads(shape[0]), full_precision(torch.device("cpu")):
            yield

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted


class NeighborTransformer(TransformerMixin, NeighborEstimator):
    """An estimator that gives each point new columns."""

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


class ClassEstimator(NeighborEstimator):
    """An estimator of class probabilities, with labels or without."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Compute class probabilities [M, C] of points [M, D], one by one."""
        return self._evaluate(X).numpy()

    def _self_train(self, num_classes: int, labels: Tensor | None = None, **start: Any) -> Tensor:
        """Train a classifier on the graph, and return the class [N] of each node."""
        graph, model = self._graph.graph, self._new_model(num_classes)
        options = {"times": self._times, "labels": labels, "seed": self._seed, **start}
        self_train(model, graph, **options)
        q = keep_known(model.classify(graph.x).detach(), labels)
        self._diffuse(model, q, by_graph=False)
        return keep_known(self._field.p, labels).argmax(-1)

    def _take_instead(self, p: Tensor) -> None:
        """Take probabilities [N, C] that were found along the edges, not by training."""
        model = self._new_model(p.size(1)).eval()
        model.isotropic.time.set(self._times[0])
        self._diffuse(model, p.to(self._graph.graph.x), by_graph=True)

    def _new_model(self, num_classes: int) -> DiffusionClassifier:
        x = self._graph.graph.x
        with torch.random.fork_rng(devices=[]):  # initial weights are drawn
            return DiffusionClassifier(x.size(1), num_classes).to(x.dtype)

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
