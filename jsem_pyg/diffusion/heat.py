"""Heat on a graph, from what a user hands over to the diffused signal: the way of every caller.

1. :func:`take_graph` reads and checks the graph, or remembers it;
2. :func:`heat_operator` makes the operator of its weights and conductances;
3. :func:`heat_flow` lets a signal evolve by it.

In compiled code, which can do none of this by itself, all three only gather what the registered op
takes, see :mod:`.registered_op`.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._precision import compute_dtype
from ..graph.adjacency import Adjacency
from ..graph.prepare import GraphReader, PreparedGraph, read_edges
from ..operators import HeatOperator, laplacian_operator
from .evolve import diffusion_times, evolve
from .options import Accuracy, HeatOptions


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
    options: HeatOptions,
    conductance: Tensor | None = None,
) -> HeatOperator | UnmadeOperator:
    """The operator of the weights of a graph times the conductance [E], for signals like x."""
    if isinstance(graph, EdgeList):
        return UnmadeOperator(graph, conductance, options)
    weight = edge_weights(graph, x)
    conductance = conductance if conductance is None else conductance.to(weight.dtype)
    return laplacian_operator(
        graph.structure,
        weight,
        options.normalization,
        conductance,
        options.backend,
        options.self_loop,
    )


def heat_flow(
    x: Tensor, operator: HeatOperator | UnmadeOperator, t: float | Tensor, accuracy: Accuracy
) -> Tensor:
    """Diffuse [..., N, D] for times t: a number, [S] or [S, 1 or D] -> [..., S, N, D]."""
    times = diffusion_times(t, x)
    if isinstance(operator, HeatOperator):
        return evolve(x, operator, times, accuracy)
    from .registered_op import registered_heat

    return registered_heat(x, operator, times)


def edge_weights(graph: PreparedGraph, x: Tensor) -> Tensor:
    """The weights [E] in the type of the computation, or ones where there are none."""
    dtype = compute_dtype(x)
    if graph.weight is None:
        return torch.ones(graph.structure.num_edges, dtype=dtype, device=x.device)
    return graph.weight.to(dtype)
