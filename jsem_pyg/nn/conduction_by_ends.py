"""What edges conduct by the features of both their ends: what is gathered, and how often."""

from torch import Tensor

from ..diffusion.heat import EdgeList, graph_ends
from ..graph import GraphStructure
from ..graph.prepare import PreparedGraph
from .conductance import ModuleConductance


def conduct_by_ends(
    conductance: ModuleConductance, graph: PreparedGraph | EdgeList, x: Tensor
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
    structure = graph.structure if isinstance(graph, PreparedGraph) else None
    # Features of edges may differ where an edge is repeated.
    if conductance.is_even and graph.attr is None and isinstance(structure, GraphStructure):
        return _conduct_one_way(conductance, structure, z)
    if structure is not None:
        z = structure.spread(z)  # an edge may come from a node of another process
    return conductance(graph.attr, z=z, ends=graph_ends(graph))


def _conduct_one_way(
    conductance: ModuleConductance, structure: GraphStructure, z: Tensor
) -> Tensor:
    """The conductance [E] from one direction of every edge: half of the work and of the memory."""
    slot, of_edge = structure.one_way
    ends = structure.row[slot].long(), structure.col[slot].long()
    return conductance(None, z=z, ends=ends).index_select(0, of_edge)
