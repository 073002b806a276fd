"""Edges that hardly conduct are dropped, as far as no node misses them."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import (
    check_choice,
    check_dense,
    check_device,
    check_edge_vector,
    check_finite,
    check_instance,
    check_nonnegative,
    check_positive,
    check_rows,
    check_tensor,
)
from ..graph import GraphStructure
from ..operators.laplacian import NORMALIZATIONS
from .perturbation import Perturbation, perturbation
from .spare_edges import MAX_SHARE, check_share, closed_slots, conducting_weight, slots_to_keep


class PrunedGraph(NamedTuple):
    """A graph without the edges that hardly conduct."""

    data: Data  #: all nodes, the edges that stay, and what belongs to these
    kept: Tensor  #: [E] whether a column of the `edge_index` that was given stays
    num_dropped: int  #: columns that went: two for an edge
    perturbation: Perturbation  #: how far this can move a diffused signal


def prune_edges(
    data: Data,
    conductance: Tensor,
    threshold: float = 0.01,
    *,
    max_share: float = MAX_SHARE,
    normalization: str | None = "sym",
    self_loop: float = 0.0,
) -> PrunedGraph:
    r"""Drop the edges whose conductance is below a threshold, as far as no node misses them.

    An edge goes with both its directions, and only if it is below the threshold in both, and in
    every column of `conductance`. Each node keeps the edge that conducts best, and as many more as
    it takes for what goes to be at most `max_share` of its degree, the sum of w_ij h_ij: under
    "sym" and "rw", where all edges of a node are nearly closed, heat flows through them all the
    same, and a threshold alone would change much. No node with edges loses its last one. Still,
    the graph may fall into more components: if a bridge between two groups closes, heat does not
    cross it any more.

    `perturbation` says how far a diffused signal can move, as derived in
    `jsem_pyg/partition/perturbation.py`. A limit :math:`\eta \le 3/4` on the share promises
    :math:`\|e^{-tL} x - e^{-tL'} x\| \le 2 \eta t \, \|x\|`, for "sym" in the Euclidean norm and
    for "rw" in the maximum norm.

    Args:
        data: A graph with `edge_index` [2, E], both directions of every edge, and optionally
            `edge_weight` [E]. It is not changed.
        conductance: [E] what each column of `edge_index` conducts, such as
            ``layer.conductance(data.edge_attr)``, or [E, L] for the L layers of a model.
        threshold: What is below conducts so little that the edge may go.
        max_share: The largest share of a node's degree that may go, in (0, 1]; 1 for no limit but
            the last edge.
        normalization: "sym", "rw" or None: the Laplacian of the bound.
        self_loop: The weight of a loop that the layer adds to every node, for the bound.

    Returns:
        The graph with all its nodes, and `edge_index`, `edge_weight`, `edge_attr` and whatever else
        has an entry for each edge (as PyG's `Data.is_edge_attr` tells) without those that went;
        with the mask, their number and the bound.

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
        >>> pruned.perturbation.at(t=5.0) < 0.001
        True
    """
    check_positive("threshold", threshold)
    check_share(max_share)
    check_choice("normalization", normalization, NORMALIZATIONS)
    check_nonnegative("self_loop", self_loop)
    structure, weight = _read_data(data)
    columns = _read_conductance(conductance, structure)
    conducting = [conducting_weight(structure, weight, each) for each in columns]
    closed = closed_slots(structure, columns, threshold)
    stays = slots_to_keep(structure, conducting, closed, max_share)
    bounds = [perturbation(structure, w, stays, normalization, self_loop) for w in conducting]
    kept = structure.to_edges(stays)
    dropped = structure.num_edges - int(kept.sum())
    return PrunedGraph(data.edge_subgraph(kept), kept, dropped, max(bounds))


def perturbation_bound(
    data: Data,
    kept: Tensor,
    conductance: Tensor | None = None,
    *,
    normalization: str | None = "sym",
    self_loop: float = 0.0,
) -> Perturbation:
    """How far a diffused signal can move if a graph keeps only some of its edges.

    Args:
        data: A graph with `edge_index` [2, E] and optionally `edge_weight` [E].
        kept: [E] booleans: the columns of `edge_index` that stay, both directions alike.
        conductance: [E] what the columns conduct, or [E, L] for several layers; ones if omitted.
        normalization: "sym", "rw" or None.
        self_loop: The weight of a loop at every node.

    Returns:
        The bound, for the layer that moves most: see `jsem_pyg/partition/perturbation.py`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If the graph is malformed, or values do not fit its edges.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> graph = Data(edge_index=edge_index, num_nodes=3)
        >>> kept = torch.tensor([True, True, False, False])
        >>> perturbation_bound(graph, kept, normalization=None).rate
        2.0
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    check_nonnegative("self_loop", self_loop)
    structure, weight = _read_data(data)
    stays = _read_kept(kept, structure)
    ones = torch.ones(structure.num_edges, device=structure.device)
    columns = _read_conductance(ones if conductance is None else conductance, structure)
    conducting = (conducting_weight(structure, weight, each) for each in columns)
    return max(perturbation(structure, w, stays, normalization, self_loop) for w in conducting)


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
    """What each layer conducts: vectors [E]."""
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


def _read_kept(kept: Tensor, structure: GraphStructure) -> Tensor:
    """Which slots stay [nnz]."""
    check_tensor("kept", kept, "a boolean tensor")
    check_dense("kept", kept)
    if kept.dtype != torch.bool:
        raise TypeError(f"Expected 'kept' to be a boolean tensor (got {kept.dtype}).")
    if list(kept.shape) != [structure.num_edges]:
        raise ValueError(
            f"Expected 'kept' to have shape [{structure.num_edges}], one entry for each column of "
            f"'edge_index' (got {list(kept.shape)})."
        )
    kept = kept.to(structure.device)
    stays = structure.to_slots(kept.double()) > 0
    both = stays & stays.index_select(0, structure.reverse)
    if not torch.equal(structure.to_edges(both), kept):
        raise ValueError(
            "Expected 'kept' to be the same for all columns of an edge, in both directions (got "
            f"{int((structure.to_edges(both) != kept).sum())} that stay without another)."
        )
    return stays
