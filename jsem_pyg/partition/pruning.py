"""A graph without the edges that hardly conduct, as far as each node can spare them.

:func:`prune_edges` drops them once; :class:`~jsem_pyg.training.PruneEdges` does it in training.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import (
    check_device,
    check_edge_vector,
    check_finite,
    check_instance,
    check_number,
    check_positive,
    check_rows,
)
from .._groups import group_firsts, group_order
from ..graph import GraphStructure

# Of a degree, in whole numbers: sums of these do not depend on the rows before, as those of floats
# do. What is exactly the share that may go, goes.
_PARTS = 2.0**36


class PrunedGraph(NamedTuple):
    """A graph without the edges that hardly conduct."""

    data: Data  #: all nodes, the edges that stay, and the entries of these
    kept: Tensor  #: [E] whether a column of the `edge_index` that was given stays
    num_dropped: int  #: columns that went: two for an edge


def prune_edges(
    data: Data, conductance: Tensor, threshold: float = 0.01, *, max_share: float = 0.05
) -> PrunedGraph:
    r"""Drop edges that hardly conduct, but at most a share of each node's degree.

    An edge goes with both its directions, and only if it is below the threshold in both, and in
    every column of `conductance`. Each node keeps the edge that conducts best, and as many more as
    it takes for what goes to be at most `max_share` of its degree, the sum of w_ij h_ij: under
    "sym" and "rw", where all edges of a node are nearly closed, heat flows through them all the
    same, and a threshold alone would change much. No node with edges loses its last one. Still,
    the graph may fall into more components: if a bridge between two groups closes, heat does not
    cross it any more.

    A share :math:`\eta \le 3/4` bounds the change of a diffused signal beforehand,
    :math:`\|e^{-tL} x - e^{-tL'} x\| \le 2 \eta t \, \|x\|`, for "sym" in the Euclidean norm and
    for "rw" in the maximum norm. It is a worst case.

    Args:
        data: A graph with `edge_index` [2, E], both directions of every edge, and optionally
            `edge_weight` [E]. It is not changed.
        conductance: [E] what each column of `edge_index` conducts, such as
            ``layer.conductance(data.edge_attr)``, or [E, L] for the L layers of a model.
        threshold: An edge that conducts less may go.
        max_share: The largest share of a node's degree that may go, in (0, 1]; 1 for no limit
            except the last edge.

    Returns:
        The graph with all its nodes, and `edge_index`, `edge_weight`, `edge_attr` and all other
        attributes of edges (by PyG's `Data.is_edge_attr`) without the edges that went; the mask of
        columns that stay, and the number of columns that went.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the graph is malformed, if values do not fit the edges, are negative or not
            finite, or if an argument is out of its range.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
        >>> h = torch.tensor([0.9, 0.9, 0.9, 0.9, 1e-4, 1e-4])
        >>> pruned = prune_edges(Data(edge_index=edge_index, num_nodes=3), h)
        >>> pruned.data.edge_index.tolist()
        [[0, 1, 1, 2], [1, 0, 2, 1]]
    """
    check_positive("threshold", threshold)
    check_number("max_share", max_share)
    if not 0 < max_share <= 1:
        raise ValueError(f"Expected 'max_share' to lie in (0, 1] (got {max_share!r}).")
    structure, weight = _read_data(data)
    columns = _read_conductance(conductance, structure)
    spare = closed = _closed_slots(structure, columns, threshold)
    for column in columns:
        product = weight.detach().double() * column.double()
        conducting = structure.symmetric(structure.to_slots(product))
        spare = spare & _spare_slots(structure, conducting, closed, max_share)
    kept = structure.to_edges(~(spare & spare.index_select(0, structure.reverse)))
    return PrunedGraph(data.edge_subgraph(kept), kept, structure.num_edges - int(kept.sum()))


def _read_data(data: Data) -> tuple[GraphStructure, Tensor]:
    """The sorted graph, and its weights [E], of ones if it has none."""
    check_instance("data", data, Data, "a torch_geometric.data.Data")
    if data.get("edge_index") is None or data.num_nodes is None:
        raise ValueError(
            f"Expected 'data' to have 'edge_index' and a number of nodes (got {data}). To fix this "
            "error, build a graph first, for instance with jsem_pyg.transforms.FaissKNNGraph."
        )
    structure = GraphStructure(data.edge_index, data.num_nodes)
    weight = data.get("edge_weight")
    if weight is None:
        return structure, torch.ones(structure.num_edges, device=structure.device)
    check_edge_vector("data.edge_weight", weight, structure.num_edges)
    check_device("data.edge_weight", weight.device, data.edge_index, "data.edge_index")
    structure.check_weight(weight)
    return structure, weight


def _read_conductance(conductance: Tensor, structure: GraphStructure) -> tuple[Tensor, ...]:
    """The conductance of each layer: vectors [E]."""
    check_rows("conductance", conductance, structure.num_edges, "column of 'edge_index'")
    check_finite("conductance", conductance)
    columns = conductance.detach().to(structure.device)
    columns = columns.unsqueeze(-1) if columns.dim() == 1 else columns
    if columns.size(-1) == 0:
        raise ValueError(
            "Expected 'conductance' to have a column for each layer (got shape "
            f"{list(conductance.shape)})."
        )
    if columns.numel() and float(columns.min()) < 0:
        raise ValueError(
            f"Expected 'conductance' to be non-negative (got a minimum of {float(columns.min())})."
        )
    return columns.unbind(-1)


def _closed_slots(
    structure: GraphStructure, conductances: Sequence[Tensor], threshold: float
) -> Tensor:
    """Mask [nnz] of slots below the threshold in all layers, directions and parallel columns."""
    opened = [conductance >= threshold for conductance in conductances]
    open_edges = torch.stack(opened).any(0).double()
    is_open = structure.to_slots(open_edges) > 0
    return ~(is_open | is_open.index_select(0, structure.reverse))


def _spare_slots(
    structure: GraphStructure, weight: Tensor, closed: Tensor, max_share: float
) -> Tensor:
    """The closed slots that their rows can spare: the weakest ones, and never the best one."""
    row = structure.row.long()
    degree = weight.new_zeros(structure.num_nodes).index_add(0, row, weight)
    share = weight / torch.where(degree > 0, degree, 1.0).index_select(0, row)
    slots = (closed & ~_is_best(structure, weight)).nonzero()[:, 0]
    slots = slots[group_order(share[slots], row[slots])]
    gone = _sums_within((share[slots] * _PARTS).long(), row[slots])
    spare = torch.zeros_like(closed)
    spare[slots[gone <= int(max_share * _PARTS)]] = True
    return spare


def _is_best(structure: GraphStructure, weight: Tensor) -> Tensor:
    """True if a slot is the one of its row that conducts best; the first of equals."""
    row = structure.row.long()
    highest = weight.new_zeros(structure.num_nodes).scatter_reduce(0, row, weight, "amax")
    slots = (weight == highest.index_select(0, row)).nonzero()[:, 0]
    best = torch.zeros(weight.numel(), dtype=torch.bool, device=weight.device)
    best[slots[group_firsts(row[slots])]] = True
    return best


def _sums_within(values: Tensor, group: Tensor) -> Tensor:
    """Cumulative sums that begin anew with each group, where groups lie side by side."""
    total = values.cumsum(0)
    first = group_firsts(group)
    return total - (total - values)[first][first.cumsum(0) - 1]
