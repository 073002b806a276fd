"""The convolution over nodes of several types, with a matrix and a time for every edge type."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import ModuleList
from torch_geometric.nn.dense.linear import Linear

from .._checks import check_bool, check_keywords
from ..graph.reader import GraphReader
from ..graph.relations import (
    EdgeType,
    HeteroGraph,
    Metadata,
    check_dictionaries,
    merge_reverse,
    read_dictionaries,
)
from ..kernels.torch_func import check_type_of_layer, eager, without_autocast
from .diffusion_time import reset_parts
from .hetero_diffusion import read_metadata
from .relational_cheb_conv import RelationalChebConv
from .relational_heat import RelationalGraph, RelationalHeat


class HeteroChebConv(torch.nn.Module):
    r"""Convolves features over nodes and edges of several types.

    .. math::
        \mathbf{X}^{\prime} = \sum_{r=1}^{R} e^{-t_r \mathbf{L}_r} \mathbf{X} \mathbf{\Theta}_r
        + \mathbf{b}

    as :class:`~jsem_pyg.nn.RelationalChebConv`, where a relation acts on the nodes of its two
    types. The call is that of :class:`torch_geometric.nn.HGTConv` and
    :class:`torch_geometric.nn.HANConv`. An edge type needs no reverse: the type `(b, 'rev_r', a)`,
    which :class:`torch_geometric.transforms.ToUndirected` adds, is the same relation as
    `(a, 'r', b)`.

    Args:
        in_channels (int or dict): Size of each input sample; or a size for each node type, or
            :obj:`-1` to derive the sizes from the first call: then the features of every type are
            first mapped to `out_channels`, by `lins`.
        out_channels (int): Size of each output sample.
        metadata (tuple): Node types and edge types, as ``HeteroData.metadata()`` returns them.
        t (float, list or torch.Tensor): Initial diffusion time :math:`t_r > 0`, a number or one
            for each relation.
        root_weight (bool): Whether a map of the node itself is added, one for each node type.
        **kwargs (optional): `learn_t`, `num_bases`, `from_neighbors`, `bias`, `normalization`,
            `degree`, `tol` and `backend`, as in :class:`~jsem_pyg.nn.RelationalChebConv`.

    Shapes:
        - **input:** for each node type features :math:`(|\mathcal{V}_a|, C_a)`, for each edge type
          :math:`(2, |\mathcal{E}_r|)`, in one direction or both, or the transposed sparse adjacency
          matrix :math:`(|\mathcal{V}_b|, |\mathcal{V}_a|)`, and, optionally, weights
          :math:`(|\mathcal{E}_r|)`, that are not learned
        - **output:** for each node type :math:`(|\mathcal{V}_a|, C_{out})`

    Example:
        >>> metadata = ["author", "paper"], [("author", "writes", "paper")]
        >>> conv = HeteroChebConv(-1, 8, metadata)
        >>> x_dict = {"author": torch.randn(2, 5), "paper": torch.randn(3, 7)}
        >>> edges = {("author", "writes", "paper"): torch.tensor([[0], [1]])}
        >>> conv(x_dict, edges)["paper"].shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        metadata: Metadata,
        t: float | Sequence[float] | Tensor = 2.0,
        root_weight: bool = False,
        **kwargs: Any,
    ) -> None:
        known = "learn_t num_bases from_neighbors bias normalization degree tol backend"
        check_keywords(self, kwargs, known)
        super().__init__()
        check_bool("root_weight", root_weight)
        self.node_types, self.edge_types = read_metadata(metadata)
        self.relations = merge_reverse(self.edge_types)[0]
        self.in_channels, self.out_channels = in_channels, out_channels
        if isinstance(in_channels, Mapping) and set(in_channels) != set(self.node_types):
            raise ValueError(
                "Expected 'in_channels' to be an integer, or to have the node types of "
                f"'metadata', {self.node_types} (got {in_channels})."
            )
        width = in_channels if isinstance(in_channels, int) else -1
        mapped = self.node_types if width == -1 else []
        width = out_channels if mapped else width
        widths = in_channels if isinstance(in_channels, Mapping) else {}
        self.conv = RelationalChebConv(width, out_channels, len(self.relations), t, **kwargs)
        # By their numbers: the name of a module may have no dot, and not be "type" or "items".
        self.lins = ModuleList(Linear(widths.get(a, -1), width) for a in mapped)
        self.roots = ModuleList(
            Linear(width, out_channels, bias=False, weight_initializer="glorot")
            for _ in self.node_types * root_weight
        )
        self._reader = GraphReader()

    reset_parameters = reset_parts

    @eager
    @without_autocast
    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Any],
        edge_weight_dict: Mapping[EdgeType, Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """Convolve the features of all nodes; see the class for shapes."""
        lins = self.lins or [self.conv.lin] * len(self.node_types)
        widths = {a: int(lin.in_channels) for a, lin in zip(self.node_types, lins, strict=True)}
        check_dictionaries(x_dict, edge_index_dict, self.node_types, widths)
        check_type_of_layer("x_dict", x_dict[self.node_types[0]], self.conv.lin)
        num_nodes = {a: len(x_dict[a]) for a in self.node_types}
        graphs, weights, given = read_dictionaries(edge_index_dict, edge_weight_dict, num_nodes)
        conv, dtype = self.conv, self.conv.lin.weight.dtype

        def prepare() -> RelationalGraph:
            graph = HeteroGraph(graphs, num_nodes, self.edge_types, keep_loops=True)
            weight = graph.pair_weight(weights)
            return RelationalGraph(graph.pairs, weight, len(self.relations), conv.options, dtype)

        key = *graphs, *weights, tuple(num_nodes.values()), dtype
        graph = self._reader.recall((*given, *weights.values()), prepare, *key)
        parts = [x_dict[a].to(dtype) for a in self.node_types]
        for x in parts:
            self._reader.check_signal(graph, x)
        if self.lins:
            parts = [lin(x) for lin, x in zip(self.lins, parts, strict=True)]
        theta, start = conv.matrices()[0], []
        for number, (name, x) in enumerate(zip(self.node_types, parts, strict=True)):
            own = [r for r, (a, _, b) in enumerate(self.relations) if name in (a, b)]
            start.append(x @ theta[own].sum(0))
            if self.roots:
                start[-1] = start[-1] + self.roots[number](x)
        out = torch.cat(start) if conv.bias is None else torch.cat(start) + conv.bias
        time = conv.time().to("cpu", torch.float64)  # a GPU waits once, not for every relation
        out = RelationalHeat.apply(out, torch.cat(parts), theta, time, graph, conv.from_neighbors)
        return dict(zip(self.node_types, out.split([*num_nodes.values()]), strict=True))

    @property
    def t(self) -> Tensor:
        """The diffusion times [R], > 0, in the order of `relations`."""
        return self.conv.t

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"num_relations={len(self.relations)})"
        )
