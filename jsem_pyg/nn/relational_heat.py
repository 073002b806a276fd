"""The heat of every relation: exp(-t_r L_r) X Theta_r, one relation after the other."""

import itertools
from typing import Any

import torch
from torch import Tensor

from .._precision import without_autocast
from ..diffusion.heat_coefficients import coefficients_at, heat_degree
from ..diffusion.options import HeatOptions
from ..diffusion.times import check_reach
from ..graph.memory import Prepared
from ..graph.relations import Pairs
from ..graph.structure import GraphStructure
from ..operators.laplacian import laplacian_entries


class Relation:
    """A relation as a graph of the nodes that have an edge in it, with both directions.

    Args:
        number: which relation it is.
        source: [P] one end of every undirected edge.
        target: [P] the other end.
        weight: [P] positive weights; None: ones.
        groups: the nodes of each type, a slice of all nodes.
        options: how edges become an operator.
        dtype: of the operator.

    Attributes:
        parts: rows of this graph, and their nodes: of one type, distinct, ascending; a slice if no
            node is left out.
        num_rows: B.
        rate: the Laplacian is the rate times I - P.
        matrix: S, symmetric, with P = scale^-1 S scale.
        scale, inverse: [B, 1] that scale and its inverse.
    """

    def __init__(
        self,
        number: int,
        source: Tensor,
        target: Tensor,
        weight: Tensor | None,
        groups: tuple[slice, ...],
        options: HeatOptions,
        dtype: torch.dtype,
    ) -> None:
        self.number = number
        node, ends = torch.stack([source, target]).unique(return_inverse=True)
        self.num_rows = len(node)
        bounds = torch.tensor([0, *(group.stop for group in groups)], device=node.device)
        self.parts: list[tuple[slice, slice | Tensor]] = []
        for low, high in itertools.pairwise(torch.searchsorted(node, bounds).tolist()):
            if low < high:
                nodes = node[low:high]
                run = slice(int(nodes[0]), int(nodes[-1]) + 1)
                is_run = run.stop - run.start == high - low
                self.parts.append((slice(low, high), run if is_run else nodes))
        structure = GraphStructure(torch.cat([ends, ends.flip(0)], 1), self.num_rows)
        weight = None if weight is None else weight.repeat(2)
        entries = laplacian_entries(
            structure, weight, options.normalization, self_loop=options.self_loop
        )
        entries = entries.to(dtype)
        self.rate = entries.scaling.rate
        self.matrix = entries.operator(structure, options.backend).matrix
        scale = entries.scaling.row_scale  # S is symmetric, and P = scale^-1 S scale
        self.scale = node.new_ones(1, 1, dtype=dtype) if scale is None else scale.unsqueeze(1)
        self.inverse = 1 / self.scale

    def read(self, x: Tensor) -> Tensor:
        """Take the rows [B, D] of this graph from all nodes [N, D]."""
        return torch.cat([x[nodes] for _, nodes in self.parts])

    def map(self, x: Tensor, theta: Tensor) -> Tensor:
        """Take the rows and multiply them by a matrix: [B, D]."""
        out = x.new_empty(self.num_rows, theta.size(1))
        for rows, nodes in self.parts:
            torch.mm(x[nodes], theta, out=out[rows])
        return out

    def add(self, values: Tensor, out: Tensor) -> None:
        """Add rows [B, D] to those of all nodes [N, D]."""
        for rows, nodes in self.parts:
            if isinstance(nodes, slice):
                out[nodes] += values[rows]
            else:
                out.index_add_(0, nodes, values[rows])

    def change(self, t: float, options: HeatOptions, dtype: torch.dtype) -> Tensor:
        """Compute the coefficients [K + 1, 1, 1] of exp(-t L) - I."""
        reach = t * self.rate
        check_reach(reach, self.rate)
        degree = options.degree
        if degree is None:
            degree = max(heat_degree(reach, options.tol), 1)
        time = torch.tensor([[reach]], dtype=torch.float64)
        change = coefficients_at(time, degree, reach)
        change[0] -= 1
        return change.to(dtype)


class RelationalGraph(Prepared):
    """The relations of a graph that have edges.

    Args:
        pairs: the undirected edges of all relations.
        weight: [P] their weights; None: ones. Edges of weight zero are left out.
        groups: the nodes of each type, a slice of all nodes.
        belongs: [T, R] bool, the relations that each type takes part in.
        options: how edges become an operator, and how precise a series is.
        dtype: of the operators.
    """

    def __init__(
        self,
        pairs: Pairs,
        weight: Tensor | None,
        groups: tuple[slice, ...],
        belongs: Tensor,
        options: HeatOptions,
        dtype: torch.dtype,
    ) -> None:
        self.groups, self.options = groups, options
        self.device = pairs.source.device
        self.belongs = belongs.to(self.device)
        relation, source, target = pairs.relation, pairs.source, pairs.target
        if weight is not None:
            kept = weight > 0
            relation, source, target = relation[kept], source[kept], target[kept]
            weight = weight[kept]
        bounds = relation.bincount(minlength=belongs.size(1)).cumsum(0).tolist()
        self.relations = []
        for r, (low, high) in enumerate(itertools.pairwise([0, *bounds])):
            if low < high:
                edges = slice(low, high)
                part = None if weight is None else weight[edges]
                ends = source[edges], target[edges]
                self.relations.append(Relation(r, *ends, part, groups, options, dtype))


class RelationalHeat(torch.autograd.Function):
    r"""Add sum_r (exp(-t_r L_r) - I) X Theta_r to `out`, keeping only X, Theta and t.

    With the gradient G of the result, Q_r = (exp(-t_r L_r) - I)^T G is the gradient of X Theta_r.
    For the time, d exp(-t_r L_r) / d t_r = -exp(-t_r L_r) L_r gives -<L_r^T (Q_r + G), X Theta_r>.
    """

    @staticmethod
    @without_autocast
    def forward(
        ctx: Any, out: Tensor, x: Tensor, theta: Tensor, t: Tensor, graph: RelationalGraph
    ) -> Tensor:
        """Add the change that each relation makes to `out` [N, D]."""
        ctx.mark_dirty(out)
        ctx.save_for_backward(x, theta, t)
        changes = [
            each.change(float(t[each.number]), graph.options, x.dtype) for each in graph.relations
        ]
        ctx.how = graph, changes
        for relation, change in zip(graph.relations, changes, strict=True):
            mapped = relation.map(x, theta[relation.number])
            heat = relation.matrix.series(mapped.mul_(relation.scale), change).squeeze(0)
            relation.add(heat.mul_(relation.inverse), out)
        return out

    @staticmethod
    @without_autocast
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Differentiate once."""
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "Expected no second derivative of RelationalChebConv (got create_graph=True)."
            )
        x, theta, t = ctx.saved_tensors
        graph, changes = ctx.how
        grad_x = torch.zeros_like(x) if ctx.needs_input_grad[1] else None
        grad_theta, grad_t = torch.zeros_like(theta), torch.zeros_like(t)
        for relation, change in zip(graph.relations, changes, strict=True):
            r = relation.number
            # The transpose of scale^-1 S scale is scale S scale^-1.
            given = relation.read(grad).mul_(relation.inverse)
            back = relation.matrix.series(given, change).squeeze(0).mul_(relation.scale)
            if grad_x is not None:
                relation.add(back @ theta[r].T, grad_x)
            for rows, nodes in relation.parts:
                grad_theta[r].addmm_(x[nodes].T, back[rows])
            if ctx.needs_input_grad[3]:
                given += back * relation.inverse
                slope = relation.matrix.apply(given).sub_(given).mul_(relation.scale)
                for rows, nodes in relation.parts:
                    grad_t[r] += relation.rate * (theta[r] * (x[nodes].T @ slope[rows])).sum()
        return grad, grad_x, grad_theta, grad_t, None
