"""PyG transforms to hypergraphs: hyperedges from points, graphs and clusters."""

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.data.hypergraph_data import HyperGraphData
from torch_geometric.transforms import BaseTransform

from .._checks import check_choice, check_nonnegative_int, check_points, check_positive_int
from ..graph.hyperedges import clique_hyperedges, cluster_hyperedges, knn_hyperedges
from ._batch import count_nodes
from ._hypergraph import check_single, with_hyperedges
from ._points import METRICS, MetricPoints, points_name


@functional_transform("knn_hyperedges")
class KNNHyperedges(BaseTransform):
    """Makes a hyperedge of every point and its k nearest neighbours (`knn_hyperedges`).

    Returns a `HyperGraphData` with the nodes of `data`. The points are `data.x`, compared by their
    cosine, or else `data.pos`, compared by their distance; the choice is logged once.

    Args:
        k: neighbours of each point, less than the number of points.
        metric: "cosine", "l2", or "auto": "cosine" for `data.x`, "l2" for `data.pos`.

    Raises:
        TypeError: if `k` is not an integer, or `data` not a homogeneous graph.
        ValueError: if `data` is a mini-batch, or :func:`jsem_pyg.graph.knn_hyperedges` refuses the
            points.

    Example:
        >>> data = Data(x=torch.tensor([[0.0], [1.0], [3.0], [3.5]]))
        >>> KNNHyperedges(k=1, metric="l2")(data)
        HyperGraphData(x=[4, 1], edge_index=[2, 8], num_hyperedges=4)
    """

    def __init__(self, k: int = 15, metric: str = "auto") -> None:
        check_positive_int("k", k)
        check_choice("metric", metric, METRICS)
        self.k = k
        self.metric = metric
        self._points = MetricPoints(metric)

    def forward(self, data: Data) -> HyperGraphData:
        """Give the nodes of `data` hyperedges."""
        check_single(data)
        x, metric = self._points.read(data)
        check_points("x", x)
        return with_hyperedges(data, knn_hyperedges(x, self.k, metric), x.size(0))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(k={self.k}, metric={self.metric!r})"


@functional_transform("clique_hyperedges")
class CliqueHyperedges(BaseTransform):
    """Makes a hyperedge of every clique of a graph, of every triangle (`clique_hyperedges`).

    Args:
        size: nodes of a clique, at least 2, which means the edges themselves.

    Raises:
        TypeError: if `size` is not an integer, or `data` not a homogeneous graph.
        ValueError: if `data` is a mini-batch or has no edges, or `size` is below 2.

    Example:
        >>> data = Data(edge_index=torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]]), num_nodes=4)
        >>> CliqueHyperedges()(data)
        HyperGraphData(edge_index=[2, 3], num_nodes=4, num_hyperedges=1)
    """

    def __init__(self, size: int = 3) -> None:
        check_positive_int("size", size)
        self.size = size

    def forward(self, data: Data) -> HyperGraphData:
        """Give the nodes of `data` hyperedges."""
        check_single(data)
        if data.edge_index is None:
            raise ValueError("Expected 'data' to have an 'edge_index' (got none).")
        hyperedge_index = clique_hyperedges(data.edge_index, count_nodes(data), self.size)
        return with_hyperedges(data, hyperedge_index, hyperedge_index.size(1) // self.size)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(size={self.size})"


@functional_transform("cluster_hyperedges")
class ClusterHyperedges(BaseTransform):
    """Makes a hyperedge of every cluster of points, found by k-means (`cluster_hyperedges`).

    For clusters of your own there is :func:`jsem_pyg.graph.cluster_hyperedges`.

    Args:
        num_clusters: at most the number of points.
        seed: of k-means.

    Raises:
        TypeError: if `num_clusters` is not an integer, or `data` not a homogeneous graph.
        ValueError: if `data` is a mini-batch, or has fewer points than clusters.

    Example:
        >>> data = Data(x=torch.tensor([[0.0], [1.0], [3.0], [3.5]]))
        >>> ClusterHyperedges(num_clusters=2)(data)
        HyperGraphData(x=[4, 1], edge_index=[2, 4], num_hyperedges=2)
    """

    def __init__(self, num_clusters: int = 8, seed: int = 0) -> None:
        check_positive_int("num_clusters", num_clusters)
        check_nonnegative_int("seed", seed)
        if seed >= 2**32:
            raise ValueError(f"Expected 'seed' to be below 2**32, for k-means (got {seed}).")
        self.num_clusters = num_clusters
        self.seed = seed

    def forward(self, data: Data) -> HyperGraphData:
        """Give the nodes of `data` hyperedges."""
        check_single(data)
        x = data[points_name(data)]
        check_points("x", x)
        if x.size(0) < self.num_clusters:
            raise ValueError(
                f"Expected 'num_clusters' to be at most the number of points, {x.size(0)} "
                f"(got {self.num_clusters})."
            )
        from sklearn.cluster import KMeans

        means = KMeans(self.num_clusters, random_state=self.seed, n_init=10)
        label = torch.from_numpy(means.fit_predict(x.detach().cpu().numpy())).to(x.device)
        hyperedge_index = cluster_hyperedges(label.long())
        # Fewer than `num_clusters` where points coincide.
        return with_hyperedges(data, hyperedge_index, int(hyperedge_index[1].max()) + 1)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(num_clusters={self.num_clusters}, seed={self.seed})"
