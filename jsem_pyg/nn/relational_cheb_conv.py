"""The convolution with a matrix and a diffusion time for every relation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.dense.linear import HeteroDictLinear, Linear, is_uninitialized_parameter
from torch_geometric.nn.inits import glorot, reset, zeros

from .._checks import (
    check_bool,
    check_edge_index,
    check_edge_type,
    check_edge_weight,
    check_positive_int,
)
from .._precision import check_type_of_layer, without_autocast
from ..diffusion.options import HeatOptions
from ..diffusion.times import check_signal
from ..graph.prepare import GraphReader
from ..graph.relations import (
    EdgeType,
    Metadata,
    check_dictionaries,
    merge_reverse,
    refuse_self_loops,
)
from ..kernels.torch_func import eager
from .anisotropic_diffusion import single_node_set
from .diffusion_time import DiffusionTime, initial_times
from .hetero_diffusion import read_metadata
from .relational_heat import RelationalGraph

Edges = Mapping[EdgeType, Tensor]

_ANY = "node"  # the type of nodes that have no types


class RelationalChebConv(torch.nn.Module):
    r"""A graph convolution over edges of several kinds (relations).

    .. math::
        \mathbf{X}^{\prime} = \sum_{r=1}^{R} e^{-t_r \mathbf{L}_r} \mathbf{X} \mathbf{\Theta}_r
        + \mathbf{b}

    with the Laplacian :math:`\mathbf{L}_r = \mathbf{I} - \mathbf{D}_r^{-1} \mathbf{W}_r` of a
    relation's edges, each in both directions. A relation acts on the nodes of its two types, or on
    all nodes if these have no types. A node without an edge in the relation keeps
    :math:`\mathbf{X} \mathbf{\Theta}_r`. Nothing of the size of the edges times the channels is
    stored.

    There are two forms. With a number of relations, the layer is called as
    :class:`torch_geometric.nn.RGCNConv`. With the metadata of a heterogeneous graph, it is called
    as :class:`torch_geometric.nn.HGTConv` and :class:`torch_geometric.nn.HANConv`. An edge type
    then needs no reverse: the type `(b, 'rev_r', a)`, which
    :class:`torch_geometric.transforms.ToUndirected` adds, is the same relation as `(a, 'r', b)`.

    Args:
        in_channels (int or dict): Size of each input sample. With metadata, a size for each node
            type, or :obj:`-1` to derive the sizes from the first call: then the features of every
            type are first mapped to `out_channels`, by `lin_dict`.
        out_channels (int): Size of each output sample.
        num_relations (int or tuple): Number :math:`R` of relations; or node types and edge types,
            as ``HeteroData.metadata()`` returns them.
        t (float, list or torch.Tensor): Initial diffusion time :math:`t_r > 0`, a number or one
            for each relation.
        learn_t (bool): Whether the times are learned.
        num_bases (int, optional): Number :math:`B` of matrices :math:`\mathbf{V}_b` that the
            relations share, :math:`\mathbf{\Theta}_r = \sum_{b=1}^{B} a_{rb} \mathbf{V}_b`;
            :obj:`None` learns one for each relation.
        root_weight (bool): Whether a map of the node itself, :math:`\mathbf{X}
            \mathbf{\Theta}_0`, is added; with metadata, one for each node type.
        from_neighbors (bool): Whether heat starts at the neighbours of a node:
            :math:`(\mathbf{I} - \mathbf{L}_r) e^{-t_r \mathbf{L}_r}` in place of
            :math:`e^{-t_r \mathbf{L}_r}`, at short times the means of
            :class:`torch_geometric.nn.RGCNConv`. It suits nodes whose own features say little,
            such as learned embeddings.
        add_self_loops (bool): Whether every node gets a self-loop of weight one in its relations,
            before the normalisation. Self-loops in `edge_index` are then left out, otherwise
            refused.
        bias (bool): If set to :obj:`False`, the layer will not learn an additive bias.
        normalization (str, optional): :obj:`"rw"`, by which a node takes means over its neighbours
            as in :class:`torch_geometric.nn.RGCNConv`; :obj:`"sym"` or :obj:`None`, see
            :func:`~jsem_pyg.diffusion.heat_diffusion`.
        degree (int, optional): Number of products with the adjacency matrix; :obj:`None` takes as
            many as :obj:`tol` needs, five at :math:`t = 2`, eight at :math:`t = 5`.
        tol (float): Relative error allowed. The series is cut at a hundredth of it, as in
            :func:`~jsem_pyg.diffusion.heat_diffusion`.
        backend (str): What evaluates the series, see :func:`~jsem_pyg.diffusion.heat_diffusion`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, C_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`, in one direction or both,
          relations in :math:`[0, R)` :math:`(|\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*, that are not learned.
          With metadata: dictionaries of features, of edge indices and, optionally, of weights
        - **output:** node features :math:`(|\mathcal{V}|, C_{out})`, or a dictionary of them

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> conv = RelationalChebConv(16, 8, num_relations=2)
        >>> conv(torch.randn(4, 16), edge_index, edge_type=torch.tensor([0, 0, 1])).shape
        torch.Size([4, 8])
        >>> metadata = ["author", "paper"], [("author", "writes", "paper")]
        >>> conv = RelationalChebConv(-1, 8, metadata)
        >>> x_dict = {"author": torch.randn(2, 5), "paper": torch.randn(3, 7)}
        >>> conv(x_dict, {("author", "writes", "paper"): edge_index[:, :1]})["paper"].shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        in_channels: int | Mapping[str, int],
        out_channels: int,
        num_relations: int | Metadata,
        t: float | Sequence[float] | Tensor = 2.0,
        learn_t: bool = True,
        num_bases: int | None = None,
        root_weight: bool = False,
        from_neighbors: bool = False,
        add_self_loops: bool = False,
        bias: bool = True,
        normalization: str | None = "rw",
        degree: int | None = None,
        tol: float = 0.1,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_bool("root_weight", root_weight)
        check_bool("from_neighbors", from_neighbors)
        check_bool("add_self_loops", add_self_loops)
        check_bool("bias", bias)
        check_positive_int("out_channels", out_channels)
        self._has_types = not isinstance(num_relations, int)
        if isinstance(num_relations, int):
            check_positive_int("num_relations", num_relations)
            self.node_types = [_ANY]
            self.edge_types = [(_ANY, str(number), _ANY) for number in range(num_relations)]
        else:
            self.node_types, self.edge_types = read_metadata(
                num_relations, "num_relations", "a positive integer, or "
            )
        self.relations = merge_reverse(self.edge_types)[0]
        self.in_channels, self.out_channels = in_channels, out_channels
        self.from_neighbors = from_neighbors
        self.lin_dict = self._input_maps()
        width = out_channels if self.lin_dict is not None else in_channels
        if width != -1:
            check_positive_int("in_channels", width)
        if num_bases is not None:
            check_positive_int("num_bases", num_bases)
        count = len(self.relations)
        self.num_matrices = count if num_bases is None else num_bases
        self.mixture = Parameter(torch.empty(count, num_bases)) if num_bases else None
        num_roots = len(self.node_types) if root_weight else 0
        height = (self.num_matrices + num_roots) * out_channels
        self.lin = Linear(width, height, bias=False, weight_initializer="glorot")
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        start = initial_times("t", t)
        if start.shape not in ((), (count,)):
            raise ValueError(
                f"Expected 't' to be a number, or one for each of {count} relations (got shape "
                f"{list(start.shape)})."
            )
        self.time = DiffusionTime(start.expand(count), learn_t)
        self.options = HeatOptions(degree, tol, normalization, backend, float(add_self_loops))
        self._reader = GraphReader()
        self.reset_parameters()

    def _input_maps(self) -> HeteroDictLinear | None:
        """Make the maps of features whose widths differ by the node type; None without them."""
        if not isinstance(self.in_channels, Mapping):
            if not self._has_types or self.in_channels != -1:
                return None
            return HeteroDictLinear(-1, self.out_channels, self.node_types)
        if not self._has_types or set(self.in_channels) != set(self.node_types):
            raise ValueError(
                "Expected 'in_channels' to be an integer, or to have the node types of the "
                f"metadata, {self.node_types} (got {self.in_channels})."
            )
        return HeteroDictLinear(dict(self.in_channels), self.out_channels)

    @eager
    def forward(
        self,
        x: Any,
        edge_index: Any,
        edge_type: Any = None,
        edge_weight: Tensor | None = None,
        edge_weight_dict: Mapping[EdgeType, Tensor] | None = None,
    ) -> Any:
        """Convolve the features; see the class for shapes.

        With metadata the call is `(x_dict, edge_index_dict, edge_weight_dict)`: the weights may
        also come third.
        """
        if not self._has_types:
            x = single_node_set(x)
            check_signal(x)
            check_type_of_layer("x", x, self.lin)
            given = edge_index, edge_type, edge_weight
            graph = self._prepare(
                given, {_ANY: len(x)}, lambda: self._split_by_relation(*given, len(x))
            )
            return self._convolve({_ANY: x}, graph)[_ANY]
        weights = (edge_type if edge_weight_dict is None else edge_weight_dict) or {}
        widths: Any = self.lin.in_channels
        if self.lin_dict is not None:
            widths = {name: self.lin_dict.lins[name].in_channels for name in self.node_types}
        check_dictionaries(x, edge_index, self.node_types, widths)
        check_type_of_layer("x_dict", x[self.node_types[0]], self.lin)
        x = x if self.lin_dict is None else self.lin_dict(x)
        x_dict = {name: x[name] for name in self.node_types}
        graph = self._prepare(
            (*edge_index.values(), *weights.values()),
            {name: len(x) for name, x in x_dict.items()},
            lambda: (edge_index, weights),
            *edge_index,
            *weights,
        )
        return self._convolve(x_dict, graph)

    def _prepare(
        self,
        given: Sequence[Tensor | None],
        num_nodes: Mapping[str, int],
        read: Callable[[], tuple[Edges, Edges]],
        *key: EdgeType,
    ) -> RelationalGraph:
        """Recall the graph of these tensors, or prepare it from its edges and weights by type."""
        if any(getattr(each, "requires_grad", False) for each in given):
            raise ValueError(
                "Expected edge weights that are not learned (got some with requires_grad=True). To "
                "fix this, detach them, or take AnisotropicDiffusion for edges that learn to "
                "conduct."
            )
        dtype = self.lin.weight.dtype

        def make() -> RelationalGraph:
            edges, weights = read()
            return RelationalGraph(edges, weights, num_nodes, self.edge_types, self.options, dtype)

        known = tuple(each for each in given if each is not None)
        return self._reader.recall(known, make, *key, *num_nodes.values(), dtype)

    def _split_by_relation(
        self, edge_index: Tensor, edge_type: Tensor, edge_weight: Tensor | None, num_nodes: int
    ) -> tuple[Edges, Edges]:
        """Return the edges and weights of each relation, of nodes without types."""
        check_edge_index(edge_index, num_nodes)
        check_edge_type(edge_type, edge_index.size(1), len(self.relations))
        if self.options.self_loop == 0:
            refuse_self_loops("'edge_index'", *edge_index)
        member = {name: edge_type == number for number, name in enumerate(self.relations)}
        edges = {name: edge_index[:, here] for name, here in member.items()}
        if edge_weight is None:
            return edges, {}
        check_edge_weight(edge_weight, edge_index.size(1))
        return edges, {name: edge_weight[here] for name, here in member.items()}

    @without_autocast
    def _convolve(self, x_dict: dict[str, Tensor], graph: RelationalGraph) -> dict[str, Tensor]:
        """Convolve the features [N, C_in] of each node type: [N, C_out]."""
        for x in x_dict.values():
            self._reader.check_signal(graph, x)
            if is_uninitialized_parameter(self.lin.weight):
                self.lin(x[:0])  # a lazy map takes its width from its first call
            if x.dim() != 2 or x.size(1) != self.lin.in_channels:
                raise ValueError(
                    f"Expected 'x' to have shape [N, {self.lin.in_channels}], by 'in_channels' "
                    f"(got {list(x.shape)})."
                )
        # In autocast their type may differ.
        x_dict = {name: x.to(self.lin.weight.dtype) for name, x in x_dict.items()}
        maps = self.lin.weight.view(-1, self.out_channels, self.lin.in_channels).transpose(1, 2)
        theta, roots = maps.split((self.num_matrices, len(maps) - self.num_matrices))
        if self.mixture is not None:
            theta = torch.einsum("rb,bio->rio", self.mixture, theta)
        out = graph.diffuse(x_dict, theta, self.time(), self.from_neighbors)
        for name, root in zip(x_dict, roots, strict=False):  # there may be none
            out[name] = out[name] + x_dict[name] @ root
        return out if self.bias is None else {name: x + self.bias for name, x in out.items()}

    @property
    def t(self) -> Tensor:
        """The diffusion times [R], > 0."""
        return self.time()

    def reset_parameters(self) -> None:
        """Draw the maps anew, and set the times to their start."""
        for part in self.children():
            reset(part)
        glorot(self.mixture)
        zeros(self.bias)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"num_relations={len(self.relations)})"
        )
