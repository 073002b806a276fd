"""The costs inside many small graphs, padded to one dense tensor [B, N, N]."""

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from torch_geometric.data import Batch, Data

from ..._checks import as_argument, check_finite, check_float, check_symmetric
from ..._precision import compute_dtype
from ..costs.cost import Cost, check_squares
from ..costs.graph_input import data_points


class BatchCosts(NamedTuple):
    """The costs inside B graphs."""

    matrix: Tensor  # [B, N, N] symmetric; zero in what pads a smaller graph
    sizes: Tensor  # [B] int64, how many points a graph has, on the CPU

    @property
    def is_point(self) -> Tensor:
        """Mask [B, N] of the places that are points of a graph."""
        return is_point(self.sizes, self.matrix)


def is_point(sizes: Tensor, padded: Tensor) -> Tensor:
    """Mask [B, N] of the points of graphs of these sizes, in a padded tensor [B, N, ...]."""
    place = torch.arange(padded.size(1), device=padded.device)
    return place < sizes.to(padded.device)[:, None]


def read_costs(name: str, graphs: Any, cost: Any) -> BatchCosts:
    """The costs of many graphs; see :func:`.batch_gromov_wasserstein` for what they may be."""
    if isinstance(graphs, BatchCosts):
        return graphs
    if isinstance(graphs, Data):
        graphs = graphs.to_data_list() if isinstance(graphs, Batch) else [graphs]
    is_list = isinstance(graphs, Sequence) and not isinstance(graphs, str)
    if not is_list and not (isinstance(graphs, Tensor) and graphs.dim() == 3):
        raise TypeError(
            f"Expected '{name}' to be a Batch, a list of graphs, or a tensor [B, n, m] (got "
            f"{type(graphs).__name__})."
        )
    if len(graphs) == 0:
        raise ValueError(f"Expected '{name}' to hold at least one graph (got none).")
    if callable(cost):
        with as_argument(name, "source"):  # which is what costs call a graph
            parts = [cost(graph) for graph in graphs]
    elif cost is None:
        parts = [data_points(graph) if isinstance(graph, Data) else graph for graph in graphs]
    elif isinstance(cost, str) and cost == "matrix":
        parts = list(graphs)
    else:
        raise ValueError(
            "Expected 'cost' to be None, 'matrix', or to be called with each graph, as HeatCost() "
            f"is (got {cost!r})."
        )
    has_costs = [isinstance(part, Cost) for part in parts]
    is_points = cost is None and not all(has_costs)
    if is_points and any(has_costs):
        raise TypeError(f"Expected '{name}' to hold either points or costs (got both).")
    tables = [part.dense() if isinstance(part, Cost) else part for part in parts]
    for index, table in enumerate(tables):
        check_float(f"{name}[{index}]", table)
        if table.dim() != 2 or table.numel() == 0:
            raise ValueError(
                f"Expected '{name}[{index}]' to be a table with at least one row and one column "
                f"(got shape {list(table.shape)})."
            )
        if table.size(1) != (tables[0].size(1) if is_points else table.size(0)):
            raise ValueError(
                f"Expected '{name}[{index}]' to "
                + (f"have {tables[0].size(1)} columns, as others" if is_points else "be square")
                + f" (got shape {list(table.shape)})."
            )
    sizes = torch.tensor([table.size(0) for table in tables])
    dtype = reduce(torch.promote_types, map(compute_dtype, tables))
    if is_points:
        return _squared_distances(name, [table.to(dtype) for table in tables], sizes)
    n = int(sizes.max())
    matrix = torch.stack([pad(each, (0, n - each.size(0)) * 2).to(dtype) for each in tables])
    check_finite(name, matrix)
    check_symmetric(name, matrix, matrix.mT)
    return BatchCosts(matrix, sizes)


def _squared_distances(name: str, points: list[Tensor], sizes: Tensor) -> BatchCosts:
    x = pad_sequence(points, batch_first=True)
    check_finite(name, x)
    check_squares(f"points in '{name}'", x.detach().abs().max(), 4 * x.size(2))
    # Not by inner products, whose rounding would be what copies of one point are apart.
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").square()
    point = is_point(sizes, x)
    return BatchCosts(torch.where(point[:, :, None] & point[:, None], distance, 0), sizes)
