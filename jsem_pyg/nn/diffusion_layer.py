"""The base of the diffusion layers on graphs: parameters, memory of the graph, and both paths."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, cast

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.typing import Adj, OptTensor

from .._checks import check_bool, check_float, check_nonnegative_int
from .._precision import full_precision
from ..diffusion.evolve import evolve
from ..diffusion.heat import heat_operator
from ..diffusion.options import HeatOptions
from ..diffusion.registered_op import compiled_heat
from ..diffusion.times import check_signal, read_times
from ..graph import GraphStructure
from ..graph.adjacency import Adjacency
from ..graph.memory import Memory
from ..graph.prepare import GraphReader, read_edges
from ..graph.rows import GraphRows
from ..operators import HeatOperator, Operator
from ..operators.laplacian import laplacian_entries
from .conductance import ModuleConductance, as_columns, initial_conductance, make_conductance
from .conduction_by_ends import conduct_by_ends
from .diffusion_time import DiffusionTime

_log = logging.getLogger(__name__)


class LearningRateFactors(NamedTuple):
    """How fast the times and the conductance of a layer learn, relative to other parameters."""

    time: float
    conductance: float = 1.0


class DiffusionLayer(MessagePassing):
    """Abstract base of the layers: conductance, time, and exp(-tL) of the graph that they make.

    Two paths give the same numbers. The *fused* path passes the operator to a kernel. The *watched*
    path goes through `propagate`, one message passing for each term of the series; it is taken
    wherever messages are observed: under `torch_geometric.explain`, with hooks on `propagate`,
    `message` or `aggregate`, and with ``fuse=False``.

    `torch.compile` and `torch.export` take the fused path whole, as one registered op; an exported
    program runs on graphs of other sizes if they are declared dynamic. Not so torch sparse tensors,
    which the compiler does not know, nor the watched path, whose length depends on the time: there
    the graph breaks. Autocast leaves conductance and diffusion in full precision.
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
        factors: LearningRateFactors,
        **kwargs: Any,
    ) -> None:
        is_sum = kwargs.setdefault("aggr", "add") in ("add", "sum")
        if not is_sum or kwargs.get("node_dim", -2) != -2:
            raise ValueError(
                f"Expected 'aggr' to be 'add' and 'node_dim' to be -2, since the layer is a linear "
                f"operator on the nodes (got {kwargs})."
            )
        super().__init__(**kwargs)
        check_nonnegative_int("edge_dim", edge_dim)
        check_bool("learn_t", learn_t)
        check_bool("fuse", fuse)
        self.edge_dim = edge_dim
        self.conductance_form = conductance if isinstance(conductance, str) else "module"
        self.conductance = make_conductance(conductance, edge_dim, factors.conductance)
        self.time = DiffusionTime(t, learn_t, factors.time)
        self.options = options
        # Where edges conduct in part, so do loops, as edges do at first: a new layer is the same
        # with and without features.
        loop = options.self_loop * initial_conductance(self.conductance)
        self._conducted_options = replace(options, self_loop=loop)
        self.fuse = fuse
        self._reader = GraphReader()
        # In float32, and in float64 where that is too narrow; weights are compared entry by entry,
        # since a change through NumPy or `.data` leaves no other trace.
        self._operators = Memory(size=2, by_entries=True)
        self._has_warned = False

    def reset_parameters(self) -> None:
        """Go back to the isotropic operator and the initial time."""
        super().reset_parameters()
        self.time.reset_parameters()
        if self.conductance is not None:
            self.conductance.reset_parameters()

    @property
    def t(self) -> Tensor:
        """The diffusion times, > 0: 0-d, [S] scales or [S, D] scales and channels."""
        times: Tensor = self.time()
        return times

    @property
    def sees_nodes(self) -> bool:
        """Whether the conductance looks at the features of the nodes."""
        return bool(getattr(self.conductance, "sees_nodes", False))

    def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
        """An edge's share of S X, on the watched path."""
        return norm.view(-1, 1) * x_j

    def _read(
        self, x: Tensor, t: Tensor, edge_index: Adj, edge_weight: OptTensor, edge_attr: OptTensor
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """Read the graph, let its edges conduct, and make the operator, precise enough for t.

        Returns:
            A function of a signal [..., N, D] and times -> the diffused signal [..., S, N, D].
        """
        edge_attr = None if edge_attr is None else self._columns(edge_attr)
        is_watched = self._is_watched()
        if torch.compiler.is_compiling() and not is_watched:
            return self._compiled(x, edge_index, edge_weight, edge_attr)
        structure, weight = self._reader.read(edge_index, x, edge_weight, edge_attr)
        conductance = self._conduct(structure, edge_attr, x)
        options = self.options if conductance is None else self._conducted_options
        times = read_times(t, x)
        if is_watched:
            make = self._watched_operator
            operator = heat_operator(
                structure, weight, x, times.longest, options, conductance, make
            )
        else:
            options = options.for_graph(edge_index)
            operator = heat_operator(
                structure, weight, x, times.longest, options, conductance, memory=self._operators
            )

        def diffuse(signal: Tensor, at: Tensor) -> Tensor:
            return evolve(signal, operator, times if at is t else read_times(at, signal), options)

        return diffuse

    def _compiled(
        self, x: Tensor, edge_index: Adj, edge_weight: OptTensor, edge_attr: OptTensor
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """As `_read`, in compiled code, which cannot prepare a graph: the registered op does."""
        adjacency, weight = read_edges(edge_index, edge_weight, x.size(-2))
        conductance = self._conduct(adjacency, edge_attr, x)
        options = self.options if conductance is None else self._conducted_options
        options = options.for_graph(edge_index)

        def diffuse(signal: Tensor, at: Tensor) -> Tensor:
            return compiled_heat(signal, at, adjacency, weight, edge_attr, conductance, options)

        return diffuse

    def _columns(self, edge_attr: Tensor) -> Tensor:
        """Edge features as [E, F], in the type of the parameters."""
        edge_dim = None if self.conductance_form == "module" else self.edge_dim
        return as_columns(edge_attr, edge_dim).to(self.time.raw.dtype)

    def _conduct(self, graph: GraphRows | Adjacency, edge_attr: OptTensor, x: Tensor) -> OptTensor:
        """The conductance [E] of the edges, or None where it depends on features not given."""
        if self.conductance is None or (edge_attr is None and not self.sees_nodes):
            self._warn_of_missing_attr(edge_attr)
            return None
        with full_precision(x.device):
            if not self.sees_nodes:
                return self.conductance(edge_attr)
            return conduct_by_ends(cast(ModuleConductance, self.conductance), graph, edge_attr, x)

    def _warn_of_missing_attr(self, edge_attr: OptTensor) -> None:
        if self._has_warned or self.edge_dim == 0 or edge_attr is not None:
            return
        if torch.compiler.is_compiling():
            return  # a compiled graph has no place for messages
        self._has_warned = True
        _log.warning(
            "%s got no 'edge_attr', so that every edge conducts alike and the diffusion is "
            "isotropic. jsem_pyg.transforms.FormanCurvature() makes one; edge_dim=0 means it.",
            self.__class__.__name__,
        )

    def _times(self, edge_attr: OptTensor) -> Tensor:
        """The times; through them, a conductance that is not used gets gradients of zero.

        `DistributedDataParallel` takes a parameter without a gradient for an error.
        """
        if self.conductance is None or edge_attr is not None or self.sees_nodes:
            return self.t
        parameters = [each for each in self.conductance.parameters() if each.requires_grad]
        if not (self.training and parameters and torch.is_grad_enabled()):
            return self.t
        return self.t + 0 * sum(each.sum() for each in parameters)

    def _watched_operator(
        self,
        structure: GraphRows,
        edge_weight: Tensor,
        normalization: str | None,
        conductance: OptTensor,
        backend: str,
        self_loop: float,
        dtype: torch.dtype,
    ) -> HeatOperator:
        """The operator that `laplacian_operator` makes, applied by message passing."""
        if not isinstance(structure, GraphStructure):
            raise NotImplementedError(
                "Expected a whole graph where messages are observed (got the rows of one process): "
                "messages of other processes do not pass `propagate`. To fix this, remove hooks "
                "and explainers, and leave out fuse=False."
            )
        entries = laplacian_entries(
            structure, edge_weight, normalization, conductance, self_loop, dtype
        )
        target, source = structure.edges
        pair = (source, target) if self.flow == "source_to_target" else (target, source)
        norm = structure.share_among_edges(entries.off_diagonal)
        edge_index = torch.stack(pair).long()
        return HeatOperator(
            _Propagation(self, edge_index, norm, entries.diagonal, structure.num_nodes),
            entries.scaling,
            dtype,
        )

    def _is_watched(self) -> bool:
        hooks = (
            self._propagate_forward_pre_hooks,
            self._propagate_forward_hooks,
            self._message_forward_pre_hooks,
            self._message_forward_hooks,
            self._aggregate_forward_pre_hooks,
            self._aggregate_forward_hooks,
        )
        return not self.fuse or bool(self.explain) or any(len(each) > 0 for each in hooks)

    def _describe(self) -> str:
        return (
            f"edge_dim={self.edge_dim}, t={self.time}, conductance={self.conductance_form}, "
            f"normalization={self.options.normalization}"
        )


class _Propagation(Operator):
    """S by a layer's `propagate`, whose messages can be observed."""

    def __init__(
        self,
        layer: DiffusionLayer,
        edge_index: Tensor,
        norm: Tensor,
        diagonal: OptTensor,
        num_nodes: int,
    ) -> None:
        self.layer, self.edge_index, self.norm = layer, edge_index, norm
        self.diagonal, self.num_nodes = diagonal, num_nodes

    def apply(self, x: Tensor) -> Tensor:
        """One message passing."""
        size = (self.num_nodes, self.num_nodes)
        out: Tensor = self.layer.propagate(self.edge_index, size=size, x=x, norm=self.norm)
        return out if self.diagonal is None else out + self.diagonal.unsqueeze(-1) * x


def single_node_set(x: Tensor | tuple[Tensor, Tensor], check: bool = True) -> Tensor:
    """The signal itself, also where PyG passes a pair, as `to_hetero` does.

    Args:
        x: the signal, or the pair.
        check: whether it has to be fit for diffusion as it is.

    Raises:
        ValueError: if the pair is a bipartite graph's, on which heat cannot flow back.
    """
    if isinstance(x, tuple):
        if len(x) != 2 or x[0] is not x[1]:
            raise ValueError(
                "Expected 'x' to belong to one set of nodes, since diffusion needs an edge's both "
                "directions (got a pair of different tensors, as for a bipartite graph)."
            )
        x = x[0]
    if check:
        check_signal(x)
    else:
        check_float("x", x)
    return x
