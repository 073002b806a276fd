"""Conductances that look at both ends of an edge, and modules of the user's own."""

import inspect

import torch
from torch import Tensor
from torch.nn import Module

from .._checks import (
    FLOATS,
    check_dense,
    check_edge_index_shape,
    check_finite,
    check_float,
    numbers_of,
)
from ..graph.adjacency import Adjacency
from ..graph.rows import GraphRows
from .conductance import FLOOR, MLPConductance, SigmoidConductance

Graph = GraphRows | Adjacency  # compiled code does not prepare it


class NodeConductance(Module):
    """Abstract: a conductance of both ends of an edge, the same from either end.

    So a layer asks for one direction of every edge, and uses the answer for both. It gives all
    nodes and the edges between them, so that what depends on a node alone is computed once.
    """

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute the conductance [E] of edges [2, E] between nodes of features x [N, D]."""
        raise NotImplementedError

    def _check(self, x: Tensor, edge_index: Tensor) -> None:
        check_float("x", x)
        check_dense("x", x)
        if x.dim() != 2:
            raise ValueError(f"Expected 'x' to have shape [N, D] (got {list(x.shape)}).")
        check_edge_index_shape(edge_index)


class ModuleConductance(Module):
    """Calls a module, checks what it returns, and keeps it above the floor.

    Args:
        module: a :class:`NodeConductance`, or a module of the user's that maps (edge_attr) or
            (edge_attr, x_i, x_j) to [E] or [E, 1] in [0, 1]; i is the target of an edge, j its
            source.
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module
        self.sees_nodes = isinstance(module, NodeConductance) or _num_arguments(module) == 3

    def reset_parameters(self) -> None:
        """Reset every part of the module that has `reset_parameters`."""
        for part in self.module.modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()

    def forward(
        self, edge_attr: Tensor | None, x: Tensor | None = None, graph: Graph | None = None
    ) -> Tensor:
        """Compute the conductance [E] of all edges of a graph.

        Args:
            edge_attr: [E, F] or None.
            x: [N, D] features of the nodes, if the module sees them.
            graph: the graph, likewise.
        """
        if not self.sees_nodes or x is None or graph is None:
            return _checked(self.module(edge_attr), None if edge_attr is None else len(edge_attr))
        if x.dim() > 2:
            raise ValueError(
                "Expected 'x' to have shape [N, D], since the conductance looks at the nodes and "
                f"would differ from batch to batch (got {list(x.shape)})."
            )
        of_edge = None
        if isinstance(graph, Adjacency):
            target, source = graph.ends()
        else:
            x = graph.spread(x)
            if isinstance(self.module, NodeConductance):
                target, source, of_edge = graph.one_way
            else:
                target, source = graph.edges
        out = self.between(edge_attr, x, torch.stack([source, target]))
        return out if of_edge is None else out.index_select(0, of_edge)

    def between(self, edge_attr: Tensor | None, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute the conductance [E] of the edges [2, E] between nodes of features x [N, D]."""
        if isinstance(self.module, NodeConductance):
            out = self.module(x, edge_index)
        else:
            source, target = edge_index
            out = self.module(edge_attr, x[target], x[source])
        return _checked(out, edge_index.size(1))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.module})"


Conductance = SigmoidConductance | MLPConductance | ModuleConductance


def make_conductance(conductance: str | Module, edge_dim: int, rate: float) -> Conductance | None:
    """Make the module that the argument of a layer names; None if every edge conducts fully."""
    if isinstance(conductance, Module):
        return ModuleConductance(conductance)
    if not isinstance(conductance, str) or conductance not in ("sigmoid", "mlp"):
        raise ValueError(
            f"Expected 'conductance' to be 'sigmoid', 'mlp' or a torch.nn.Module "
            f"(got {conductance!r})."
        )
    form = SigmoidConductance if conductance == "sigmoid" else MLPConductance
    return form(edge_dim, rate=rate) if edge_dim else None


def _num_arguments(module: Module) -> int:
    """Count the positional arguments that a module's forward needs: 1 or 3."""
    parameters = inspect.signature(module.forward).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]
    if len(required) not in (1, 3):
        raise ValueError(
            "Expected 'conductance' to be a module that takes (edge_attr) or "
            f"(edge_attr, x_i, x_j) (got {len(required)} required arguments: "
            f"{', '.join(p.name for p in required)})."
        )
    return len(required)


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
                f"{high:.4g}). To fix this, end it with torch.nn.Sigmoid()."
            )
    return out.clamp(min=FLOOR)
