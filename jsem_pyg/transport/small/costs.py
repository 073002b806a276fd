"""The costs inside many small graphs, padded to one dense tensor [B, N, N]."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch_geometric.data import Data

from ..._checks import (
    check_choice,
    check_edge_index,
    check_edge_index_shape,
    check_edge_weight,
    check_finite,
    check_float,
    check_instance,
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
        place = torch.arange(self.matrix.size(1), device=self.matrix.device)
        return place < self.sizes.to(self.matrix.device)[:, None]


def batch_costs(
    graphs: Any,
    cost: str = "features",
    *,
    attribute: str = "x",
    t: float = 1.0,
    edge_length: Tensor | None = None,
    unreachable: float | None = None,
    name: str = "graphs",
) -> BatchCosts:
    """Compute the costs inside many small graphs, for :func:`.batch_gromov_wasserstein`.

    Differentiable in the features, the weights and lengths of edges, and the matrices. Edges count
    in both directions, with the mean of the weights given, or the shorter of the lengths.

    Args:
        graphs: a `torch_geometric.data.Batch`; or a list of points [n_b, D] (for "features" and
            "inner"), of symmetric matrices [n_b, n_b] (for "matrix"), or of factors, which have
            their costs with them; or matrices [B, N, N] of one size.
        cost: "features", squared distances of the features; "inner", inner products of them;
            "shortest_path", lengths of shortest paths; "heat", the heat kernel exp(-tL), L the
            symmetric normalised Laplacian of the weighted graph; "adjacency", weights of edges;
            "matrix", given ones.
        attribute: where a batch has its features, such as "x" or "pos".
        t: diffusion time > 0 of "heat".
        edge_length: [E] non-negative lengths of the edges of a batch; None: one each.
        unreachable: the cost of points that no path joins; None refuses them.
        name: what errors call the graphs.

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
    for what, value in (("name", name), ("attribute", attribute)):
        check_text(what, value)
    check_choice("cost", cost, COSTS)
    check_positive("t", t)
    if unreachable is not None:
        check_positive("unreachable", unreachable)
    if isinstance(graphs, BatchCosts):
        return graphs
    if isinstance(graphs, Tensor):
        return _given(name, _as_list(name, graphs), cost)
    if isinstance(graphs, Sequence) and not isinstance(graphs, str):
        return _given(name, list(graphs), cost)
    check_instance(name, graphs, Data, "a Batch, a list of tensors or of factors, or a tensor")
    if cost == "matrix":
        raise ValueError(
            f"Expected 'cost' to be one that a batch has, with a Batch as '{name}' (got 'matrix')."
            " To fix this, hand over the list of matrices itself."
        )
    layout = _Layout(graphs, name)
    if cost in ("features", "inner"):
        return _of_features(layout.padded_features(attribute), layout.sizes, cost)
    if cost == "shortest_path":
        return BatchCosts(_shortest_paths(layout, edge_length, unreachable), layout.sizes)
    adjacency = layout.adjacency()
    if cost == "heat":
        return BatchCosts(_heat_kernels(adjacency, layout.is_point, t), layout.sizes)
    return BatchCosts(adjacency, layout.sizes)


def _as_list(name: str, matrices: Tensor) -> list[Tensor]:
    if matrices.dim() != 3:
        raise ValueError(
            f"Expected '{name}' to have shape [B, N, N] where it is a tensor (got "
            f"{list(matrices.shape)}). To fix this, wrap a single matrix in a list."
        )
    return list(matrices)


def _given(name: str, parts: list[Any], cost: str) -> BatchCosts:
    if not parts:
        raise ValueError(f"Expected '{name}' to hold at least one graph (got none).")
    if all(isinstance(part, Factor) for part in parts):
        parts, cost = [part.dense() for part in parts], "matrix"
    for index, part in enumerate(parts):
        check_float(f"{name}[{index}]", part)
        if part.dim() != 2 or part.numel() == 0:
            raise ValueError(
                f"Expected '{name}[{index}]' to be a table with at least one row and one column "
                f"(got shape {list(part.shape)})."
            )
    sizes = torch.tensor([part.size(0) for part in parts])
    if cost in ("features", "inner"):
        return _of_features(_padded(name, parts, "columns"), sizes, cost)
    if cost != "matrix":
        raise ValueError(
            f"Expected '{name}' to be a Batch for cost={cost!r}, which is made of edges (got a list"
            " of tensors). To fix this, pass cost='matrix' with matrices, or 'features' with "
            "points."
        )
    for index, part in enumerate(parts):
        if part.size(0) != part.size(1):
            raise ValueError(
                f"Expected '{name}[{index}]' to be a square matrix (got shape {list(part.shape)}). "
                "To fix this, pass cost='features' if these are points."
            )
    matrix = _padded(name, parts, None)
    check_symmetric(name, matrix, matrix.mT)
    return BatchCosts(matrix, sizes)


def _padded(name: str, parts: list[Tensor], same: str | None) -> Tensor:
    """Tables [n_b, m_b] -> one [B, n, m], padded with zeros."""
    rows = torch.tensor([part.size(0) for part in parts])
    columns = torch.tensor([part.size(1) for part in parts])
    if same and int(columns.min()) != int(columns.max()):
        raise ValueError(
            f"Expected the graphs of '{name}' to have as many {same} each (got from "
            f"{int(columns.min())} to {int(columns.max())})."
        )
    n, m = int(rows.max()), int(columns.max())
    dtype = compute_dtype(parts[0])
    whole = [pad(part, (0, m - part.size(1), 0, n - part.size(0))) for part in parts]
    table = torch.stack([part.to(dtype) for part in whole])
    check_finite(name, table)
    return table


class _Layout:
    """Positions of the nodes and edges of a batch in padded tensors."""

    def __init__(self, graphs: Data, name: str) -> None:
        self.graphs, self.name = graphs, name
        if graphs.edge_index is not None:
            check_edge_index_shape(graphs.edge_index)
        self.num_nodes = int(graphs.num_nodes or 0)
        batch = getattr(graphs, "batch", None)
        if batch is None:  # one graph, as a Data
            known = graphs.edge_index if graphs.edge_index is not None else graphs.x
            device = torch.device("cpu") if known is None else known.device
            batch = torch.zeros(self.num_nodes, dtype=torch.int64, device=device)
        num_graphs = int(getattr(graphs, "num_graphs", 1))
        size = torch.bincount(batch, minlength=num_graphs)
        self.graph, self.sizes = batch, size.cpu()
        if num_graphs == 0 or int(self.sizes.min()) == 0:
            empty = [] if num_graphs == 0 else (self.sizes == 0).nonzero()[:, 0].tolist()
            raise ValueError(
                f"Expected '{name}' to hold graphs of at least one node (got "
                f"{f'none in graphs {empty}' if empty else 'no graph'}). To fix this, leave "
                "empty graphs out, with their partners."
            )
        self.longest = int(self.sizes.max())
        self.place = torch.arange(self.num_nodes, device=batch.device)
        self.place = self.place - (size.cumsum(0) - size)[batch]
        if bool((batch.diff() < 0).any()):
            raise ValueError(
                f"Expected the nodes of '{name}' to be sorted by graph, as in a Batch of PyG."
            )

    @property
    def is_point(self) -> Tensor:
        return torch.arange(self.longest, device=self.graph.device) < self.sizes.to(
            self.graph.device
        ).unsqueeze(1)

    def padded_features(self, attribute: str) -> Tensor:
        x = getattr(self.graphs, attribute, None)
        if x is None:
            raise ValueError(
                f"Expected '{self.name}' to have features in '{attribute}' (got none). To fix "
                "this, name another attribute, or pass cost='shortest_path'."
            )
        check_float(attribute, x)
        if x.dim() != 2 or x.size(0) != self.num_nodes:
            raise ValueError(
                f"Expected '{attribute}' to have shape [{self.num_nodes}, F], a row for each node "
                f"(got {list(x.shape)})."
            )
        check_finite(attribute, x)
        x = x.to(compute_dtype(x))
        out = x.new_zeros(self.sizes.numel(), self.longest, x.size(1))
        return out.index_put((self.graph, self.place), x)

    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """For every edge its graph, and the places of its ends there."""
        edge_index = self.graphs.edge_index
        if edge_index is None:
            raise ValueError(
                f"Expected '{self.name}' to have an 'edge_index' (got none). To fix this, pass "
                "cost='features'."
            )
        check_edge_index(edge_index, self.num_nodes)
        source, target = edge_index.long()
        graph = self.graph[source]
        if bool((graph != self.graph[target]).any()):
            raise ValueError(f"Expected no edge between two graphs of '{self.name}' (got some).")
        return graph, self.place[source], self.place[target]

    def adjacency(self) -> Tensor:
        """[B, N, N], the mean of both directions; parallel edges add up."""
        graph, source, target = self.edges()
        weight = getattr(self.graphs, "edge_weight", None)
        if weight is None:
            weight = torch.ones(graph.numel(), device=graph.device)
        check_edge_weight(weight, graph.numel())
        weight = weight.to(compute_dtype(weight))
        out = weight.new_zeros(self.sizes.numel(), self.longest, self.longest)
        out = out.index_put((graph, target, source), weight, accumulate=True)
        return _both_directions(out, graph, source, target)


def _both_directions(out: Tensor, graph: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """The mean of the directions of an edge that are there."""
    seen = torch.zeros_like(out).index_put((graph, target, source), out.new_ones(()))
    return (out + out.mT) / (seen + seen.mT).clamp(min=1)


def _of_features(x: Tensor, sizes: Tensor, cost: str) -> BatchCosts:
    if cost == "inner":
        return BatchCosts(x @ x.mT, sizes)
    # Not by inner products, whose rounding would be what copies of one point are apart.
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    costs = BatchCosts(distance.square(), sizes)
    both = costs.is_point[:, :, None] & costs.is_point[:, None]
    return BatchCosts(torch.where(both, costs.matrix, 0), sizes)


def _shortest_paths(
    layout: _Layout, edge_length: Tensor | None, unreachable: float | None
) -> Tensor:
    """Floyd and Warshall's algorithm on all graphs at once."""
    graph, source, target = layout.edges()
    if edge_length is None:
        edge_length = torch.ones(graph.numel(), device=graph.device)
    check_edge_weight(edge_length, graph.numel(), "edge_length")
    edge_length = edge_length.to(compute_dtype(edge_length))
    num_graphs, n = layout.sizes.numel(), layout.longest
    flat = torch.cat([(graph * n + target) * n + source, (graph * n + source) * n + target])
    path = edge_length.new_full((num_graphs * n * n,), torch.inf)
    path = path.scatter_reduce(0, flat, torch.cat([edge_length] * 2), "amin")
    path = path.view(num_graphs, n, n)
    path = torch.where(torch.eye(n, dtype=torch.bool, device=path.device), 0, path)
    for middle in range(n):
        path = torch.minimum(path, path[:, :, middle, None] + path[:, middle, None, :])
    both = layout.is_point[:, :, None] & layout.is_point[:, None]
    apart = both & torch.isinf(numbers_of(path))
    if unreachable is None and bool(apart.any()):
        parted = apart.flatten(1).any(1).nonzero()[:, 0].tolist()
        raise ValueError(
            f"Expected the graphs of '{layout.name}' to be connected (got {len(parted)} that are "
            f"not, the first is {parted[0]}). To fix this, say what points cost that no path "
            "joins, batch_costs(..., unreachable=), or take cost='heat'."
        )
    if unreachable is not None:
        path = torch.where(apart, unreachable, path)
    return torch.where(both, path, 0)


def _heat_kernels(adjacency: Tensor, is_point: Tensor, t: float) -> Tensor:
    degree = adjacency.sum(2)
    connected = degree > 0
    root = torch.where(connected, degree, 1).rsqrt()
    laplacian = connected.to(degree).diag_embed() - root[..., None] * adjacency * root[:, None]
    kernel = torch.linalg.matrix_exp(-t * laplacian)
    both = is_point[:, :, None] & is_point[:, None]
    return torch.where(both, (kernel + kernel.mT) / 2, 0)
