"""A PyG transform: the neighbour graph of the points of a `Data`."""

from typing import Any

from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from .._checks import check_choice, check_tensor
from ..graph.reader import check_data
from ..neighbors import knn_graph
from ..neighbors.build import GraphOptions
from ..neighbors.points import METRICS
from ..neighbors.searcher import SearchOptions
from ._batch import record_edges


@functional_transform("faiss_knn_graph")
class FaissKNNGraph(BaseTransform):
    """Creates the weighted k-nearest-neighbour graph of points (`faiss_knn_graph`).

    It is PyG's `KNNGraph` with the options of :func:`jsem_pyg.neighbors.knn_graph`. The points are
    `data.x`, compared by their cosine, or else `data.pos`, compared by their distance. It writes
    `edge_index` [2, E], both directions of every edge, sorted, and `edge_weight` [E]; removes
    `edge_attr`, as it belonged to other edges. In a mini-batch every graph gets a neighbour graph
    of its own. Gradients do not flow back to the points.

    For points that come later, see :class:`jsem_pyg.neighbors.NeighborIndex`.

    Args:
        k: neighbours of each point. In a graph of no more points than that all are joined, and the
            log warns.
        metric: "cosine" (1 - cos), "l2" (Euclidean distance), or "auto": "cosine" for `data.x` with
            more than three columns, "l2" for others, unless the kernel is "cosine".
        index, kernel, symmetrize, connect, recall_target, seed, progress: as in
            :func:`jsem_pyg.neighbors.knn_graph`.

    Example:
        >>> import torch
        >>> data = Data(x=torch.tensor([[0.0], [1.0], [3.0], [3.5]]))
        >>> FaissKNNGraph(k=1, metric="l2")(data)
        Data(x=[4, 1], edge_index=[2, 6], edge_weight=[6])
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
        GraphOptions(k, "cosine" if metric == "auto" else metric, kernel, symmetrize, connect)
        SearchOptions(index, recall_target, seed, progress)
        self.metric = metric
        self.options: dict[str, Any] = {
            "k": k,
            "index": index,
            "kernel": kernel,
            "symmetrize": symmetrize,
            "connect": connect,
            "recall_target": recall_target,
            "seed": seed,
            "progress": progress,
        }

    def forward(self, data: Data) -> Data:
        """Write the edges of the neighbour graph into `data`; `__call__` has copied it."""
        check_data(data)
        name = "pos" if data.get("x") is None else "x"
        points, metric = data.get(name), self.metric
        if points is None:
            raise ValueError("Expected 'data' to have points in 'x' or 'pos' (got neither).")
        if metric == "auto":
            check_tensor(f"data.{name}", points)
            is_space = name == "pos" or points.shape[1:].numel() <= 3
            metric = "l2" if is_space and self.options["kernel"] != "cosine" else "cosine"
        data.edge_index, data.edge_weight = knn_graph(
            points, metric=metric, batch=data.get("batch"), **self.options
        )
        data.edge_attr = None
        record_edges(data, "edge_index", "edge_weight")
        return data

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"FaissKNNGraph(metric={self.metric!r}, {options})"
