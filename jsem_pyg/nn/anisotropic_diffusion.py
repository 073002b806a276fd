"""The layer that diffuses on a graph and does not mix channels."""

import logging
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.typing import Adj, OptTensor, PairTensor

from .._checks import check_bool, check_edge_type, check_nonnegative_int, shown
from ..diffusion.evolve import CompiledGraph, evolve, heat_operator
from ..diffusion.filters import Filter
from ..diffusion.options import HeatOptions
from ..diffusion.times import Times, check_signal
from ..graph.reader import GraphReader, read_edges
from ..graph.structure import GraphRows
from ..kernels.torch_func import eager, is_transformed
from ..operators import HeatOperator, Operator
from .conductance import Graph, as_columns, conduct, make_conductance, sees_nodes
from .diffusion_time import (
    DiffusionTime,
    check_filter,
    describe_times,
    join_scales,
    number_of_scales,
    read_layer_times,
    reset_parts,
    times_of_layer,
)
from .relation_conductance import RelationConductance, Relations

_log = logging.getLogger(__name__)

_HOOKS = [
    f"_{step}_forward{when}_hooks"
    for step in ("propagate", "message", "aggregate")
    for when in ("", "_pre")
]


class AnisotropicDiffusion(MessagePassing):
    r"""Diffuses features on a graph whose edges learn how well they conduct.

    .. math::
        \mathbf{X}^{\prime} = e^{-t \mathbf{L}_{\theta}} \mathbf{X}, \qquad
        w^{\prime}_{ij} = w_{ij} \, h_{\theta}(\mathbf{a}_{ij})

    where :math:`\mathbf{L}_{\theta}` is the Laplacian of the weights :math:`w^{\prime}`, and the
    conductance :math:`0 < h_{\theta} \le 1` looks at the features :math:`\mathbf{a}_{ij}` of an
    edge, first of all its curvature (:class:`~jsem_pyg.transforms.FormanCurvature`). A new layer is
    isotropic: its conductance is constant. The exponential is evaluated as in
    :func:`~jsem_pyg.diffusion.heat_diffusion`, by fused products of sparse and dense matrices. If
    messages are observed (explainers, hooks on `propagate`, `message` or `aggregate`,
    ``fuse=False``), each term is a message passing of PyG, with the same numbers.

    The last graph is remembered, and prepared anew once it changes. A change through `.data` or an
    array of NumPy's that shares its memory is not seen: pass a prepared
    :class:`~jsem_pyg.graph.GraphStructure` then.

    `torch.compile` and `torch.export` take the layer whole, with first derivatives. Torch sparse
    tensors, filters, masses, transforms of `torch.func` and observed messages break the graph; an
    export of them is refused. Autocast leaves conductance and diffusion in full precision.

    Args:
        edge_dim (int): Number :math:`F` of edge features; 0 for none, so that only :math:`t` is
            learned.
        t (float, list or torch.Tensor): Initial diffusion time :math:`t > 0`: a number, a list or
            tensor of :math:`S` scales (their results are concatenated on the channel axis), or a
            tensor of shape :math:`(S, D)` with a time for every scale and channel.
        learn_t (bool): Whether :math:`t` is learned.
        conductance (str or torch.nn.Module): :math:`h_{\theta}`: :obj:`"sigmoid"`
            (:class:`~jsem_pyg.nn.SigmoidConductance`), :obj:`"mlp"`
            (:class:`~jsem_pyg.nn.MLPConductance`), :obj:`"agreement"`, or a module that maps
            `(edge_attr)` or `(edge_attr, x_i, x_j)` to :math:`[0, 1]`. The operator takes the mean
            of both directions of an edge. By agreement an edge of class probabilities x conducts as
            far as those of its ends agree, and nothing is learned.
        normalization (str, optional): :obj:`"sym"`, :obj:`"rw"` or :obj:`None`, see
            :func:`~jsem_pyg.diffusion.heat_diffusion`.
        degree (int, optional): Number of terms of the series; :obj:`None` takes as many as
            :obj:`tol` needs.
        tol (float): Relative error allowed.
        backend (str): What evaluates the series on the fused path, see
            :func:`~jsem_pyg.diffusion.heat_diffusion`.
        fuse (bool): If set to :obj:`False`, always goes through `propagate`.
        filter (Filter, optional): A function of :math:`\mathbf{L}_{\theta}` in place of the heat,
            such as :class:`~jsem_pyg.diffusion.filters.Learned`; the layer takes over its
            parameters. A bank of :math:`S` filters gives :math:`S` results. Times are then unused.
        rate (float): How fast the conductance learns next to other parameters, :math:`r` in
            :class:`~jsem_pyg.nn.SigmoidConductance`; a module of your own has its own.
        num_relations (int, optional): Number :math:`R` of types of edges. Every relation gets a
            conductance, `relation_conductance`, by which that of the edge features is multiplied;
            :meth:`relations` prints them.

    Shapes:
        - **input:**
          node features :math:`(\ldots, |\mathcal{V}|, D)`,
          edge indices :math:`(2, |\mathcal{E}|)`, both directions of every edge,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          edge features :math:`(|\mathcal{E}|, F)`; without them every edge conducts alike,
          masses of the nodes :math:`(|\mathcal{V}|)` *(optional)*, with normalization=None,
          relations of the edges in :math:`[0, R)` :math:`(|\mathcal{E}|)`, for `num_relations`
        - **output:** node features :math:`(\ldots, |\mathcal{V}|, S \cdot D)`

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> curvature = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
        >>> layer = AnisotropicDiffusion(t=2.0)
        >>> layer(torch.eye(3), edge_index, edge_attr=curvature).shape
        torch.Size([3, 3])
    """

    # PyG writes the code of `propagate` for every class, by the arguments that it is called with.
    propagate_type: ClassVar[dict[str, type]] = {"x": Tensor, "norm": Tensor}
    # At t = 5 the time moves by the learning rate in every step of Adam, as the slope does.
    time_rate: ClassVar[float] = 0.2
    # Of relations next to edge features, chosen on planted graphs that are not reported.
    relation_rate: ClassVar[float] = 2.0

    def __init__(
        self,
        edge_dim: int = 1,
        t: float | Sequence[float] | Tensor = 5.0,
        learn_t: bool = True,
        conductance: str | torch.nn.Module = "sigmoid",
        normalization: str | None = "sym",
        degree: int | None = None,
        tol: float = 1e-6,
        backend: str = "auto",
        fuse: bool = True,
        filter: Filter | None = None,
        rate: float = 1.0,
        num_relations: int | None = None,
    ) -> None:
        super().__init__(aggr="add")
        check_nonnegative_int("edge_dim", edge_dim)
        check_bool("learn_t", learn_t)
        check_bool("fuse", fuse)
        check_filter(filter)
        self.edge_dim = edge_dim
        self.conductance = make_conductance(conductance, edge_dim, rate)
        self.conductance_form = conductance if isinstance(conductance, str) else "module"
        self.sees_nodes = sees_nodes(self.conductance)
        self.num_relations = num_relations
        self.relation_conductance = (
            None
            if num_relations is None
            else RelationConductance(num_relations, rate=self.relation_rate * rate)
        )
        self.time = DiffusionTime(t, learn_t and filter is None, self.time_rate)
        self.filter = filter
        self.options = HeatOptions(degree, tol, normalization, backend)
        self.fuse = fuse
        self._reader = GraphReader()
        self._has_warned = False

    t, num_scales, reset_parameters = times_of_layer, number_of_scales, reset_parts

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep PyG from taking the code for this class, without masks, for a subclass's own."""
        super().__init_subclass__(**kwargs)
        cls.propagate = cls.__dict__.get("propagate", MessagePassing.propagate)

    def forward(
        self,
        x: Tensor | PairTensor,
        edge_index: Adj,
        edge_weight: OptTensor = None,
        edge_attr: OptTensor = None,
        node_mass: OptTensor = None,
        edge_type: OptTensor = None,
    ) -> Tensor:
        """Diffuse the node features; see the class for shapes."""
        x = single_node_set(x)
        check_signal(x)
        times = read_layer_times(self.time, self.filter, x.size(-1))
        operator = self.operator(x, times, edge_index, edge_weight, edge_attr, node_mass, edge_type)
        return join_scales(evolve(x, operator, times, self.options))

    def operator(
        self,
        x: Tensor,
        times: Times | Filter,
        edge_index: Adj,
        edge_weight: OptTensor,
        edge_attr: OptTensor,
        node_mass: OptTensor,
        edge_type: OptTensor,
    ) -> HeatOperator | CompiledGraph:
        """Read the graph and let its edges conduct: S for signals and times like these."""
        self._check_relations(edge_weight, edge_type)
        if edge_attr is None:
            self._warn_of_missing_attr()
        else:
            edge_dim = None if self.conductance_form == "module" else self.edge_dim
            edge_attr = as_columns(edge_attr, edge_dim).to(self.time.raw.dtype)
        is_plain = self.filter is None and node_mass is None
        is_compiled = torch.compiler.is_compiling() and is_plain and not self._is_observed
        if is_compiled and not is_transformed():
            graph, weight = read_edges(edge_index, edge_weight, x.size(-2))
            h = self.conduct(graph, x, edge_attr, edge_type)
            return CompiledGraph(graph, weight, h, edge_attr)
        return self._operator(x, times, edge_index, edge_weight, edge_attr, node_mass, edge_type)

    @eager
    def _operator(
        self, x: Tensor, times: Times | Filter, edge_index: Adj, edge_weight: OptTensor,
        edge_attr: OptTensor, node_mass: OptTensor, edge_type: OptTensor,
    ) -> HeatOperator:  # fmt: skip
        """Make the operator of what `operator` is given, precise enough for x."""
        graph, weight = self._reader.read(edge_index, x, edge_weight, edge_attr)
        if edge_type is not None:
            known, num_edges = self.num_relations or 0, graph.num_edges
            self._reader.check(
                graph, "edge_type", edge_type, lambda e: check_edge_type(e, num_edges, known)
            )
        h = self.conduct(graph, x, edge_attr, edge_type)
        make = partial(PropagatedOperator, self, graph, weight, h) if self._is_observed else None
        return heat_operator(graph, weight, x.dtype, times, self.options, h, node_mass, make)

    @property
    def _is_observed(self) -> bool:
        """True if an explainer or a hook may observe the messages."""
        return not self.fuse or bool(self.explain) or any(getattr(self, hooks) for hooks in _HOOKS)

    def conduct(
        self, graph: Graph, x: Tensor, edge_attr: OptTensor = None, edge_type: OptTensor = None
    ) -> OptTensor:
        """Compute the conductance [E] of the edges; None if all conduct alike."""
        of_features = conduct(graph, x, edge_attr, self.conductance, self.sees_nodes)
        if edge_type is None:
            return of_features
        assert self.relation_conductance is not None
        of_relation: Tensor = self.relation_conductance(edge_type)
        return of_relation if of_features is None else of_relation * of_features

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        """Return an edge's share of S X, if messages are observed."""
        return norm.view(-1, 1) * x_j

    def relations(self) -> Relations:
        """Return the conductance of each relation, as a dictionary that prints as a table."""
        if self.relation_conductance is None:
            raise ValueError("Expected a layer with 'num_relations' (got None).")
        with torch.no_grad():
            found = self.relation_conductance.of_relations
        return Relations(range(found.numel()), found)

    def _check_relations(self, edge_weight: OptTensor, edge_type: OptTensor) -> None:
        """Raise unless relations come to a layer that has them, and by their name."""
        if isinstance(edge_weight, Tensor) and not edge_weight.is_floating_point():
            raise TypeError(
                f"Expected 'edge_weight' to hold floating-point numbers (got {edge_weight.dtype}). "
                "To fix this, pass relations by name, edge_type=, to a layer with num_relations=."
            )
        if edge_type is None and self.num_relations is not None:
            raise ValueError(
                f"Expected 'edge_type' for a layer with num_relations={self.num_relations} (got "
                "None)."
            )
        if edge_type is not None and self.num_relations is None:
            raise ValueError(
                "Expected 'edge_type' to be None for a layer without 'num_relations' (got "
                f"{shown(edge_type)}). To fix this, make the layer with num_relations=, the number "
                "of types of edges."
            )

    def _warn_of_missing_attr(self) -> None:
        is_meant = self.conductance is None or self.sees_nodes or self.num_relations is not None
        if self._has_warned or is_meant or torch.compiler.is_compiling():
            return  # a compiled graph has no place for messages
        self._has_warned = True
        _log.warning(
            "%s got no 'edge_attr', so that every edge conducts alike and the diffusion is "
            "isotropic. To fix this, apply transforms.FormanCurvature(), or set edge_dim=0.",
            self.__class__.__name__,
        )

    @property
    def sketchable(self) -> bool:
        """True if all channels diffuse alike, so that a projection of them may be trained on."""
        return self.time.num_channels is None and not self.sees_nodes

    def _describe(self) -> str:
        relations = f", num_relations={self.num_relations}" if self.num_relations else ""
        return (
            f"edge_dim={self.edge_dim}, {describe_times(self.time, self.filter)}, "
            f"conductance={self.conductance_form}, normalization={self.options.normalization}"
            f"{relations}"
        )

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._describe()})"


class PropagatedOperator(Operator):
    """S, applied by the `propagate` of a layer, so that hooks and explainers see its messages."""

    def __init__(
        self,
        layer: MessagePassing,
        graph: GraphRows,
        weight: OptTensor,
        conductance: OptTensor,
        off_diagonal: Tensor,
        diagonal: OptTensor,
    ) -> None:
        structure = graph.whole(
            "where messages are observed, since those of other processes do not pass `propagate`",
            "remove hooks and explainers, and leave out fuse=False",
        )
        target, source = structure.edges
        self.edge_index = torch.stack([source, target]).long()  # S suits either `flow`
        # Edges that share an entry of S are messages of their own, as much as each conducts.
        given = [each for each in (weight, conductance) if each is not None]
        share = math.prod(given[1:], start=given[0]) if given else None
        self.norm = structure.share_among_edges(off_diagonal, share)
        self.layer, self.diagonal, self.num_nodes = layer, diagonal, structure.num_nodes

    def apply(self, x: Tensor) -> Tensor:
        """Multiply by S, in one message passing."""
        size = (self.num_nodes, self.num_nodes)
        out: Tensor = self.layer.propagate(self.edge_index, size=size, x=x, norm=self.norm)
        return out if self.diagonal is None else out + self.diagonal.unsqueeze(-1) * x


def single_node_set(x: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """Return the signal itself, if PyG passes it as a pair, as `to_hetero` does."""
    if not isinstance(x, tuple):
        return x
    if len(x) != 2 or x[0] is not x[1]:
        raise ValueError(
            "Expected 'x' to belong to one set of nodes, since diffusion needs an edge's both "
            f"directions (got a pair of {shown(x[0])} and {shown(x[-1])}, as for a relation "
            "between two node types). To fix this, use jsem_pyg.nn.HeteroChebConv or "
            "HeteroDiffusion, which take all relations of a HeteroData at once, not a layer for "
            "each relation in HeteroConv or to_hetero."
        )
    return x[0]
