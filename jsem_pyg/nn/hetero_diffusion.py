"""The layer that diffuses over nodes of several types, along edges of several types."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._checks import check_instance, check_keywords
from ..graph.reader import GraphReader
from ..graph.relations import (
    EdgeType,
    HeteroGraph,
    Metadata,
    check_dictionaries,
    merge_reverse,
    read_dictionaries,
)
from ..kernels.torch_func import eager
from .anisotropic_diffusion import AnisotropicDiffusion
from .relation_conductance import Relations


class HeteroDiffusion(torch.nn.Module):
    r"""Diffuses features over all node types, with one learned conductance for every edge type.

    .. math::
        \mathbf{X}^{\prime} = e^{-t \mathbf{L}_{\theta}} \mathbf{X}, \qquad
        w^{\prime}_{ij} = w_{ij} \, h_{r(i, j)}

    where :math:`\mathbf{X}` holds the features of the nodes of all types, and :math:`r(i, j)` is
    the type of an edge. Heat flows along every edge in both directions, so an edge type needs no
    reverse: the type `(b, 'rev_r', a)`, which :class:`torch_geometric.transforms.ToUndirected`
    adds, is the same relation as `(a, 'r', b)`. A new layer conducts alike everywhere. There is no
    map of channels, so all types have features of the same width; for a matrix a relation see
    :class:`~jsem_pyg.nn.HeteroChebConv`. Self-loops are left out: heat along them adds nothing.

    Args:
        metadata (tuple): Node types and edge types, as ``HeteroData.metadata()`` returns them.
        t (float, list or torch.Tensor): Initial diffusion time, see
            :class:`~jsem_pyg.nn.AnisotropicDiffusion`.
        **kwargs (optional): `learn_t`, `normalization`, `degree`, `tol`, `backend`, `filter` and
            `rate`, as in :class:`~jsem_pyg.nn.AnisotropicDiffusion`.

    Shapes:
        - **input:** for each node type features :math:`(\ldots, |\mathcal{V}_a|, D)`, for each edge
          type :math:`(2, |\mathcal{E}_r|)`, or the transposed sparse adjacency matrix
          :math:`(|\mathcal{V}_b|, |\mathcal{V}_a|)`, and, optionally, weights
          :math:`(|\mathcal{E}_r|)`
        - **output:** for each node type :math:`(\ldots, |\mathcal{V}_a|, S \cdot D)`

    Example:
        >>> metadata = ["author", "paper"], [("author", "writes", "paper")]
        >>> layer = HeteroDiffusion(metadata, t=1.0)
        >>> x_dict = {"author": torch.eye(2), "paper": torch.zeros(3, 2)}
        >>> edges = {("author", "writes", "paper"): torch.tensor([[0, 0, 1], [0, 1, 2]])}
        >>> layer(x_dict, edges)["paper"].argmax(-1)
        tensor([0, 0, 1])
        >>> layer.relations()
        relation             conductance
        author writes paper        0.500
    """

    def __init__(
        self, metadata: Metadata, t: float | Sequence[float] | Tensor = 5.0, **kwargs: Any
    ) -> None:
        check_keywords(self, kwargs, "learn_t normalization degree tol backend filter rate")
        super().__init__()
        self.node_types, self.edge_types = read_metadata(metadata)
        self.names = merge_reverse(self.edge_types)[0]
        self.diffusion = AnisotropicDiffusion(0, t, num_relations=len(self.names), **kwargs)
        self._reader = GraphReader()

    @eager
    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Any],
        edge_weight_dict: Mapping[EdgeType, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Diffuse the features of all nodes; see the class for shapes."""
        check_dictionaries(x_dict, edge_index_dict, self.node_types)
        widths = {name: x_dict[name].size(-1) for name in self.node_types}
        if len(set(widths.values())) > 1:
            raise ValueError(
                f"Expected the features in 'x_dict' to be of one width (got {widths}). To fix "
                "this, map them first, by torch_geometric.nn.HeteroDictLinear."
            )
        num_nodes = {name: x_dict[name].size(-2) for name in self.node_types}
        graphs, weights, given = read_dictionaries(edge_index_dict, edge_weight_dict, num_nodes)
        graph: HeteroGraph = self._reader.recall(
            given,
            lambda: HeteroGraph(graphs, num_nodes, self.edge_types),
            tuple(graphs),
            tuple(num_nodes.values()),
        )
        x, weight = graph.join(x_dict), graph.edge_weight(weights)
        out = self.diffusion(x, graph.structure, weight, edge_type=graph.edge_type)
        return graph.split(out)

    @property
    def t(self) -> Tensor:
        """The diffusion times, > 0."""
        return self.diffusion.t

    def relations(self) -> Relations:
        """Return the conductance of each relation, as a dictionary that prints as a table."""
        return Relations(self.names, torch.tensor(list(self.diffusion.relations().values())))

    def reset_parameters(self) -> None:
        """Set the times to their start, and let all relations conduct alike."""
        self.diffusion.reset_parameters()


def read_metadata(metadata: Any) -> tuple[list[str], list[EdgeType]]:
    """Read node types and edge types; raise unless they are what `HeteroData.metadata` returns."""
    check_instance("metadata", metadata, (tuple, list), "what data.metadata() returns, a pair")
    is_pair = len(metadata) == 2 and all(isinstance(each, (list, tuple)) for each in metadata)
    if not is_pair or not metadata[1] or any(len(each) != 3 for each in metadata[1]):
        raise ValueError(
            "Expected 'metadata' to be a list of node types and a list of edge types (source, "
            f"relation, target), as HeteroData.metadata() returns them (got {metadata!r})."
        )
    node_types, edge_types = list(metadata[0]), [tuple(each) for each in metadata[1]]
    missing = {end for a, _, b in edge_types for end in (a, b)} - set(node_types)
    if missing:
        raise ValueError(
            "Expected 'metadata' to have all node types that its edge types name (got "
            f"{node_types} without {sorted(missing)})."
        )
    return node_types, edge_types
