"""Heat on a graph, from what a user hands over to the diffused signal: the way of every caller.

1. :func:`take_graph` reads and checks the graph, or remembers it;
2. :func:`heat_operator` makes the operator of its weights and conductances, for certain times;
3. :func:`heat_flow` lets a signal evolve by it.

In compiled code, which can do none of this by itself, all three only gather what the registered op
takes, see :mod:`.registered_op`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..graph.adjacency import Adjacency
from ..graph.prepare import GraphReader, PreparedGraph, read_edges
from ..operators import HeatOperator, laplacian_operator
from .evolve import diffusion_times, evolve
from .options import Accuracy, HeatOptions
from .precision import precise_operator


class EdgeList(NamedTuple):
    """A graph in one call of compiled code: neither prepared nor checked."""

    adjacency: Adjacency
    weight: Tensor | None  # [E], None: ones
    attr: Tensor | None  # [E, F]


class UnmadeOperator(NamedTuple):
    """What the registered op makes an operator of."""

    graph: EdgeList
    conductance: Tensor | None  # [E]
    options: HeatOptions


def take_graph(
    reader: GraphReader,
    x: Tensor,
    edge_index: Any,
    edge_weight: Tensor | None,
    edge_attr: Tensor | None = None,
    *,
    prepare: bool = False,
) -> PreparedGraph | EdgeList:
    """Read a graph: prepared and checked, or in compiled code, unless `prepare`, as it is."""
    if torch.compiler.is_compiling() and not prepare:
        adjacency, weight = read_edges(edge_index, edge_weight, x.size(-2))
        return EdgeList(adjacency, weight, edge_attr)
    return reader.read(edge_index, x, edge_weight, edge_attr)


def graph_ends(graph: PreparedGraph | EdgeList) -> tuple[Tensor, Tensor]:
    """The target [E] and the source [E] of every edge."""
    return graph.adjacency.ends if isinstance(graph, EdgeList) else graph.structure.edges


def heat_operator(
    graph: PreparedGraph | EdgeList,
    x: Tensor,
    t: float | Tensor,
    options: HeatOptions,
    conductance: Tensor | None = None,
    make: Callable[..., HeatOperator] = laplacian_operator,
) -> HeatOperator | UnmadeOperator:
    """The operator of the weights of a graph times the conductance [E], for signals like x.

    Args:
        graph: what :func:`take_graph` returned.
        x: the signal.
        t: the times, or longer ones than it will flow for; they say how precise it has to be.
        options: how it is computed.
        conductance: [E] or None.
        make: what makes it.
    """
    if isinstance(graph, EdgeList):
        return UnmadeOperator(graph, conductance, options)

    def make_in(dtype: torch.dtype) -> HeatOperator:
        weight = _edge_weights(graph, x, dtype)
        return make(
            graph.structure,
            weight,
            options.normalization,
            None if conductance is None else conductance.to(weight.dtype),
            options.backend,
            options.self_loop,
            dtype,
        )

    return precise_operator(make_in, x, diffusion_times(t, x), options)


def heat_flow(
    x: Tensor, operator: HeatOperator | UnmadeOperator, t: float | Tensor, accuracy: Accuracy
) -> Tensor:
    """Diffuse [..., N, D] for times t: a number, [S] or [S, 1 or D] -> [..., S, N, D]."""
    times = diffusion_times(t, x)
    if isinstance(operator, HeatOperator):
        return evolve(x, operator, times, accuracy)
    from .registered_op import registered_heat

    return registered_heat(x, operator, times)


def _edge_weights(graph: PreparedGraph, x: Tensor, dtype: torch.dtype) -> Tensor:
    """The weights [E] in `dtype` or their own type, if that is wider; ones where there are none."""
    if graph.weight is None:
        return torch.ones(graph.structure.num_edges, dtype=dtype, device=x.device)
    return graph.weight.to(torch.promote_types(graph.weight.dtype, dtype))
