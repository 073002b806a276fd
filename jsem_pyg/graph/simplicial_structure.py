r"""Prepares a complex of nodes, edges and triangles: sorts, orients and checks it, once.

.. math::
    \mathbf{B}_1 [(j), (i, j)] = 1, \quad \mathbf{B}_1 [(i), (i, j)] = -1, \qquad
    \mathbf{B}_2 [(j, k), \tau] = \mathbf{B}_2 [(i, j), \tau] = 1, \quad
    \mathbf{B}_2 [(i, k), \tau] = -1

for edges i < j and triangles :math:`\tau` = i < j < k, so that B1 B2 = 0: a boundary has no
boundary (Lim 2020, "Hodge Laplacians on graphs", SIAM Review 62, section 2).
"""

from functools import cached_property

import torch
from torch import Tensor

from .._checks import INDICES, check_device, check_edge_index_shape, check_node_index, check_tensor
from .._groups import group_starts
from ..kernels.csr import CSR, Incidence
from ..kernels.torch_func import lasting
from ..kernels.triangles import list_triangles
from .reader import count_nodes
from .structure import GraphStructure


class SimplicialStructure:
    """Holds edges and triangles of a graph, sorted, oriented and checked once for many uses.

    An edge signal is a *flow*: a number for each edge, positive along the edge and negative against
    it. Signals and weights follow the columns of `edge_index`, and a column points the way its
    flow is counted. Inside, all edges point from the lower to the higher node.

    Args:
        edge_index: [2, M] each edge once, in either orientation.
        triangles: [3, F] the nodes of the triangles that are filled, in any order: a
            `torch_geometric.data.Data` may carry them as `face`. None: all triangles of the graph,
            in lexicographic order.

    Attributes:
        num_nodes: the number N of nodes that `edge_index` names.
        num_edges: M.
        num_triangles: F.
        edges: [2, M] the edges i < j, in lexicographic order.
        triangles: [3, F] the triangles i < j < k, in the order given.
        triangle_edges: [3, F] the edges (i, j), (i, k), (j, k) of each triangle.
        graph: the nodes and edges alone, a :class:`GraphStructure` of the columns and their
            reverses.
    """

    @lasting  # what is kept may serve training later
    def __init__(self, edge_index: Tensor, triangles: Tensor | None = None) -> None:
        num_nodes = count_nodes(edge_index, None)
        check_edge_index_shape(edge_index)
        edge_index = edge_index.detach().as_subclass(Tensor).long()
        self.num_nodes, self.num_edges = num_nodes, edge_index.size(1)
        both = torch.cat([edge_index, edge_index.flip(0)], dim=1)
        self.graph = graph = GraphStructure(both, num_nodes)
        if graph.has_repeated_edges:
            raise ValueError(
                "Expected 'edge_index' to have each edge once (got "
                f"{self.num_edges - graph.num_slots // 2} repeated columns, or both directions of "
                "an edge). To fix this, keep edge_index[:, edge_index[0] < edge_index[1]]."
            )
        is_forward = graph.row < graph.col
        number = is_forward.cumsum(0) - 1
        self._is_forward = is_forward
        self._edge_of_slot = torch.where(is_forward, number, number[graph.reverse.long()])
        self.edges = torch.stack([graph.row, graph.col])[:, is_forward].long()
        self.device = self.edges.device
        self._edge = self._edge_of_slot[graph.slot[: self.num_edges].long()]  # of each column
        self._column = self._edge.argsort()
        self._sign = torch.where(edge_index[0] < edge_index[1], 1.0, -1.0)
        if triangles is None:
            self.triangles = list_triangles(graph.csr, graph.reverse)
        else:
            self.triangles = _read_triangles(triangles, edge_index, num_nodes)
        self.num_triangles = self.triangles.size(1)
        self.triangle_edges = _find_edges(self.edges, self.triangles, num_nodes)

    @cached_property
    @lasting
    def edge_boundary(self) -> tuple[Incidence, Incidence]:
        """B1 [N, M] and its transpose: where each edge ends (1) and where it starts (-1)."""
        # The slots of a node, by neighbour, are its edges in ascending order.
        b = CSR(self.graph.rowptr, self._edge_of_slot)
        sign = 1 - 2 * self._is_forward.to(torch.int8)
        pointer = torch.arange(self.num_edges + 1, device=self.device)
        b_t = CSR(2 * pointer, self.edges.t().flatten())
        return (
            Incidence(b, sign, self.num_edges),
            Incidence(b_t, sign.new_tensor([-1, 1]).repeat(self.num_edges), self.num_nodes),
        )

    @cached_property
    @lasting
    def triangle_boundary(self) -> tuple[Incidence, Incidence]:
        """B2 [M, F] and its transpose: the edges around each triangle."""
        edge = self.triangle_edges.t().flatten()  # ascending in each triangle
        order = edge.argsort(stable=True)
        sign = torch.tensor([1, -1, 1], dtype=torch.int8, device=self.device)
        b = CSR(group_starts(edge[order], self.num_edges), order // 3)
        pointer = torch.arange(self.num_triangles + 1, device=self.device)
        return (
            Incidence(b, sign[order % 3], self.num_triangles),
            Incidence(CSR(3 * pointer, edge), sign.repeat(self.num_triangles), self.num_edges),
        )

    def to_edges(self, columns: Tensor) -> Tensor:
        """Turn flows [..., M, D] along the columns into flows along the edges, in their order."""
        return (self._signs(columns) * columns).index_select(-2, self._column)

    def to_columns(self, flow: Tensor) -> Tensor:
        """Turn flows [..., M, D] along the edges into flows along the columns."""
        return self._signs(flow) * flow.index_select(-2, self._edge)

    def weight_of_edges(self, edge_weight: Tensor) -> Tensor:
        """Bring numbers [M] of the columns, which have no sign, into the order of the edges."""
        return edge_weight.index_select(0, self._column)

    def _signs(self, flow: Tensor) -> Tensor:
        return self._sign.to(flow.dtype).unsqueeze(-1)


def _read_triangles(triangles: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """Read triangles, and sort the nodes of each."""
    check_tensor("triangles", triangles, "a [3, F] integer tensor")
    if triangles.dim() != 2 or triangles.size(0) != 3 or triangles.dtype not in INDICES:
        raise ValueError(
            "Expected 'triangles' to be a [3, F] integer tensor, the nodes of each triangle "
            f"(got {triangles.dtype} of shape {list(triangles.shape)})."
        )
    check_device("triangles", triangles.device, edge_index.device, "edge_index")
    check_node_index("triangles", triangles, num_nodes)
    triangles = triangles.detach().long().sort(0).values
    distinct = torch.unique(triangles, dim=1).size(1) if triangles.numel() else 0
    if distinct < triangles.size(1):
        raise ValueError(
            "Expected 'triangles' to hold each triangle once, in whatever order of its nodes (got "
            f"{triangles.size(1) - distinct} repeated). To fix this, call "
            "torch.unique(triangles.sort(0).values, dim=1)."
        )
    return triangles


def _find_edges(edges: Tensor, triangles: Tensor, num_nodes: int) -> Tensor:
    """Look up the edges (i, j), (i, k), (j, k) of triangles i < j < k: [3, F]."""
    i, j, k = triangles
    key = edges[0] * num_nodes + edges[1]
    wanted = torch.stack([i, i, j]) * num_nodes + torch.stack([j, k, k])
    missing = ~torch.isin(wanted, key)
    if bool(missing.any()):
        alone = missing.any(0).nonzero()[:, 0]
        raise ValueError(
            "Expected 'triangles' whose three edges are in 'edge_index' (got "
            f"{alone.numel()} without, such as {triangles[:, alone[0]].tolist()})."
        )
    return torch.searchsorted(key, wanted)
