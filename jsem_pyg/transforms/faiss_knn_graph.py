"""A PyG transform: the neighbour graph of the points of a `Data`."""

import copy
import logging
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from .._checks import check_choice, check_tensor
from ..neighbors import NeighborIndex, knn_graph
from ..neighbors.build import GraphOptions
from ..neighbors.points import METRICS
from ..neighbors.searcher import SearchOptions
from ._batch import check_data, check_single, record_edges

logger = logging.getLogger(__name__)

_FIX = "fit a transform to each graph"


@functional_transform("faiss_knn_graph")
class FaissKNNGraph(BaseTransform):
    """Creates the weighted k-nearest-neighbour graph of points (`faiss_knn_graph`).

    The points are `data.x`, compared by their cosine, or else `data.pos`, compared by their
    distance; the choice is logged once. Writes `edge_index` [2, E], both directions of
    every edge, sorted, and `edge_weight` [E]; removes `edge_attr`, which belonged to other edges.
    In a mini-batch every graph gets a neighbour graph of its own. Gradients do not flow back to the
    points.

    As a transform it remembers nothing. For points that come later, :meth:`fit` it to the first
    ones; then :meth:`query` finds the neighbours of new points, and :meth:`extend` adds new points
    to the graph.

    Args:
        k: neighbours of each point. In a graph of no more points than that all are joined, and the
            log warns.
        metric: "cosine" (1 - cos), "l2" (Euclidean distance), or "auto": "cosine" for `data.x`,
            "l2" for `data.pos` unless the kernel is "cosine".
        index: "flat" (exact), "ivf" or "hnsw" (approximate), or "auto": exact up to 100,000 points,
            see :func:`jsem_pyg.neighbors.knn_search`.
        kernel: how distances become weights: "gaussian", "self_tuning", "cosine" or None (ones).
        symmetrize: "max", "mean" or "mutual".
        connect: whether to join the components of each graph by their shortest links.
        recall_target: the share of true neighbours that an approximate search is to find, in
            (0, 1]; it is measured, and logged.
        seed: of what is random in an approximate search.
        progress: whether to show a bar on long searches, where there is a terminal to show it in.

    Raises:
        TypeError: if `k` is not an integer, or the points or `data` are not of the right type.
        ValueError: if an argument is none of the above, or :func:`jsem_pyg.neighbors.knn_graph`
            refuses the points.

    Example:
        >>> data = Data(x=torch.tensor([[0.0], [1.0], [3.0], [3.5]]))
        >>> FaissKNNGraph(k=1, metric="l2")(data)
        Data(x=[4, 1], edge_index=[2, 6], edge_weight=[6])
        >>> knn = FaissKNNGraph(k=1, metric="l2").fit(data)
        >>> knn.extend(torch.tensor([[2.5]]))
        Data(x=[5, 1], edge_index=[2, 8], edge_weight=[8], is_new=[5])
    """

    def __init__(
        self,
        k: int = 15,
        metric: str = "auto",
        index: str = "auto",
        kernel: str | None = "gaussian",
        symmetrize: str = "max",
        connect: bool = True,
        *,
        recall_target: float = 0.95,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        check_choice("metric", metric, ("auto", *METRICS))
        known = "cosine" if metric == "auto" else metric
        GraphOptions(k, known, kernel, symmetrize, connect)  # which checks them
        SearchOptions(index, recall_target, seed, progress)
        self.k = k
        self.metric = metric
        self.index = index
        self.kernel = kernel
        self.symmetrize = symmetrize
        self.connect = connect
        self.recall_target = recall_target
        self.seed = seed
        self.progress = progress
        self._logged: set[str] = set()
        self._fitted: tuple[NeighborIndex, Data] | None = None

    def forward(self, data: Data) -> Data:
        """Write the edges of the neighbour graph into `data`, which `__call__` has copied."""
        check_data(data)
        points, metric = self._read(data)
        edges = knn_graph(points, metric=metric, batch=data.get("batch"), **self._options())
        return _with_edges(data, *edges)

    def fit(self, data: Data) -> "FaissKNNGraph":
        """Build the graph of `data`, and remember it with its points and their widths.

        Args:
            data: points `x` or `pos` of one graph; it is not changed.

        Returns:
            This transform; the graph is in :attr:`graph`.

        Raises:
            TypeError: if the points or `data` are not of the right type.
            ValueError: if there is a `batch`, or :func:`jsem_pyg.neighbors.knn_graph` refuses the
                points.
        """
        check_single(data, "data", _FIX)
        points, metric = self._read(data)
        index = NeighborIndex(points, metric=metric, **self._options())
        fitted = _with_edges(copy.copy(data), index.edge_index, index.edge_weight)
        fitted[_points_name(data)] = points.clone()  # the edges are those of the points as they are
        self._fitted = index, fitted
        return self

    @property
    def graph(self) -> Data:
        """A copy of the data passed to :meth:`fit`, with its edges."""
        return self._memory[1].clone()

    def query(self, x_new: Tensor, k: int | None = None) -> tuple[Tensor, Tensor]:
        """Find the nearest fitted points of each new point.

        Args:
            x_new: [M, F] points of the fitted points' precision.
            k: how many, at most the number of fitted points; the transform's own if omitted.

        Returns:
            The neighbours [M, k] and their distances [M, k], ascending in each row.

        Raises:
            RuntimeError: before :meth:`fit`.
            TypeError: if `x_new` is of another precision, or `k` not an integer.
            ValueError: if `k`, the shape or the values of `x_new` do not fit.
        """
        return self._memory[0].query(x_new, k)

    def extend(self, new: Data | Tensor) -> Data:
        """Add new points to the fitted graph.

        The first N nodes are the fitted ones, with the same edges and weights. The M nodes behind
        them are the new ones, each joined to its k nearest fitted points, in both directions, by
        the kernel with the fitted widths ("self_tuning": and the new point's own local width). New
        points are not joined with each other: the edges of a point do not depend on which others
        arrive with it. Nothing is remembered; extend again from the fitted graph.

        Refitting to all points would give another graph. A fitted point would take a new one that
        is near for its own neighbour, in place of a farther old one, and new points would find each
        other; here fitted points do not gain neighbours that they have found themselves. Every edge
        to a fitted point that a new point would find when refitted is an edge here too, as long as
        the search is exact. The width of "gaussian", a median over all points, would move a little.
        On a graph so extended a diffusion also changes fitted nodes a little: a new edge adds to
        the degree of its old end. `examples/unseen_documents.py` compares both ways.

        Args:
            new: the points [M, F], or a `Data` that has them under the name that the fitted points
                had. Attributes of nodes that both have (labels, masks) are concatenated, and those
                that only one of them has are left out; attributes of the graph are the fitted ones.

        Returns:
            The extended graph, with a mask `is_new` [N + M].

        Raises:
            RuntimeError: before :meth:`fit`.
            TypeError: if the points are of another precision.
            ValueError: if there is a `batch`, if the points are not there, not finite or of another
                width than the fitted ones, or if an attribute of both does not fit together.
        """
        index, fitted = self._memory
        name = _points_name(fitted)
        new = Data.from_dict({name: new}) if isinstance(new, Tensor) else new
        check_single(new, "new", _FIX)
        if new.get(name) is None:
            raise ValueError(
                f"Expected 'new' to have points in '{name}', as the fitted graph (got {new})."
            )
        edges = index.extend(new[name])
        data = _joined_nodes(fitted, new, index.num_points, new[name].size(0))
        data.edge_index, data.edge_weight = edges
        data.is_new = torch.arange(data[name].size(0), device=data[name].device) >= index.num_points
        return data

    def _read(self, data: Data) -> tuple[Tensor, str]:
        """The points [N, F] of a graph and their metric; what "auto" means is logged once."""
        name, metric = _points_name(data), self.metric
        check_tensor(name, data[name])
        if metric == "auto":  # the kernel "cosine" is a function of the cosine alone
            metric = "l2" if name == "pos" and self.kernel != "cosine" else "cosine"
        if name not in self._logged:
            logger.info("Neighbours of data.%s, metric=%r.", name, metric)
            self._logged.add(name)
            columns = data[name].size(-1) if data[name].dim() else 0
            if self.metric == "auto" and metric == "cosine" and columns in (2, 3):
                logger.warning(
                    "data.%s has %d columns and is compared by the cosine, which sees directions "
                    "only. For positions, pass metric='l2'.",
                    name,
                    columns,
                )
        return data[name], metric

    @property
    def _memory(self) -> tuple[NeighborIndex, Data]:
        if self._fitted is None:
            raise RuntimeError(
                f"Expected {self.__class__.__name__} to be fitted. To fix this, call fit(data) "
                "with the points that new points are compared with."
            )
        return self._fitted

    def _options(self) -> dict[str, Any]:
        shape = ("k", "index", "kernel", "symmetrize", "connect")
        search = ("recall_target", "seed", "progress")
        return {name: getattr(self, name) for name in shape + search}

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}(k={self.k}, metric={self.metric!r}, index={self.index!r}, "
            f"kernel={self.kernel!r}, symmetrize={self.symmetrize!r}, connect={self.connect}, "
            f"recall_target={self.recall_target})"
        )


def _points_name(data: Data) -> str:
    """The attribute that holds the points: "x", or "pos" where there is none."""
    for name in ("x", "pos"):
        if data.get(name) is not None:
            return name
    raise ValueError("Expected 'data' to have points in 'x' or 'pos' (got neither).")


def _with_edges(data: Data, edge_index: Tensor, edge_weight: Tensor) -> Data:
    data.edge_index, data.edge_weight, data.edge_attr = edge_index, edge_weight, None
    record_edges(data, "edge_index", "edge_weight")
    return data


def _joined_nodes(fitted: Data, new: Data, num_fitted: int, num_new: int) -> Data:
    """The fitted graph with the nodes of both, still with its own edges."""
    data = copy.copy(fitted)
    for name in fitted.node_attrs():
        old, more = fitted[name], new.get(name)
        if not isinstance(more, Tensor) or not isinstance(old, Tensor):
            del data[name]
            continue
        if more.shape != (num_new, *old.shape[1:]) or more.dtype != old.dtype:
            raise ValueError(
                f"Expected '{name}' of the new nodes to be {old.dtype} of shape "
                f"{[num_new, *old.shape[1:]]}, as that of the fitted ones "
                f"(got {more.dtype}, {list(more.shape)})."
            )
        data[name] = torch.cat([old, more.to(old.device)])
    if "num_nodes" in data:
        data.num_nodes = num_fitted + num_new
    return data
