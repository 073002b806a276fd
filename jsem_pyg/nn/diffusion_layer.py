"""What the diffusion layers share: parameters, the memory of the graph, and the two paths."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing
from torch_geometric.typing import Adj, OptTensor

from .._checks import check_choice, check_edge_vector, check_finite, check_float
from ..diffusion.chebyshev import (
    check_accuracy,
    check_device,
    check_num_nodes,
    check_signal,
    choose_weight,
    diffuse,
    diffusion_times,
    full_precision,
    preferred_backend,
    prepare_weight,
)
from ..diffusion.registered_op import read_edges, registered_heat_diffusion
from ..kernels.chebyshev.recurrence import chebyshev_recurrence
from ..kernels.csr import CSR
from ..kernels.dispatch import ChebyshevSeries, check_backend, find_backend
from ..operators import (
    GraphStructure,
    HeatOperator,
    LastSeen,
    StructureCache,
    laplacian_operator,
    read_adjacency,
)
from ..operators.laplacian import NORMALIZATIONS
from .conductance import as_columns, make_conductance
from .diffusion_time import DiffusionTime

_log = logging.getLogger(__name__)

# (signal [..., N, D], times) -> [..., S, N, D]
Flow = Callable[[Tensor, Tensor], Tensor]


class DiffusionLayer(MessagePassing):
    """Abstract base of the layers: conductance, time, and exp(-tL) of the graph that they make.

    Two paths lead to the same numbers. The *fused* path hands the operator to a kernel. The
    *watched* path goes through `propagate`, one message passing for each term of the series; it is
    taken wherever somebody watches: under `torch_geometric.explain`, with hooks on `propagate`,
    `message` or `aggregate`, and with ``fuse=False``.

    `torch.compile` takes the fused path whole, as one registered op; not torch sparse tensors,
    which it does not know, nor the watched path, whose length depends on the time: there the graph
    breaks. Autocast leaves conductance and diffusion in full precision.
    """

    def __init__(
        self,
        edge_dim: int,
        t: float | Sequence[float] | Tensor,
        learn_t: bool,
        conductance: str | torch.nn.Module,
        normalization: str | None,
        degree: int | None,
        tol: float,
        backend: str,
        fuse: bool,
        **kwargs: Any,
    ) -> None:
        if (
            kwargs.setdefault("aggr", "add") not in ("add", "sum")
            or kwargs.get("node_dim", -2) != -2
        ):
            raise ValueError(
                f"Expected 'aggr' to be 'add' and 'node_dim' to be -2, since the layer is a linear "
                f"operator on the nodes (got {kwargs})."
            )
        super().__init__(**kwargs)
        if isinstance(edge_dim, bool) or not isinstance(edge_dim, int) or edge_dim < 0:
            raise ValueError(f"Expected 'edge_dim' to be an integer >= 0 (got {edge_dim!r}).")
        check_choice("normalization", normalization, NORMALIZATIONS)
        check_accuracy(degree, tol)
        check_backend(backend)
        self.edge_dim = edge_dim
        self.conductance_form = conductance if isinstance(conductance, str) else "module"
        self.conductance = make_conductance(conductance, edge_dim)
        self.time = DiffusionTime(t, learn_t)
        self.normalization = normalization
        self.degree = degree
        self.tol = tol
        self.backend = backend
        self.fuse = fuse
        self._structures, self._weights, self._attrs = StructureCache(), LastSeen(), LastSeen()
        self._has_warned = False

    def reset_parameters(self) -> None:
        """Go back to the isotropic operator and the initial time."""
        super().reset_parameters()
        self.time.reset_parameters()
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

    def _flow(
        self, x: Tensor, edge_index: Adj, edge_weight: OptTensor, edge_attr: OptTensor
    ) -> Flow:
        """Read graph and conductance, for as many signals and times as a layer has."""
        if torch.compiler.is_compiling() and not self._is_watched():
            return self._compiled_flow(x, edge_index, edge_weight, edge_attr)
        graph = self._read(edge_index, edge_weight, x)
        operator = self._operator(graph, x, edge_attr)
        series = self._series(graph, operator, edge_index)

        def flow(signal: Tensor, t: Tensor) -> Tensor:
            times = diffusion_times(t, signal)
            return diffuse(signal, operator, times, series, degree=self.degree, tol=self.tol)

        return flow

    def _compiled_flow(
        self, x: Tensor, edge_index: Adj, edge_weight: OptTensor, edge_attr: OptTensor
    ) -> Flow:
        """The same through the registered op, which remembers and checks in its own way."""
        target, source, weight = read_edges(edge_index, edge_weight, x.size(-2))
        columns = None if edge_attr is None else self._columns(edge_attr)
        conductance = self._conduct((target, source), x, columns)
        graph = (weight, conductance, columns, target, source)
        backend = preferred_backend(self.backend, edge_index)
        options = (self.degree, self.tol, self.normalization, backend)

        def flow(signal: Tensor, t: Tensor) -> Tensor:
            times = diffusion_times(t, signal)
            out: Tensor = registered_heat_diffusion(signal, times, *graph, *options)
            return out

        return flow

    def _read(self, edge_index: Adj, edge_weight: OptTensor, x: Tensor) -> "_Graph":
        """Prepare a graph, or remember it."""
        if isinstance(edge_index, GraphStructure):
            check_num_nodes(edge_index, x.size(-2))
            structure, fresh = edge_index, False
        else:
            adjacency = read_adjacency(edge_index, x.size(-2))
            edge_weight = choose_weight(adjacency.weight, edge_weight)
            structure, fresh = self._structures.get(adjacency, x.size(-2))
        check_device("edge_index", structure.device, x)
        weight = prepare_weight(structure, edge_weight, x)
        # A GPU has to wait for a look at values, so there it comes with the preparation of a graph.
        may_look = fresh or x.device.type == "cpu"
        if may_look:
            check_finite("x", x)
            if edge_weight is not None:
                self._weights.check_once(structure.check_weight, edge_weight, structure)
        return _Graph(structure, weight, may_look)

    def _operator(self, graph: "_Graph", x: Tensor, edge_attr: OptTensor) -> HeatOperator:
        """The operator of the weights times the conductance."""
        weight = graph.weight
        if edge_attr is not None:
            edge_attr = self._columns(edge_attr)
            check_edge_vector("edge_attr", edge_attr[:, 0], graph.structure.num_edges)
            check_device("edge_attr", edge_attr.device, x)
            if graph.may_look:
                self._attrs.check_once(graph.structure.check_attr, edge_attr, graph.structure)
        edges = graph.structure.edges if self.sees_nodes else None
        conductance = self._conduct(edges, x, edge_attr)
        if conductance is not None:
            weight = weight * conductance.to(weight.dtype)
        return laplacian_operator(graph.structure, weight, self.normalization)

    def _columns(self, edge_attr: Tensor) -> Tensor:
        """Edge features as [E, F]."""
        check_float("edge_attr", edge_attr)
        edge_dim = None if self.conductance_form == "module" else self.edge_dim
        return as_columns(edge_attr, edge_dim)

    def _conduct(
        self, edges: tuple[Tensor, Tensor] | None, x: Tensor, edge_attr: OptTensor
    ) -> OptTensor:
        """The conductance [E] of the edges (target, source), or None where nothing tells it."""
        if edge_attr is not None:
            edge_attr = edge_attr.to(self.time.raw.dtype)
        elif not self.sees_nodes:
            self._warn_of_missing_attr()
            return None
        if edges is None or not self.sees_nodes:
            with full_precision(x.device):
                return self.conductance(edge_attr)
        if x.dim() > 2:
            raise ValueError(
                "Expected 'x' to have shape [N, D], since the conductance looks at the nodes and "
                f"would differ from batch to batch (got {list(x.shape)})."
            )
        target, source = edges
        return self.conductance(edge_attr, x[target], x[source])

    def _warn_of_missing_attr(self) -> None:
        if torch.compiler.is_compiling():
            return  # a compiled graph has no place for messages
        if self.edge_dim > 0 and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "%s got no 'edge_attr', so that every edge conducts alike and the diffusion is "
                "isotropic. jsem_pyg.transforms.FormanCurvature() makes one; edge_dim=0 means it.",
                self.__class__.__name__,
            )

    def _series(self, graph: "_Graph", operator: HeatOperator, edge_index: Adj) -> ChebyshevSeries:
        """The kernel, or message passing if somebody watches."""
        if not self._is_watched():
            return find_backend(preferred_backend(self.backend, edge_index), operator.values.device)
        target, source = graph.structure.edges
        ends = (source, target) if self.flow == "source_to_target" else (target, source)
        pair, size = torch.stack(ends), (graph.structure.num_nodes, graph.structure.num_nodes)

        def apply_s(term: Tensor) -> Tensor:
            # propagate_type: (x: Tensor, norm: Tensor)
            out = self.propagate(pair, size=size, x=term, norm=operator.edge_values)
            if operator.diagonal is not None:
                out = out + operator.diagonal.unsqueeze(-1) * term
            return out

        def series(
            csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: OptTensor
        ) -> Tensor:
            return chebyshev_recurrence(apply_s, x, coefficients, group)

        return series

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
            f"normalization={self.normalization}"
        )


class _Graph(NamedTuple):
    """A graph in one call of a layer."""

    structure: GraphStructure
    weight: Tensor  # [E], in the type of the computation
    may_look: bool  # whether values may be looked at, at the price of waiting for the device


def single_node_set(x: Tensor | tuple[Tensor, Tensor], check: bool = True) -> Tensor:
    """The signal itself, also where PyG hands over a pair, as `to_hetero` does.

    Args:
        x: the signal, or the pair.
        check: whether it has to be fit for diffusion as it is.

    Raises:
        ValueError: if the pair is a bipartite graph's, on which heat cannot flow back.
    """
    if isinstance(x, tuple):
        if x[0] is not x[1]:
            raise ValueError(
                "Expected 'x' to belong to one set of nodes, since diffusion needs an edge's both "
                "directions (got a pair of different tensors, as for a bipartite graph)."
            )
        x = x[0]
    if check:
        check_signal(x)
    return x
