"""Conductances of both ends of an edge, and modules of the user's own."""

import inspect

import torch
from torch import Tensor
from torch.nn import Module

from .._checks import FLOATS, check_dense, check_finite, check_float, numbers_of
from ..graph.adjacency import Adjacency
from ..graph.rows import GraphRows
from .conductance import FLOOR, MLPConductance, SigmoidConductance
from .hooks import has_hooks

Ends = tuple[Tensor, Tensor]  # the target [E] and the source [E] of every edge, as rows of nodes
Graph = GraphRows | Adjacency  # compiled code does not prepare it


class NodeConductance(Module):
    """Abstract: a conductance of both ends in two steps, so that layers gather little of a node.

    It is the same from either end, so that layers may compute one direction of every edge.
    """

    def project(self, x: Tensor) -> Tensor:
        """The features of nodes that the conductance depends on: [N, D] -> [N, K]."""
        raise NotImplementedError

    def along(self, edge_attr: Tensor | None, z: Tensor, ends: Ends) -> Tensor:
        """The conductance of edges, from projected features of all nodes: [N, K] -> [E]."""
        raise NotImplementedError

    def forward(self, edge_attr: Tensor | None, x_i: Tensor, x_j: Tensor) -> Tensor:
        """Return the conductance [E] of edges, from the features [E, D] of both ends.

        Raises:
            TypeError: If features are of a wrong type.
            ValueError: If shapes or types of both ends differ, or do not fit.
        """
        for name, x in (("x_i", x_i), ("x_j", x_j)):
            check_float(name, x)
            check_dense(name, x)
        if x_i.shape != x_j.shape or x_i.dtype != x_j.dtype:
            raise ValueError(
                "Expected 'x_i' and 'x_j' to have the same shape [E, D] and type, as features of "
                f"both ends (got {list(x_i.shape)}, {x_i.dtype} and {list(x_j.shape)}, "
                f"{x_j.dtype})."
            )
        target = torch.arange(len(x_i), device=x_i.device)
        z = self.project(torch.cat([x_i, x_j]))
        return self.along(edge_attr, z, (target, target + len(x_i)))


class ModuleConductance(Module):
    """A module of the user's: its output is checked, and kept above the floor.

    Args:
        module: maps (edge_attr) or (edge_attr, x_i, x_j) to [E] or [E, 1] in [0, 1]; i is the
            target of an edge, j its source.
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.module = module
        self.sees_nodes = _num_arguments(module) == 3

    def reset_parameters(self) -> None:
        """Reset every part of the module that has `reset_parameters`."""
        for part in self.module.modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()

    def forward(
        self,
        edge_attr: Tensor | None,
        x_i: Tensor | None = None,
        x_j: Tensor | None = None,
        *,
        x: Tensor | None = None,
        graph: Graph | None = None,
    ) -> Tensor:
        """Call the module for both ends of every edge, or for all edges of a graph: -> [E].

        Args:
            edge_attr: [E, F] or None.
            x_i: [E, D] features of the targets.
            x_j: [E, D] features of the sources.
            x: [N, D] features of the nodes of the graph, in place of both.
            graph: the graph.
        """
        if not self.sees_nodes:
            return self._check(self.module(edge_attr), edge_attr)
        if x is None or graph is None:
            return self._check(self.module(edge_attr, x_i, x_j), x_i)
        if x.dim() > 2:
            raise ValueError(
                "Expected 'x' to have shape [N, D], since the conductance looks at the nodes and "
                f"would differ from batch to batch (got {list(x.shape)})."
            )
        # A class of the user's own may override `forward`, which these steps would leave out, as
        # they would hooks.
        steps = self.module if isinstance(self.module, NodeConductance) else None
        if steps is not None and (
            type(steps).forward is not NodeConductance.forward or has_hooks(steps)
        ):
            steps = None
        of_edge = None
        z = x if steps is None else steps.project(x)  # once a node, and fewer channels to gather
        if isinstance(graph, Adjacency):
            ends = graph.ends()
        else:
            z, ends = graph.spread(z), graph.edges
            # Features of edges may differ where an edge is repeated.
            if steps is not None and edge_attr is None:  # half of the work and of the memory
                target, source, of_edge = graph.one_way
                ends = target, source
        if steps is None:
            out = self.module(edge_attr, *(z[end] for end in ends))
        else:
            out = steps.along(edge_attr, z, ends)
        out = self._check(out, ends[0])
        return out if of_edge is None else out.index_select(0, of_edge)

    def _check(self, out: Tensor, edges: Tensor | None) -> Tensor:
        """The output of the module, one number for each of the edges, above the floor."""
        is_tensor = isinstance(out, Tensor)
        if not is_tensor or out.dtype not in FLOATS or out.layout != torch.strided:
            got = f"{out.dtype}, {out.layout}" if is_tensor else type(out).__name__
            raise TypeError(
                "Expected 'conductance' to return a dense floating-point tensor, of 16 bits at "
                f"least (got {got})."
            )
        out = out.squeeze(-1) if out.dim() == 2 else out
        if out.dim() != 1 or (edges is not None and out.size(0) != edges.size(0)):
            count = "E" if edges is None else edges.size(0)
            raise ValueError(
                f"Expected 'conductance' to return shape [E] or [E, 1] (got {list(out.shape)}, "
                f"with E = {count})."
            )
        # A compiler has no values to look at, so compiled code has to do without.
        if out.device.type == "cpu" and out.numel() and not torch.compiler.is_compiling():
            check_finite("conductance", out)
            low, high = float(numbers_of(out).min()), float(numbers_of(out).max())
            if low < 0 or high > 1 + 1e-6:
                raise ValueError(
                    f"Expected 'conductance' to return values in [0, 1] (got {low:.4g} to "
                    f"{high:.4g}). To fix this, end it with torch.nn.Sigmoid()."
                )
        return out.clamp(min=FLOOR)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.module})"


Conductance = SigmoidConductance | MLPConductance | ModuleConductance


def make_conductance(conductance: str | Module, edge_dim: int, rate: float) -> Conductance | None:
    """The module behind the argument of the layers; None: every edge conducts fully."""
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
    """How many positional arguments a module's forward takes: 1 or 3."""
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
