r"""The sum of a heat equation of each relation, with a derivative of its own.

A relation's operator is fixed and symmetric, so its series is its own adjoint: the gradient of the
features is the series of the gradient. The derivative in time is another sum of the same terms,

.. math::
    f(\mathbf{S}) = e^{-t r (\mathbf{I} - \mathbf{S})}, \qquad
    \frac{\partial f}{\partial t} = r (\mathbf{S} - \mathbf{I}) f(\mathbf{S}), \qquad
    \mathbf{S} \sum_k c_k T_k = \sum_k c_k \, \tfrac12 (T_{k+1} + T_{k-1})

so that a pass back takes as many products as a pass forward, and nothing is kept between them.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..diffusion.options import HeatOptions
from ..diffusion.times import coefficients_at, read_times, series_degree
from ..graph.relations import UndirectedEdges, say_of_self_loops
from ..graph.structure import GraphStructure
from ..kernels.torch_func import full_precision
from ..operators import HeatOperator
from ..operators.laplacian import laplacian_operator


class _Relation(NamedTuple):
    number: int
    node: Tensor  # [n] the nodes that have an edge in it
    scale: Tensor | float  # [n, 1] the diagonal of P
    operator: HeatOperator


class RelationalGraph:
    """The operator of each of R relations, of undirected edges and self-loops of weights [P]."""

    def __init__(
        self, pairs: UndirectedEdges, weight: Tensor, num_relations: int, options: HeatOptions,
        dtype: torch.dtype,
    ) -> None:  # fmt: skip
        if weight.requires_grad:
            raise ValueError(
                "Expected edge weights that are not learned (got some with requires_grad=True). To "
                "fix this, detach them, or take AnisotropicDiffusion for edges that learn to "
                "conduct."
            )
        self.options, self.device, self.relations = options, weight.device, list[_Relation]()
        is_loop = pairs.source == pairs.target
        if bool(is_loop.any()):
            say_of_self_loops("count as in RGCNConv: a node is one of its own neighbours.")
        for number in range(num_relations):
            here = (pairs.relation == number) & (weight > 0)
            edge, loop = here & ~is_loop, here & is_loop
            ends = torch.stack([pairs.source[edge], pairs.target[edge]])
            node, row = ends.unique(return_inverse=True)
            if not len(node):
                continue
            self_loop: float | Tensor = 0.0
            if bool(loop.any()):
                size = int(torch.cat([node, pairs.source[loop]]).max()) + 1
                own = weight.new_zeros(size).index_add(0, pairs.source[loop], weight[loop])
                self_loop = own[node]
            operator = laplacian_operator(
                GraphStructure(torch.cat([row, row.flip(0)], 1), len(node)),
                weight[edge].repeat(2),
                options.normalization,
                backend=options.backend,
                self_loop=self_loop,
                dtype=dtype,
            )
            # In the norm of the degrees, by which errors are measured here, P magnifies none.
            operator = replace(operator, condition=1.0)
            scale = 1.0 if operator.row_scale is None else operator.row_scale[:, None]
            self.relations.append(_Relation(number, node, scale, operator))

    def series(self, t: Tensor, from_neighbors: bool) -> list[Tensor]:
        """Compute coefficients [K + 1, 2, 1] of f - 1 and of its derivative, for each relation."""
        times, found = read_times(t, 1).value.flatten().tolist(), []
        for number, _, _, operator in self.relations:
            dtype, reach = operator.dtype or torch.float32, times[number] * operator.rate
            degree = series_degree(times[number], operator, dtype, self.options)
            # Every product with S needs a term more than it gives.
            series = coefficients_at(t.new_tensor([reach]), degree + 3, reach)
            if from_neighbors:
                series, degree = _times_s(series), degree + 1
            series = torch.cat([series, operator.rate * (_times_s(series) - series)], 1)
            series[0, 0] -= 1
            found.append(series[: degree + 1, :, None].to(self.device, dtype))
        return found


class RelationalHeat(torch.autograd.Function):
    """Add (f(L_r) - I) X Theta_r of each relation to `start` [N, D], the sum of X Theta_r.

    The arguments are start, x [N, C], theta [R, C, D], times [R] on the CPU in float64, the graph,
    and whether f is S exp(-t L), by which heat starts at the neighbours, or exp(-t L).
    """

    @staticmethod
    def forward(
        ctx: Any, start: Tensor, x: Tensor, theta: Tensor, t: Tensor, graph: RelationalGraph,
        from_neighbors: bool,
    ) -> Tensor:  # fmt: skip
        """Sum the series of all relations."""
        ctx.graph, ctx.series = graph, graph.series(t, from_neighbors)
        ctx.save_for_backward(x, theta)
        out = start.clone()
        with full_precision(x.device):
            for (r, node, scale, s), series in zip(graph.relations, ctx.series, strict=True):
                rows = x.index_select(0, node).to(series) * scale
                heat = s.matrix.series(rows @ theta[r].to(series), series[:, :1])[0]
                out.index_add_(0, node, (heat / scale).to(out))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Sum the series of the gradient, and multiply it by what the maps were given."""
        x, theta = ctx.saved_tensors
        needs_x, needs_theta, needs_t = ctx.needs_input_grad[1:4]
        of_x, of_theta = torch.zeros_like(x) if needs_x else None, torch.zeros_like(theta)
        of_t = torch.zeros(len(theta), dtype=torch.float64, device=x.device)
        with full_precision(x.device):
            for (r, node, scale, s), series in zip(ctx.graph.relations, ctx.series, strict=True):
                rows = grad.index_select(0, node).to(series) / scale
                found = s.matrix.series(rows, series if needs_t else series[:, :1])
                rows, matrix = x.index_select(0, node).to(series) * scale, theta[r].to(series)
                if needs_theta:
                    of_theta[r] = rows.T @ found[0]
                if needs_t:  # <f'(S) G, X Theta>
                    of_t[r] = ((rows.T @ found[1]) * matrix).sum()
                if of_x is not None:
                    of_x.index_add_(0, node, (found[0] @ matrix.T * scale).to(of_x))
        return grad, of_x, of_theta, of_t.cpu(), None, None


def _times_s(series: Tensor) -> Tensor:
    """Return the coefficients of S times a series [K + 1, 1]; the last one is not right."""
    before = torch.cat([series[1:2], 2 * series[:1], series[1:-1]])  # c_0 counts on both sides
    out = (before + F.pad(series[1:], (0, 0, 0, 1))) / 2
    out[0] = series[1] / 2
    return out
