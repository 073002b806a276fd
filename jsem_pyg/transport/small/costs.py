"""The costs inside many small graphs, padded to one dense tensor [B, N, N]."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch_geometric.data import Data

from ..._checks import (
    check_choice,
    check_edge_index,
    check_edge_index_shape,
    check_edge_weight,
    check_finite,
    check_float,
    check_instance,
    check_points,
    check_positive,
    check_symmetric,
    check_text,
    numbers_of,
)
from ..._precision import compute_dtype
from ..costs.factor import Factor

COSTS = ("features", "inner", "shortest_path", "heat", "adjacency", "matrix")


class BatchCosts(NamedTuple):
    """The costs inside B graphs."""

    matrix: Tensor  #: [B, N, N] symmetric; zero in what pads a smaller graph
    sizes: Tensor  #: [B] int64, how many points a graph has, on the CPU

    @property
    def is_point(self) -> Tensor:
        """Mask [B, N] of the places that are points of a graph."""
        return is_point(self.sizes, self.matrix)


def is_point(sizes: Tensor, padded: Tensor) -> Tensor:
    """Mask [B, N] of the places that are points of graphs of these sizes, in a tensor [B, N, ...].

    Example:
        >>> is_point(torch.tensor([1, 2]), torch.zeros(2, 2, 5))
        tensor([[ True, False],
                [ True,  True]])
    """
    place = torch.arange(padded.size(1), device=padded.device)
    return place < sizes.to(padded.device)[:, None]


def batch_costs(
    graphs: Any,
    cost: str = "features",
    *,
    attribute: str = "x",
    t: float = 1.0,
    edge_length: Tensor | None = None,
) -> BatchCosts:
    """Compute the costs inside many small graphs, for :func:`.batch_gromov_wasserstein`.

    Differentiable in the features, the weights and lengths of edges, and the matrices. Edges count
    in both directions, with the mean of the weights given, or the shorter of the lengths.

    Args:
        graphs: a `torch_geometric.data.Batch`; or a list of points [n_b, D] (for "features" and
            "inner"), of symmetric matrices [n_b, n_b] (for "matrix"), or of factors, which have
            their costs with them; or matrices [B, N, N] of one size.
        cost: "features", squared distances of the features; "inner", inner products of them;
            "shortest_path", lengths of shortest paths in connected graphs; "heat", the heat kernel
            exp(-tL), L the symmetric normalised Laplacian of the weighted graph; "adjacency",
            weights of edges; "matrix", given ones.
        attribute: where a batch has its features, such as "x" or "pos".
        t: diffusion time > 0 of "heat".
        edge_length: [E] non-negative lengths of the edges of a batch; None: one each.

    Returns:
        Costs [B, N, N], N the size of the largest graph, and the sizes [B].

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if there is no graph, or one without points, or one that is not connected where
            that matters, or numbers are not finite, or a matrix is not symmetric.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> batch_costs(path, "shortest_path").matrix
        tensor([[[0., 1., 2.],
                 [1., 0., 1.],
                 [2., 1., 0.]]])
    """
    check_text("attribute", attribute)
    check_choice("cost", cost, COSTS)
    check_positive("t", t)
    if isinstance(graphs, BatchCosts):
        return graphs
    if isinstance(graphs, Tensor) and graphs.dim() != 3:
        raise ValueError(
            "Expected 'graphs' to have shape [B, N, N] where it is a tensor (got "
            f"{list(graphs.shape)}). To fix this, wrap a single matrix in a list."
        )
    if isinstance(graphs, Tensor | Sequence) and not isinstance(graphs, str):
        return _of_list(list(graphs), cost)
    check_instance("graphs", graphs, Data, "a Batch, a list of tensors or of factors, or a tensor")
    if cost == "matrix":
        raise ValueError(
            "Expected 'cost' to be one that a batch has, with a Batch as 'graphs' (got 'matrix')."
            " To fix this, hand over the list of matrices itself."
        )
    graph, sizes = _graphs_of_nodes(graphs)
    if cost in ("features", "inner"):
        x = getattr(graphs, attribute, None)
        if x is None:
            raise ValueError(
                f"Expected 'graphs' to have features in '{attribute}' (got none). To fix this, "
                "name another attribute, or pass cost='shortest_path'."
            )
        check_points(attribute, x)
        if x.size(0) != graph.numel():
            raise ValueError(
                f"Expected '{attribute}' to have a row for each of {graph.numel()} nodes (got "
                f"{x.size(0)})."
            )
        return _of_points(list(x.split(sizes.tolist())), sizes, cost)
    places = _places(graphs, graph, sizes)
    if cost == "shortest_path":
        return _shortest_paths(places, edge_length, sizes)
    adjacency = _adjacency(places, getattr(graphs, "edge_weight", None))
    return _heat_kernels(adjacency, sizes, t) if cost == "heat" else BatchCosts(adjacency, sizes)


def _of_list(parts: list[Any], cost: str) -> BatchCosts:
    """Costs of points, matrices or factors."""
    if not parts:
        raise ValueError("Expected 'graphs' to hold at least one graph (got none).")
    if all(isinstance(part, Factor) for part in parts):
        parts, cost = [part.dense() for part in parts], "matrix"
    for index, part in enumerate(parts):
        check_float(f"graphs[{index}]", part)
        if part.dim() != 2 or part.numel() == 0:
            raise ValueError(
                f"Expected 'graphs[{index}]' to be a table with at least one row and one column "
                f"(got shape {list(part.shape)})."
            )
        if cost == "matrix" and part.size(0) != part.size(1):
            raise ValueError(
                f"Expected 'graphs[{index}]' to be a square matrix (got shape "
                f"{list(part.shape)}). To fix this, pass cost='features' if these are points."
            )
    sizes = torch.tensor([part.size(0) for part in parts])
    if cost in ("features", "inner"):
        return _of_points(parts, sizes, cost)
    if cost != "matrix":
        raise ValueError(
            f"Expected 'graphs' to be a Batch for cost={cost!r}, which is made of edges (got a list"
            " of tensors). To fix this, pass cost='matrix' with matrices, or 'features' with "
            "points."
        )
    n, dtype = int(sizes.max()), compute_dtype(parts[0])
    matrix = torch.stack([pad(part, (0, n - part.size(0)) * 2).to(dtype) for part in parts])
    check_finite("graphs", matrix)
    check_symmetric("graphs", matrix, matrix.mT)
    return BatchCosts(matrix, sizes)


def _of_points(parts: list[Tensor], sizes: Tensor, cost: str) -> BatchCosts:
    """Inner products or squared distances of points [n_b, D]."""
    dims = {part.size(1) for part in parts}
    if len(dims) > 1:
        raise ValueError(
            "Expected the graphs of 'graphs' to have as many columns each (got from "
            f"{min(dims)} to {max(dims)})."
        )
    dtype = compute_dtype(parts[0])
    x = pad_sequence([part.to(dtype) for part in parts], batch_first=True)
    check_finite("graphs", x)
    if cost == "inner":
        return BatchCosts(x @ x.mT, sizes)
    # Not by inner products, whose rounding would be what copies of one point are apart.
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    return _masked(distance.square(), sizes)


def _masked(matrix: Tensor, sizes: Tensor) -> BatchCosts:
    """Costs that are zero in what pads a graph."""
    return BatchCosts(torch.where(_is_pair(sizes, matrix), matrix, 0), sizes)


def _is_pair(sizes: Tensor, matrix: Tensor) -> Tensor:
    """Mask [B, N, N] of the pairs of points of a graph."""
    point = is_point(sizes, matrix)
    return point[:, :, None] & point[:, None]


def _graphs_of_nodes(graphs: Data) -> tuple[Tensor, Tensor]:
    """The graph of each node of a batch, and the sizes [B] of the graphs on the CPU."""
    if graphs.edge_index is not None:
        check_edge_index_shape(graphs.edge_index)
    graph = getattr(graphs, "batch", None)
    if graph is None:  # one graph, as a Data
        known = graphs.edge_index if graphs.edge_index is not None else graphs.x
        device = None if known is None else known.device
        graph = torch.zeros(int(graphs.num_nodes or 0), dtype=torch.int64, device=device)
    sizes = torch.bincount(graph, minlength=int(getattr(graphs, "num_graphs", 1))).cpu()
    empty = (sizes == 0).nonzero()[:, 0].tolist()
    if empty or sizes.numel() == 0:
        raise ValueError(
            "Expected 'graphs' to hold graphs of at least one node (got "
            f"{f'none in graphs {empty}' if empty else 'no graph'}). To fix this, leave empty "
            "graphs out, with their partners."
        )
    if bool((graph.diff() < 0).any()):
        raise ValueError(
            "Expected the nodes of 'graphs' to be sorted by graph, as in a Batch of PyG."
        )
    return graph, sizes


class _Places(NamedTuple):
    """Where the edges of a batch lie in matrices [B, N, N]."""

    forward: Tensor  # [E] into the flat matrices
    backward: Tensor  # [E] the same of the reverse edges
    shape: tuple[int, int, int]


def _places(graphs: Data, graph: Tensor, sizes: Tensor) -> _Places:
    if graphs.edge_index is None:
        raise ValueError(
            "Expected 'graphs' to have an 'edge_index' (got none). To fix this, pass "
            "cost='features'."
        )
    check_edge_index(graphs.edge_index, graph.numel())
    source, target = graphs.edge_index.long()
    if bool((graph[source] != graph[target]).any()):
        raise ValueError("Expected no edge between two graphs of 'graphs' (got some).")
    n = int(sizes.max())
    first = (sizes.cumsum(0) - sizes).to(graph.device)[graph]
    row = graph * n + torch.arange(graph.numel(), device=graph.device) - first
    place = row - graph * n
    forward, backward = row[target] * n + place[source], row[source] * n + place[target]
    return _Places(forward, backward, (sizes.numel(), n, n))


def _adjacency(places: _Places, weight: Tensor | None) -> Tensor:
    """[B, N, N], the mean of the directions of an edge that are there; parallel edges add up."""
    if weight is None:
        weight = torch.ones(places.forward.numel(), device=places.forward.device)
    check_edge_weight(weight, places.forward.numel())
    weight = weight.to(compute_dtype(weight))
    zeros = weight.new_zeros(places.shape).flatten()
    out = zeros.index_add(0, places.forward, weight).view(places.shape)
    seen = zeros.index_fill(0, places.forward, 1.0).view(places.shape)
    return (out + out.mT) / (seen + seen.mT).clamp(min=1)


def _shortest_paths(places: _Places, edge_length: Tensor | None, sizes: Tensor) -> BatchCosts:
    """Floyd and Warshall's algorithm on all graphs at once."""
    if edge_length is None:
        edge_length = torch.ones(places.forward.numel(), device=places.forward.device)
    check_edge_weight(edge_length, places.forward.numel(), "edge_length")
    edge_length = edge_length.to(compute_dtype(edge_length))
    path = edge_length.new_full(places.shape, torch.inf).flatten()
    both = torch.cat([places.forward, places.backward])
    path = path.scatter_reduce(0, both, edge_length.repeat(2), "amin").view(places.shape)
    path = torch.where(torch.eye(path.size(1), dtype=torch.bool, device=path.device), 0, path)
    for middle in range(path.size(1)):
        path = torch.minimum(path, path[:, :, middle, None] + path[:, middle, None, :])
    apart = (_is_pair(sizes, path) & torch.isinf(numbers_of(path))).flatten(1).any(1)
    if bool(apart.any()):
        raise ValueError(
            f"Expected the graphs of 'graphs' to be connected (got {int(apart.sum())} that are "
            f"not, the first is {int(apart.nonzero()[0, 0])}). To fix this, take cost='heat'."
        )
    return _masked(path, sizes)


def _heat_kernels(adjacency: Tensor, sizes: Tensor, t: float) -> BatchCosts:
    degree = adjacency.sum(2)
    connected = degree > 0
    root = torch.where(connected, degree, 1).rsqrt()
    laplacian = connected.to(degree).diag_embed() - root[..., None] * adjacency * root[:, None]
    kernel = torch.linalg.matrix_exp(-t * laplacian)
    return _masked((kernel + kernel.mT) / 2, sizes)
