"""Base classes of conductances: a constant start, a floor, and features of the nodes.

Every conductance here starts constant, so that a new layer is exactly isotropic, and stays above a
floor: a node whose edges all close keeps a positive degree, and gradients stay finite.
"""

from torch import Tensor
from torch.nn import Module

Ends = tuple[Tensor, Tensor]  # the target [E] and the source [E] of every edge, as rows of nodes

FLOOR = 1e-4


class ConstantAtFirst(Module):
    """Abstract: a conductance that is the same for all edges before training."""

    floor: float

    @property
    def initial(self) -> float:
        """The conductance of every edge before training."""
        return self.floor + (1 - self.floor) / 2


class NodeConductance(ConstantAtFirst):
    """Abstract: a conductance of both ends in two steps, so that layers gather little of a node.

    It is the same from either end, so that layers may ask for one direction of every edge.
    """

    signed = False  # whether it lies in [-1, 1], not in [0, 1]

    def project(self, x: Tensor) -> Tensor:
        """The features of nodes that the conductance depends on: [N, D] -> [N, K]."""
        raise NotImplementedError

    def between(self, edge_attr: Tensor | None, z_i: Tensor, z_j: Tensor) -> Tensor:
        """The conductance of edges, from projected features of both ends: [E, K] -> [E]."""
        raise NotImplementedError

    def along(self, edge_attr: Tensor | None, z: Tensor, ends: Ends) -> Tensor:
        """The conductance of edges, from projected features of all nodes: [N, K] -> [E]."""
        target, source = ends
        return self.between(edge_attr, z[target], z[source])

    def forward(self, edge_attr: Tensor | None, x_i: Tensor, x_j: Tensor) -> Tensor:
        """Return the conductance of each edge."""
        return self.between(edge_attr, self.project(x_i), self.project(x_j))
