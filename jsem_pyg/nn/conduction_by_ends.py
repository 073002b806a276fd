"""Conductances that depend on the features of both ends of an edge."""

from torch import Tensor

from ..graph.adjacency import Adjacency
from ..graph.rows import GraphRows
from .conductance import ModuleConductance

Graph = GraphRows | Adjacency  # compiled code does not prepare it


def conduct_by_ends(
    conductance: ModuleConductance, graph: Graph, edge_attr: Tensor | None, x: Tensor
) -> Tensor:
    """The conductance [E] of the edges of a graph, by the features [N, D] of its nodes.

    Raises:
        ValueError: if `x` has another shape.
    """
    if x.dim() > 2:
        raise ValueError(
            "Expected 'x' to have shape [N, D], since the conductance looks at the nodes and "
            f"would differ from batch to batch (got {list(x.shape)})."
        )
    z = conductance.project(x)  # once a node, and fewer channels to gather
    if isinstance(graph, Adjacency):
        return conductance(edge_attr, z=z, ends=graph.ends)
    z = graph.spread(z)
    # Features of edges may differ where an edge is repeated.
    if not conductance.is_even or edge_attr is not None:
        return conductance(edge_attr, z=z, ends=graph.edges)
    target, source, of_edge = graph.one_way  # half of the work and of the memory
    out: Tensor = conductance(None, z=z, ends=(target, source))
    return out if of_edge is None else out.index_select(0, of_edge)
