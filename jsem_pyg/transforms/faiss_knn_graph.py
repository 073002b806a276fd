"""PyG's door to stage 1: a neighbour graph from the points of a `Data`."""

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import coalesce

from ..graph import knn_graph
from ..graph.build import check_options
from ._batch import check_data, record_edges


@functional_transform("faiss_knn_graph")
class FaissKNNGraph(BaseTransform):
    """Creates the weighted k-nearest-neighbour graph of `data.x` (`faiss_knn_graph`).

    Writes `edge_index` [2, E], both directions of every edge, sorted, and `edge_weight` [E];
    removes `edge_attr`, which belonged to other edges. Points come from `data.pos` where there is
    no `data.x`. In a mini-batch every graph gets a neighbour graph of its own. Gradients do not
    flow back to the points.

    Args:
        k: neighbours of each point, less than the number of points of every graph.
        metric: "cosine" or "l2".
        index: "auto" or "flat", the exact search; "hnsw" and "ivf" are not built yet.
        kernel: how distances become weights: "gaussian", "self_tuning", "cosine" or None (ones).
        symmetrize: "max", "mean" or "mutual".
        connect: whether to join the components of each graph by their shortest links.

    Raises:
        TypeError: if `k` is not an integer, or the points or `data` are not of the right type.
        ValueError: if an argument is none of the above, or :func:`jsem_pyg.graph.knn_graph`
            refuses the points.

    Example:
        >>> data = Data(x=torch.tensor([[0.0], [1.0], [3.0], [3.5]]))
        >>> FaissKNNGraph(k=1, metric="l2")(data)
        Data(x=[4, 1], edge_index=[2, 6], edge_weight=[6])
    """

    def __init__(
        self,
        k: int = 15,
        metric: str = "cosine",
        index: str = "auto",
        kernel: str | None = "gaussian",
        symmetrize: str = "max",
        connect: bool = True,
    ) -> None:
        check_options(k, metric, index, kernel, symmetrize)
        self.k = k
        self.metric = metric
        self.index = index
        self.kernel = kernel
        self.symmetrize = symmetrize
        self.connect = connect

    def forward(self, data: Data) -> Data:
        """Give `data`, which `__call__` has copied, its new edges."""
        check_data(data)
        x, batch = _points(data), data.get("batch")
        if batch is None:
            data.edge_index, data.edge_weight = self._build(x)
        else:
            data.edge_index, data.edge_weight = self._build_each(x, batch)
        data.edge_attr = None
        record_edges(data, "edge_index", "edge_weight")
        return data

    def _build(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return knn_graph(
            x, self.k, self.metric, self.index, self.kernel, self.symmetrize, self.connect
        )

    def _build_each(self, x: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
        indices, weights = [], []
        for graph in batch.unique().tolist():
            nodes = (batch == graph).nonzero()[:, 0]
            try:
                edge_index, edge_weight = self._build(x[nodes])
            except ValueError as error:
                raise ValueError(f"In graph {graph} of the batch: {error}") from error
            indices.append(nodes[edge_index])
            weights.append(edge_weight)
        if not indices:
            return batch.new_empty(2, 0), x.new_empty(0)
        # Sorted already, unless the graphs of the batch are interleaved.
        return coalesce(torch.cat(indices, dim=1), torch.cat(weights), num_nodes=x.size(0))

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}(k={self.k}, metric={self.metric!r}, index={self.index!r}, "
            f"kernel={self.kernel!r}, symmetrize={self.symmetrize!r}, connect={self.connect})"
        )


def _points(data: Data) -> Tensor:
    for name in ("x", "pos"):
        points = data.get(name)
        if points is not None:
            return points
    raise ValueError("Expected 'data' to have points in 'x' or 'pos' (got neither).")
