"""Input of a cost: a `Data`, the edges of a graph, or points."""

from typing import Any, NamedTuple, TypeGuard, cast

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.typing import SparseTensor

from ..._checks import as_argument, check_float, check_instance, check_points, check_positive_int
from ...graph import GraphStructure
from ...graph.reader import GraphReader, choose_weight, count_nodes, read_structure
from ...kernels.torch_func import compute_dtype
from ...neighbors import knn_graph

_READER = GraphReader(keeps=False)  # it remembers nothing: who calls often prepares a structure


class GraphInput(NamedTuple):
    """A graph that has passed its checks, and the points that it joins."""

    structure: GraphStructure
    weight: Tensor | None  # [E], None: ones
    points: Tensor | None  # [N, D], where they are known; not checked if the edges are given
    joins_neighbors: bool = False  # whether it was made here, of the points

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.structure.num_nodes

    @property
    def edge_index(self) -> Tensor:
        """[2, E]."""
        return torch.stack(self.structure.edges[::-1])

    @property
    def dtype(self) -> torch.dtype:
        """The number type of the weights, or of the points, or torch's default."""
        known = self.points if self.weight is None else self.weight
        return compute_dtype(known)


def is_points(source: Any) -> TypeGuard[Tensor]:
    """Return True for a dense table of floating-point numbers: no form of graph is one."""
    return (
        isinstance(source, Tensor) and source.layout == torch.strided and source.is_floating_point()
    )


def data_points(data: Data) -> Tensor | None:
    """Find the points of a `Data`, in `x` or else in `pos`, if it has any; not yet checked."""
    x = data.get("x")
    return data.get("pos") if x is None else x


def data_graph(data: Data) -> Any:
    """Find the edges of a `Data`, in `edge_index` or else in `adj_t`, if it has any."""
    edge_index = data.get("edge_index")
    return data.get("adj_t") if edge_index is None else edge_index


def read_points(source: Any) -> tuple[Tensor, Tensor | None]:
    """Read and check points [N, D], and the edges of the `Data` that they come in, if any."""
    points, edge_index = source, None
    if isinstance(source, Data):
        points = data_points(source)
        if points is None:
            raise ValueError(
                f"Expected 'source' to have points in 'x' or 'pos' (got {source}). To fix this, "
                "take a cost of the graph, such as HeatCost()."
            )
        if data_graph(source) is not None:
            edge_index = read_graph(source, None, None, 1, "l2").edge_index
    check_points("source", points)
    return points.to(compute_dtype(points)), edge_index


def read_graph(
    source: Any,
    edge_weight: Tensor | None,
    num_nodes: int | None,
    k: int,
    metric: str,
    weight_name: str | None = "edge_weight",
) -> GraphInput:
    """Read the graph of a cost, checked.

    `source` is a `Data` with edges (`edge_index` or `adj_t`) or else points (`x` or `pos`); a graph
    in any form that :func:`~jsem_pyg.diffusion.heat_diffusion` takes; or points [N, D],
    floating-point. Points get the graph of their `k` nearest neighbours by `metric`, and neither
    `edge_weight` nor `num_nodes`. Of a `Data`, the attribute `weight_name` has the weights.
    """
    points, graph = None, source
    if edge_weight is not None:
        check_float("edge_weight", edge_weight)
    if isinstance(source, Data):
        points, graph = data_points(source), data_graph(source)
        if graph is None and points is None:
            raise ValueError(
                "Expected 'source' to have edges in 'edge_index' or 'adj_t', or points in 'x' or "
                f"'pos' (got {source}). To fix this, add one of them."
            )
        if graph is not None:
            edge_weight = choose_weight(_data_weight(source, weight_name), edge_weight)
            num_nodes = source.num_nodes if num_nodes is None else num_nodes
            # Which may have features of any kind.
            points = points if is_points(points) and points.dim() == 2 else None
    elif is_points(source):
        points, graph = source, None
    if graph is None:
        check_points("source", points)
        return _neighbor_graph(points, edge_weight, num_nodes, k, metric)  # type: ignore[arg-type]
    if isinstance(source, Data):
        return read_edges(graph, edge_weight, num_nodes, points)
    with as_argument("source", "edge_index"):
        return read_edges(graph, edge_weight, num_nodes, points)


def _data_weight(data: Data, name: str | None) -> Tensor | None:
    """Find values of the edges [E], also in a single column [E, 1]."""
    weight = None if name is None else data.get(name)
    if isinstance(weight, Tensor) and weight.dim() == 2 and weight.size(1) == 1:
        return weight[:, 0]
    return weight


def _neighbor_graph(
    points: Tensor, edge_weight: Tensor | None, num_nodes: int | None, k: int, metric: str
) -> GraphInput:
    check_positive_int("k", k)
    for name, value in (("edge_weight", edge_weight), ("num_nodes", num_nodes)):
        if value is not None:
            raise ValueError(
                f"Expected 'source' to be the edges of a graph, with '{name}' (got points, whose "
                f"edges are the nearest neighbours). To fix this, pass edges, or omit '{name}'."
            )
    dtype = compute_dtype(points)
    if points.size(0) == 1:  # whose graph has no edges, and no neighbours to ask for
        edge_index = torch.empty(2, 0, dtype=torch.int64, device=points.device)
        weight = torch.empty(0, dtype=dtype, device=points.device)
        return GraphInput(GraphStructure(edge_index, 1), weight, points, True)
    found = knn_graph(points.detach(), k, metric, progress=False)
    structure = GraphStructure(found[0], points.size(0))
    return GraphInput(structure, found[1].to(dtype), points, True)


def read_edges(
    graph: Any, edge_weight: Tensor | None, num_nodes: int | None, points: Tensor | None = None
) -> GraphInput:
    """Read and check a graph in any form, with weights [E] and the points that it joins."""
    kinds = Tensor | GraphStructure | SparseTensor
    check_instance("edge_index", graph, kinds, "a Data, a graph in any form, or points [N, D]")
    size = count_nodes(graph, num_nodes)
    if size == 0:
        raise ValueError("Expected 'edge_index' to have at least one node (got none).")
    if isinstance(graph, GraphStructure):
        graph = read_structure(graph, num_nodes)
    if points is not None and points.size(0) != size:
        raise ValueError(
            f"Expected the points of 'source' to have a row for each of its {size} nodes (got "
            f"{points.size(0)} rows)."
        )
    if edge_weight is not None:
        check_float("edge_weight", edge_weight)
    like = points if edge_weight is None else edge_weight
    dtype = torch.float32 if like is None else like.dtype
    # Nothing flows here: a column of zeros stands for the signal that a graph is read with.
    device = graph.device() if isinstance(graph, SparseTensor) else graph.device
    structure, weight = _READER.read(
        graph, torch.zeros(size, 1, dtype=dtype, device=device), edge_weight
    )
    return GraphInput(cast(GraphStructure, structure), weight, points)


def check_connected(graph: GraphInput, why: str) -> None:
    """Raise a ValueError unless edges join all nodes."""
    count = graph.structure.num_components
    if count > 1:
        raise ValueError(
            f"Expected a connected graph, {why} (got {count} components). To fix this, make it "
            "with knn_graph(..., connect=True), or take HeatCost, which any graph has."
        )
