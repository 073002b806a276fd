"""The heat of every relation: exp(-t_r L_r) X Theta_r, one relation after the other."""

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

    If at least half of the nodes of a type have one, those between the first and the last all
    belong to it: then they are read as a slice.

    Args:
        number: which relation it is.
        ends: [2, P] both ends of every undirected edge.
        weight: [P] positive weights.
        groups: the nodes of each type, a slice of all nodes.
        options: how edges become an operator.
        dtype: of the operator.

    Attributes:
        parts: rows of this graph, and their nodes: of one type, distinct, ascending.
        num_rows: B.
        rate: the Laplacian is rate (I - scale^-1 S scale).
        matrix: S, symmetric.
        scale, inverse: [B, 1] that scale and its inverse, zero for nodes without edges.
    """

    def __init__(
        self,
        number: int,
        ends: Tensor,
        weight: Tensor,
        groups: tuple[slice, ...],
        options: HeatOptions,
        dtype: torch.dtype,
    ) -> None:
        self.number, self.num_rows = number, 0
        self.parts: list[tuple[slice, slice | Tensor]] = []
        found = []
        for group in groups:
            nodes = ends[(ends >= group.start) & (ends < group.stop)].unique()
            if len(nodes) == 0:
                continue
            run = slice(int(nodes[0]), int(nodes[-1]) + 1)
            is_run = run.stop - run.start <= 2 * len(nodes)
            if is_run:
                nodes = torch.arange(run.start, run.stop, device=nodes.device)
            rows = slice(self.num_rows, self.num_rows + len(nodes))
            self.parts.append((rows, run if is_run else nodes))
            found.append(nodes)
            self.num_rows = rows.stop
        ends = torch.searchsorted(torch.cat(found), ends)
        structure = GraphStructure(torch.cat([ends, ends.flip(0)], 1), self.num_rows)
        entries = laplacian_entries(
            structure, weight.repeat(2), options.normalization, self_loop=options.self_loop
        ).to(dtype)
        scaling, self.rate = entries.scaling, entries.scaling.rate
        self.matrix = entries.operator(structure, options.backend).matrix
        scale = scaling.row_scale
        if scale is None:
            scale = torch.ones(self.num_rows, dtype=dtype, device=weight.device)
        self.scale = scale.unsqueeze(1)
        self.inverse = 1 / self.scale
        if scaling.isolated is not None:  # what has no edges does not change
            self.inverse = self.inverse.masked_fill(scaling.isolated.unsqueeze(1), 0)

    def read(self, x: Tensor) -> Tensor:
        """Take the rows of this graph from all nodes [N, D], times the inverse scale: [B, D]."""
        out = x.new_empty(self.num_rows, x.size(1))
        for rows, nodes in self.parts:
            torch.mul(x[nodes], self.inverse[rows], out=out[rows])
        return out

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

    def coefficients(self, t: float, options: HeatOptions, dtype: torch.dtype) -> Tensor:
        """Compute the series [K + 1, 2, 1] of exp(-t L) - I and of its derivative in t."""
        reach = t * self.rate
        check_reach(reach, self.rate)
        degree = options.degree
        if degree is None:
            degree = max(heat_degree(reach, options.tol), 1)
        value = coefficients_at(torch.tensor(reach, dtype=torch.float64), degree + 1, reach)
        # The derivative of exp(-t (1 - s)) is s - 1 times itself, and 2 s T_k = T_(k-1) + T_(k+1).
        before = torch.cat([value.new_zeros(1), 2 * value[:1], value[1:-2]])[: degree + 1]
        slope = self.rate * ((before + value[1:]) / 2 - value[:-1])
        value[0] -= 1
        return torch.stack([value[:-1], slope], 1).unsqueeze(-1).to(dtype)


class RelationalGraph(Prepared):
    """The relations of a graph that have edges of weight above zero.

    `pairs` are the edges of all relations, `weight` [P]; `belongs` [T, R] has True for the
    relations that each type takes part in; the other arguments are those of a `Relation`.
    """

    def __init__(
        self,
        pairs: Pairs,
        weight: Tensor,
        groups: tuple[slice, ...],
        belongs: Tensor,
        options: HeatOptions,
        dtype: torch.dtype,
    ) -> None:
        self.groups, self.options = groups, options
        self.device = pairs.source.device
        self.belongs = belongs.to(self.device)
        ends = torch.stack([pairs.source, pairs.target])
        number = pairs.relation.where(weight > 0, -1)
        self.relations = [
            Relation(r, ends[:, number == r], weight[number == r], groups, options, dtype)
            for r in number.unique().tolist()
            if r >= 0
        ]


class RelationalHeat(torch.autograd.Function):
    r"""Compute X_a A_a + sum_r (exp(-t_r L_r) - I) X Theta_r, with a matrix A_a of each node type.

    Only X, the matrices and t are kept. With the gradient G of the result,
    (exp(-t_r L_r) - I)^T G is the gradient of X Theta_r.
    """

    @staticmethod
    @without_autocast
    def forward(
        ctx: Any, x: Tensor, own: Tensor, theta: Tensor, t: Tensor, graph: RelationalGraph
    ) -> Tensor:
        """Compute [N, D] from x [N, C], own [T, C, D], theta [R, C, D] and t [R]."""
        ctx.save_for_backward(x, own, theta, t)
        times = t.tolist()
        series = [
            each.coefficients(times[each.number], graph.options, x.dtype)
            for each in graph.relations
        ]
        ctx.how = graph, series
        out = x.new_empty(len(x), theta.size(-1))
        for nodes, matrix in zip(graph.groups, own, strict=True):
            torch.mm(x[nodes], matrix, out=out[nodes])
        for relation, each in zip(graph.relations, series, strict=True):
            mapped = relation.map(x, theta[relation.number]).mul_(relation.scale)
            heat = relation.matrix.series(mapped, each[:, :1]).squeeze(0)
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
        x, own, theta, t = ctx.saved_tensors
        graph, series = ctx.how
        needs_x, _, _, needs_t, _ = ctx.needs_input_grad
        grad_x, grad_own = torch.empty_like(x), torch.empty_like(own)
        grad_theta, grad_t = torch.zeros_like(theta), torch.zeros_like(t)
        for a, nodes in enumerate(graph.groups):
            torch.mm(x[nodes].T, grad[nodes], out=grad_own[a])
            if needs_x:
                torch.mm(grad[nodes], own[a].T, out=grad_x[nodes])
        for relation, each in zip(graph.relations, series, strict=True):
            r = relation.number
            # The transpose of scale^-1 S scale is scale S scale^-1.
            found = relation.matrix.series(relation.read(grad), each[:, : 1 + needs_t])
            back = found[0].mul_(relation.scale)
            if needs_x:
                relation.add(back @ theta[r].T, grad_x)
            for rows, nodes in relation.parts:
                grad_theta[r].addmm_(x[nodes].T, back[rows])
            if needs_t:
                slope = found[1].mul_(relation.scale)
                for rows, nodes in relation.parts:
                    grad_t[r] += (theta[r] * (x[nodes].T @ slope[rows])).sum()
        return grad_x if needs_x else None, grad_own, grad_theta, grad_t, None
