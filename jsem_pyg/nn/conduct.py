"""How well the edges of a graph conduct, by edge features, by both ends, by any module."""

import inspect
from typing import cast

import torch
from torch import Tensor
from torch.nn import Module

from .._checks import (
    FLOATS,
    check_edge_index_shape,
    check_finite,
    check_float,
    numbers_of,
)
from .._precision import compute_dtype, full_precision, normalize_rows
from ..graph.adjacency import Adjacency
from ..graph.rows import GraphRows
from ..kernels.edge_dot import edge_dot
from .conductance import FLOOR, MLPConductance, SigmoidConductance

Graph = GraphRows | Adjacency  # compiled code does not prepare it
_LEAST_AGREEMENT = 0.05  # no edge closes wholly


class AgreementConductance(Module):
    r"""The conductance of an edge is the agreement of the class probabilities of its ends.

    .. math::
        h_{ij} = 0.05 + 0.95 \sum_c \hat p_{ic} \, \hat p_{jc}, \qquad
        \hat p_{ic} = p_{ic}^2 / \sum_{c'} p_{ic'}^2

    The sum is the chance that the classes of both ends are the same, if each is drawn from its
    sharpened probabilities. The module is called with all nodes and the edges between them, so that
    no pair of rows for every edge is in memory.

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
        >>> AgreementConductance()(p, torch.tensor([[0, 1], [1, 2]]))
        tensor([0.9771, 0.0729])
    """

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute the conductance [E] of edges [2, E] from probabilities [N, C] >= 0."""
        check_float("x", x)
        if x.dim() != 2:
            raise ValueError(f"Expected 'x' to have shape [N, C] (got {list(x.shape)}).")
        check_edge_index_shape(edge_index)
        sharp = normalize_rows(x.square())
        return _LEAST_AGREEMENT + (1 - _LEAST_AGREEMENT) * edge_dot(sharp, sharp, *edge_index)


def sees_nodes(conductance: Module | None) -> bool:
    """Return True if a conductance depends on the nodes: it takes (edge_attr, x_i, x_j)."""
    if conductance is None or isinstance(conductance, AgreementConductance):
        return conductance is not None
    parameters = inspect.signature(conductance.forward).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]
    if len(required) not in (1, 3):
        raise ValueError(
            "Expected 'conductance' to be a module that takes (edge_attr) or "
            f"(edge_attr, x_i, x_j) (got {len(required)} required arguments: "
            f"{', '.join(p.name for p in required)})."
        )
    return len(required) == 3


def conduct(
    graph: Graph, x: Tensor, edge_attr: Tensor | None, conductance: Module | None, by_ends: bool
) -> Tensor | None:
    """Compute the conductance [E] of the edges of a graph; None if all conduct alike.

    Args:
        graph: the graph, whose rows may be those of one process among others.
        x: [N, D] features of the nodes; [..., N, D] for a conductance that does not see them.
        edge_attr: [E, F], in the order of the columns of `edge_index`; or None.
        conductance: the module, or None.
        by_ends: whether it takes (edge_attr, x_i, x_j), see :func:`sees_nodes`.
    """
    if conductance is None:
        return None
    if edge_attr is None and not by_ends:
        return _unused(conductance, graph)
    is_autocast = torch.is_autocast_enabled(x.device.type)
    with full_precision(x.device):
        if isinstance(conductance, (SigmoidConductance, MLPConductance)):
            return cast(Tensor, conductance(edge_attr))
        if not by_ends:
            return _checked(conductance(edge_attr), None if edge_attr is None else len(edge_attr))
        if x.dim() > 2:
            raise ValueError(
                "Expected 'x' to have shape [N, D], since the conductance looks at the nodes and "
                f"would differ from batch to batch (got {list(x.shape)})."
            )
        if is_autocast:  # x may come from another layer in a lower type
            x = x.to(compute_dtype(x))
        if isinstance(graph, Adjacency):
            target, source = graph.ends()
        else:
            x, (target, source) = graph.spread(x), graph.edges
        return conduct_between(conductance, edge_attr, x, torch.stack([source, target]))


def conduct_between(
    conductance: Module, edge_attr: Tensor | None, x: Tensor, edge_index: Tensor
) -> Tensor:
    """Compute the conductance [E] of edges [2, E] by a module that sees nodes, and check it."""
    if isinstance(conductance, AgreementConductance):
        out = conductance(x, edge_index)
    else:
        source, target = edge_index
        out = conductance(edge_attr, x[target], x[source])
    return _checked(out, edge_index.size(1))


def _unused(conductance: Module, graph: Graph) -> Tensor | None:
    """Return ones [E] that give an unused conductance zero gradients, or None.

    `DistributedDataParallel` takes a parameter without a gradient for an error.
    """
    parameters = [each for each in conductance.parameters() if each.requires_grad]
    if not (conductance.training and parameters and torch.is_grad_enabled()):
        return None
    unused = 0 * torch.stack([each.sum() for each in parameters]).sum()
    num_edges = graph.row.numel() if isinstance(graph, Adjacency) else graph.num_edges
    return (1 + unused).expand(num_edges)


def _checked(out: Tensor, num_edges: int | None) -> Tensor:
    """Check what a module returned, one number for every edge, and keep it above the floor."""
    if not isinstance(out, Tensor) or out.dtype not in FLOATS or out.layout != torch.strided:
        got = f"{out.dtype}, {out.layout}" if isinstance(out, Tensor) else type(out).__name__
        raise TypeError(
            f"Expected 'conductance' to return a dense floating-point tensor (got {got})."
        )
    out = out.squeeze(-1) if out.dim() == 2 else out
    if out.dim() != 1 or (num_edges is not None and out.size(0) != num_edges):
        raise ValueError(
            f"Expected 'conductance' to return shape [E] or [E, 1] (got {list(out.shape)}, with "
            f"E = {'E' if num_edges is None else num_edges})."
        )
    # A compiler has no values to look at, and a GPU would have to wait.
    if out.device.type == "cpu" and out.numel() and not torch.compiler.is_compiling():
        check_finite("conductance", out)
        low, high = float(numbers_of(out).min()), float(numbers_of(out).max())
        if low < 0 or high > 1 + 1e-6:
            raise ValueError(
                f"Expected 'conductance' to return values in [0, 1] (got {low:.4g} to "
                f"{high:.4g}). To fix this, end it with torch.nn.Sigmoid(); the scale belongs into "
                "the time 't', or into 'edge_weight'."
            )
    return out.clamp(min=FLOOR)
