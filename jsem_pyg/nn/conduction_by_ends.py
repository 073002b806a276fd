"""Conductances that depend on the features of both ends of an edge."""

from torch import Tensor

from ..graph import GraphStructure
from ..graph.adjacency import Adjacency
from ..graph.rows import GraphRows
from .conductance import ModuleConductance


def conduct_by_ends(
    conductance: ModuleConductance,
    graph: GraphRows | Adjacency,
    edge_attr: Tensor | None,
    x: Tensor,
) -> Tensor:
    """The conductance [E] of the edges of a graph, by the features [N, D] of its nodes.

    In compiled code the graph is not prepared.

    Raises:
        ValueError: if `x` has another shape.
    """
    if x.dim() > 2:
        raise ValueError(
            "Expected 'x' to have shape [N, D], since the conductance looks at the nodes and "
            f"would differ from batch to batch (got {list(x.shape)})."
        )
    z = conductance.project(x)  # once a node, and fewer channels to gather
    # Features of edges may differ where an edge is repeated.
    if conductance.is_even and edge_attr is None and isinstance(graph, GraphStructure):
        return _conduct_one_way(conductance, graph, z)
    if isinstance(graph, Adjacency):
        return conductance(edge_attr, z=z, ends=graph.ends)
    z = graph.spread(z)  # an edge may come from a node of another process
    return conductance(edge_attr, z=z, ends=graph.edges)


def _conduct_one_way(
    conductance: ModuleConductance, structure: GraphStructure, z: Tensor
) -> Tensor:
    """The conductance [E] from one direction of every edge: half of the work and of the memory."""
    slot, of_edge = structure.one_way
    ends = structure.row[slot].long(), structure.col[slot].long()
    return conductance(None, z=z, ends=ends).index_select(0, of_edge)
