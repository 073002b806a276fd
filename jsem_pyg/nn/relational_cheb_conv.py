"""The convolution with a matrix and a diffusion time for every relation."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter
from torch_geometric.nn.inits import glorot, zeros

from .._checks import (
    check_bool,
    check_edge_index,
    check_edge_type,
    check_edge_weight,
    check_keywords,
    check_positive_int,
)
from ..diffusion.options import HeatOptions
from ..diffusion.times import check_signal
from ..graph.reader import GraphReader
from ..graph.relations import read_pairs
from ..kernels.torch_func import check_type_of_layer, eager, without_autocast
from .anisotropic_diffusion import single_node_set
from .diffusion_time import DiffusionTime, initial_times, reset_parts
from .relational_heat import RelationalGraph, RelationalHeat


class RelationalChebConv(torch.nn.Module):
    r"""Convolves features over edges of several types (relations), on nodes of one type.

    .. math::
        \mathbf{X}^{\prime} = \sum_{r=1}^{R} e^{-t_r \mathbf{L}_r} \mathbf{X} \mathbf{\Theta}_r
        + \mathbf{b}

    with the Laplacian :math:`\mathbf{L}_r = \mathbf{I} - \mathbf{D}_r^{-1} \mathbf{W}_r` of a
    relation's edges, each in both directions. A node without an edge in the relation keeps
    :math:`\mathbf{X} \mathbf{\Theta}_r`. Self-loops count as in
    :class:`torch_geometric.nn.RGCNConv`, whose call it has: a node is one of its own neighbours.
    Nothing of the size of the edges times the channels is stored. For nodes of several types see
    :class:`~jsem_pyg.nn.HeteroChebConv`.

    Args:
        in_channels (int): Size of each input sample, or :obj:`-1` to derive it from the first call.
        out_channels (int): Size of each output sample.
        num_relations (int): Number :math:`R` of relations.
        t (float, list or torch.Tensor): Initial diffusion time :math:`t_r > 0`, a number or one
            for each relation.
        learn_t (bool): Whether the times are learned.
        num_bases (int, optional): Number :math:`B` of matrices :math:`\mathbf{V}_b` that the
            relations share, :math:`\mathbf{\Theta}_r = \sum_{b=1}^{B} a_{rb} \mathbf{V}_b`;
            :obj:`None` learns one for each relation.
        root_weight (bool): Whether a map of the node itself, :math:`\mathbf{X}
            \mathbf{\Theta}_0`, is added.
        from_neighbors (bool): Whether heat starts at the neighbours of a node:
            :math:`(\mathbf{I} - \mathbf{L}_r) e^{-t_r \mathbf{L}_r}` in place of
            :math:`e^{-t_r \mathbf{L}_r}`, at short times the means of
            :class:`torch_geometric.nn.RGCNConv`. It suits nodes whose own features say little,
            such as learned embeddings.
        bias (bool): If set to :obj:`False`, the layer will not learn an additive bias.
        **kwargs (optional): `normalization`, `degree`, `tol` and `backend`, as in
            :func:`~jsem_pyg.diffusion.heat_diffusion`; by default :obj:`"rw"`, by which a node
            takes means over its neighbours as in :class:`torch_geometric.nn.RGCNConv`, and a
            :obj:`tol` of 0.1, in the norm of the degrees: five products at :math:`t = 2`, eight at
            :math:`t = 5`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, C_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`, in one direction or both,
          relations in :math:`[0, R)` :math:`(|\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*, that are not learned
        - **output:** node features :math:`(|\mathcal{V}|, C_{out})`

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> conv = RelationalChebConv(16, 8, num_relations=2)
        >>> conv(torch.randn(4, 16), edge_index, edge_type=torch.tensor([0, 0, 1])).shape
        torch.Size([4, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_relations: int,
        t: float | Sequence[float] | Tensor = 2.0,
        learn_t: bool = True,
        num_bases: int | None = None,
        root_weight: bool = False,
        from_neighbors: bool = False,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        check_keywords(self, kwargs, "normalization degree tol backend")
        super().__init__()
        check_bool("root_weight", root_weight)
        check_bool("from_neighbors", from_neighbors)
        check_bool("bias", bias)
        check_positive_int("out_channels", out_channels)
        if isinstance(num_relations, tuple | list):
            raise TypeError(
                f"Expected 'num_relations' to be a positive integer (got {num_relations!r}). To "
                "fix this, take HeteroChebConv(in_channels, out_channels, metadata), which is "
                "called with dictionaries."
            )
        check_positive_int("num_relations", num_relations)
        if not isinstance(in_channels, int) or in_channels != -1:
            check_positive_int("in_channels", in_channels)
        if num_bases is not None:
            check_positive_int("num_bases", num_bases)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.num_relations, self.from_neighbors = num_relations, from_neighbors
        self.num_matrices = num_relations if num_bases is None else num_bases
        self.mixture = Parameter(torch.empty(num_relations, num_bases)) if num_bases else None
        height = (self.num_matrices + root_weight) * out_channels
        self.lin = Linear(in_channels, height, bias=False, weight_initializer="glorot")
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        start = initial_times("t", t)
        if start.shape not in ((), (num_relations,)):
            raise ValueError(
                f"Expected 't' to be a number, or one for each of {num_relations} relations (got "
                f"shape {list(start.shape)})."
            )
        self.time = DiffusionTime(start.expand(num_relations), learn_t)
        heat: dict[str, Any] = {"normalization": "rw", "tol": 0.1} | kwargs
        self.options = HeatOptions(**heat)
        self._reader = GraphReader()
        self.reset_parameters()

    @eager
    @without_autocast
    def forward(
        self,
        x: Any,
        edge_index: Tensor,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        """Convolve the features; see the class for shapes."""
        x = single_node_set(x)
        check_signal(x)
        check_type_of_layer("x", x, self.lin)
        if is_uninitialized_parameter(self.lin.weight):
            self.lin(x[:0])  # a lazy map takes its width from its first call
        if x.dim() != 2 or x.size(1) != self.lin.in_channels:
            raise ValueError(
                f"Expected 'x' to be [N, {self.lin.in_channels}], by 'in_channels' (got "
                f"{list(x.shape)})."
            )
        given = edge_index, edge_type, edge_weight
        graph = self._reader.recall(
            tuple(each for each in given if each is not None),
            lambda: self._prepare(*given, len(x)),
            len(x),
            self.lin.weight.dtype,
        )
        self._reader.check_signal(graph, x)
        x = x.to(self.lin.weight.dtype)  # in autocast it may differ
        theta, *root = self.matrices()
        start = x @ sum(root, theta.sum(0))
        start = start if self.bias is None else start + self.bias
        time = self.time().to("cpu", torch.float64)  # a GPU waits once, not for every relation
        return RelationalHeat.apply(start, x, theta, time, graph, self.from_neighbors)

    def _prepare(
        self, edge_index: Tensor, edge_type: Any, edge_weight: Tensor | None, num_nodes: int
    ) -> RelationalGraph:
        check_edge_index(edge_index, num_nodes)
        check_edge_type(edge_type, edge_index.size(1), self.num_relations)
        if edge_weight is None:
            edge_weight = torch.ones(edge_index.size(1), device=edge_index.device)
        check_edge_weight(edge_weight, edge_index.size(1))
        low, high = edge_index.long().aminmax(dim=0)
        form = (edge_index[0] > edge_index[1]).long()
        pairs = read_pairs(low, high, edge_type.long(), max(num_nodes, 1), form, keep_loops=True)
        weight, dtype = pairs.weigh(edge_weight), self.lin.weight.dtype
        return RelationalGraph(pairs, weight, self.num_relations, self.options, dtype)

    def matrices(self) -> list[Tensor]:
        """Return the matrices of the relations [R, C, D], and that of the node itself, if any."""
        maps = self.lin.weight.view(-1, self.out_channels, self.lin.in_channels).transpose(1, 2)
        theta, root = maps[: self.num_matrices], maps[self.num_matrices :]
        if self.mixture is not None:
            theta = torch.einsum("rb,bio->rio", self.mixture, theta)
        return [theta, *root]

    @property
    def t(self) -> Tensor:
        """The diffusion times [R], > 0."""
        return self.time()

    def reset_parameters(self) -> None:
        """Draw the maps anew, and set the times to their start."""
        reset_parts(self)
        glorot(self.mixture)
        zeros(self.bias)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"num_relations={self.num_relations})"
        )
