"""Drop the edges that hardly conduct, as far as each node can spare them."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_finite, check_number, check_positive, check_rows
from .._groups import group_firsts, group_order
from ..graph import GraphStructure
from ..graph.reader import read_data

_ROUNDING = 1e-8  # of a share, so that what is exactly the share that may go, goes


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
    structure, weight = read_data(data)
    columns = _read_conductance(conductance, structure)
    is_open = structure.to_slots((columns >= threshold).any(1).double()) > 0
    spare = closed = ~(is_open | is_open[structure.reverse])
    for column in columns.unbind(1):
        flow = structure.symmetric(structure.to_slots(weight.double() * column.double()))
        spare = spare & _can_spare(structure.row.long(), flow, closed, max_share)
    kept = structure.to_edges(~(spare & spare[structure.reverse]))
    return PrunedGraph(data.edge_subgraph(kept), kept, structure.num_edges - int(kept.sum()))


def _can_spare(row: Tensor, flow: Tensor, closed: Tensor, max_share: float) -> Tensor:
    """Find the weakest closed slots of each row, up to a share of its flow: True [nnz] for these.

    The slots are sorted by row, and `flow` [nnz] is what they conduct. No row loses its best slot.
    """
    order = group_order(flow, row)  # row by row, the weakest first and the best last
    first = group_firsts(row)
    start = first.cumsum(0) - 1  # of the row, among the rows that have slots
    total = flow.new_zeros(int(first.sum())).index_add(0, start, flow)
    share = flow[order] / torch.where(total > 0, total, 1.0)[start]
    share = share * closed[order]
    sums = share.cumsum(0)
    lost = sums - (sums - share)[first][start]
    spare = torch.empty_like(closed)
    spare[order] = closed[order] & ~first.roll(-1) & (lost <= max_share + _ROUNDING)
    return spare


def _read_conductance(conductance: Tensor, structure: GraphStructure) -> Tensor:
    """Check what the edges conduct, and return a column for each layer: [E, L]."""
    check_rows("conductance", conductance, structure.num_edges, "column of 'edge_index'")
    check_finite("conductance", conductance)
    columns = conductance.detach().to(structure.device)
    columns = columns[:, None] if columns.dim() == 1 else columns
    if columns.size(1) == 0:
        raise ValueError(
            f"Expected 'conductance' to have a column for each layer (got {list(columns.shape)})."
        )
    if columns.numel() and float(columns.min()) < 0:
        raise ValueError(f"Expected 'conductance' to be >= 0 (got {float(columns.min())}).")
    return columns
