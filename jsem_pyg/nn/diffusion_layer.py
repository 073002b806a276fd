"""The base of the diffusion layers on graphs: conductance, and exp(-tL) of the graph it makes."""

import logging
from collections.abc import Sequence
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.typing import Adj, OptTensor

from .._checks import check_bool, check_nonnegative_int
from .._precision import full_precision
from ..diffusion.evolve import evolve
from ..diffusion.filters import Filter
from ..diffusion.heat import heat_entries
from ..diffusion.options import HeatOptions
from ..diffusion.registered_op import CompiledGraph, compiled_heat
from ..diffusion.times import Times
from ..graph.adjacency import Adjacency
from ..graph.prepare import read_edges
from ..kernels.torch_func import eager, is_transformed
from ..operators import HeatOperator
from .conductance import as_columns
from .heat_layer import HeatLayer
from .node_conductance import Graph, make_conductance
from .propagation import is_watched, through_propagate

_log = logging.getLogger(__name__)


class DiffusionLayer(HeatLayer, MessagePassing):
    """Abstract base of the layers on graphs.

    Two paths give the same numbers. The *fused* path passes the operator to a kernel. The *watched*
    path goes through `propagate`, one message passing for each term of the series; it is taken
    wherever messages are observed: under `torch_geometric.explain`, with hooks on `propagate`,
    `message` or `aggregate`, and with ``fuse=False``.

    `torch.compile` and `torch.export` take the fused path whole, as one registered op; an exported
    program runs on graphs of other sizes if they are declared dynamic. It has first derivatives in
    reverse mode; others are refused. Not so torch sparse tensors, which the compiler does not know,
    filters, masses, transforms of `torch.func`, and the watched path, whose length depends on the
    time: there the graph breaks, and an export is refused. Autocast leaves conductance and
    diffusion in full precision.
    """

    # PyG writes the code of `propagate` for every class, by the arguments that it is called with.
    propagate_type: ClassVar[dict[str, type]] = {"x": Tensor, "norm": Tensor}

    def __init__(
        self,
        edge_dim: int,
        t: float | Sequence[float] | Tensor,
        learn_t: bool,
        conductance: str | torch.nn.Module,
        options: HeatOptions,
        fuse: bool,
        rate: float,
        time_rate: float,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> None:
        self._check_options(kwargs)
        is_sum = kwargs.setdefault("aggr", "add") in ("add", "sum")
        if not is_sum or kwargs.get("node_dim", -2) != -2:
            raise ValueError(
                f"Expected 'aggr' to be 'add' and 'node_dim' to be -2, since the layer is a linear "
                f"operator on the nodes (got {kwargs})."
            )
        super().__init__(**kwargs)
        check_nonnegative_int("edge_dim", edge_dim)
        check_bool("fuse", fuse)
        self.edge_dim = edge_dim
        self.conductance_form = conductance if isinstance(conductance, str) else "module"
        self.conductance = make_conductance(conductance, edge_dim, rate)
        self._make_heat(t, learn_t, options, time_rate, filter)
        self.fuse = fuse
        self._has_warned = False

    def _check_options(self, given: dict[str, Any]) -> None:
        """Raise a TypeError for options of other layers, such as the K of ChebConv."""
        kinds = type(self).__init__, MessagePassing.__init__
        own, general = (list(signature(each).parameters)[1:] for each in kinds)
        unknown = [name for name in given if name not in general]
        if unknown:
            own = [name for name in own if name != "kwargs"]
            raise TypeError(
                f"Expected options of {type(self).__name__} (got {', '.join(map(repr, unknown))}; "
                f"it takes {', '.join(own)}). The page of layers in the guide says what takes the "
                "place of those of GCNConv, ChebConv and APPNP."
            )

    @property
    def sees_nodes(self) -> bool:
        """True if the conductance depends on the features of the nodes."""
        return bool(getattr(self.conductance, "sees_nodes", False))

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        """Return an edge's share of S X, if messages are observed."""
        return norm.view(-1, 1) * x_j

    def operator(
        self,
        x: Tensor,
        times: Times | Filter,
        edge_index: Adj,
        edge_weight: OptTensor,
        edge_attr: OptTensor,
        node_mass: OptTensor,
    ) -> HeatOperator | CompiledGraph:
        """Read the graph, let its edges conduct, and make the operator, precise enough for x."""
        plain = self.filter is None and node_mass is None and not is_watched(self)
        if torch.compiler.is_compiling() and plain and not is_transformed():
            adjacency, weight = read_edges(edge_index, edge_weight, x.size(-2))
            conductance = self.conduct(adjacency, edge_attr, x)
            attr = None if edge_attr is None else self._columns(edge_attr)
            return adjacency, weight, attr, conductance, self.options
        return self._operator(x, times, edge_index, edge_weight, edge_attr, node_mass)

    @eager
    def _operator(
        self,
        x: Tensor,
        times: Times | Filter,
        edge_index: Adj,
        edge_weight: OptTensor,
        edge_attr: OptTensor,
        node_mass: OptTensor,
    ) -> HeatOperator:
        attr = None if edge_attr is None else self._columns(edge_attr)
        graph, weight = self._reader.read(edge_index, x, edge_weight, attr)
        conductance = self.conduct(graph, edge_attr, x)
        entries = heat_entries(graph, weight, x.dtype, times, self.options, conductance, node_mass)
        if is_watched(self):
            # Edges that share an entry of S are messages of their own, as much as each conducts.
            share = conductance if weight is None else weight
            if weight is not None and conductance is not None:
                share = weight * conductance
            return through_propagate(self, graph, entries, share)
        matrix = graph.make_matrix(entries.off_diagonal, entries.diagonal, self.options.backend)
        return HeatOperator(matrix, entries.scaling, entries.off_diagonal.dtype)

    def diffuse(
        self, x: Tensor, operator: HeatOperator | CompiledGraph, times: Times | Filter
    ) -> Tensor:
        """Diffuse or filter a signal [..., N, D] -> [..., S, N, D]."""
        if isinstance(operator, HeatOperator):
            return _evolve(x, operator, times, self.options)
        assert isinstance(times, Times)
        return compiled_heat(operator, x, times)

    def conduct(self, graph: Graph, edge_attr: OptTensor, x: Tensor) -> OptTensor:
        """Compute the conductance [E] of the edges; None if all conduct alike."""
        if self.conductance is None:
            return None
        if edge_attr is None and not self.sees_nodes:
            self._warn_of_missing_attr()
            return self._ones(graph)
        is_autocast = torch.is_autocast_enabled(x.device.type)
        with full_precision(x.device):
            attr = None if edge_attr is None else self._columns(edge_attr)
            if not self.sees_nodes:
                return self.conductance(attr)
            if is_autocast:  # x may come from another layer in a lower type
                x = x.to(self.time.raw.dtype)
            return self.conductance(attr, x=x, graph=graph)

    def _columns(self, edge_attr: Tensor) -> Tensor:
        """Return edge features as [E, F], in the type of the parameters."""
        edge_dim = None if self.conductance_form == "module" else self.edge_dim
        return as_columns(edge_attr, edge_dim).to(self.time.raw.dtype)

    def _ones(self, graph: Graph) -> OptTensor:
        """Return ones [E] that give a conductance which is not used gradients of zero, or None.

        `DistributedDataParallel` takes a parameter without a gradient for an error.
        """
        assert self.conductance is not None
        parameters = [each for each in self.conductance.parameters() if each.requires_grad]
        if not (self.training and parameters and torch.is_grad_enabled()):
            return None
        unused = 0 * torch.stack([each.sum() for each in parameters]).sum()
        num_edges = graph.row.numel() if isinstance(graph, Adjacency) else graph.num_edges
        return (1 + unused).expand(num_edges)

    def _warn_of_missing_attr(self) -> None:
        if self._has_warned or self.edge_dim == 0 or torch.compiler.is_compiling():
            return  # a compiled graph has no place for messages
        self._has_warned = True
        _log.warning(
            "%s got no 'edge_attr', so that every edge conducts alike and the diffusion is "
            "isotropic. jsem_pyg.transforms.FormanCurvature() makes one; edge_dim=0 means it.",
            self.__class__.__name__,
        )

    def _describe(self) -> str:
        return (
            f"edge_dim={self.edge_dim}, {self._describe_times()}, "
            f"conductance={self.conductance_form}, normalization={self.options.normalization}"
        )


def single_node_set(x: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """The signal itself, also where PyG passes it as a pair, as `to_hetero` does."""
    if not isinstance(x, tuple):
        return x
    if len(x) != 2 or x[0] is not x[1]:
        raise ValueError(
            "Expected 'x' to belong to one set of nodes, since diffusion needs an edge's both "
            "directions (got a pair of different tensors, as for a bipartite graph)."
        )
    return x[0]


@torch.compiler.disable
def _evolve(
    x: Tensor, operator: HeatOperator, times: Times | Filter, options: HeatOptions
) -> Tensor:
    return evolve(x, operator, times, options)
