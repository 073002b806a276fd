"""T y of a plan that is not stored, differentiable in all that the plan is made of."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..._precision import full_precision
from ..table import SINKHORN
from .result import bounded, bounded_potential
from .torch_tiles import product, row_tiles


def transport_average(
    u: Tensor, v: Tensor, f: Tensor, g: Tensor, y: Tensor, backend: str = "auto"
) -> Tensor:
    r"""What a plan sends to its rows: T y.

    .. math::
        T_{ij} = 2^{u_i \cdot v_j + f_i + g_j}

    Neither pass stores more of T than a tile; the backward pass computes it once more. Column
    averages are those of the transposed plan: ``transport_average(v, u, g, f, x)``.

    Args:
        u: [N, R] float32 or float64.
        v: [K, R].
        f: [N] row potentials in bits; minus infinity stands for no mass, and has gradient zero.
        g: [K] column potentials in bits.
        y: [K, C] a signal of the columns.
        backend: how to go forward; see :data:`..table.SINKHORN`. Backward goes in tiles of torch.

    Returns:
        [N, C]. Rows are held below a mass of 2^64.

    Raises:
        ValueError: if the shapes or types do not fit, or the backend cannot run here.

    Example:
        >>> u, v = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [1.0]])
        >>> u.requires_grad_()
        tensor([[1.],
                [2.]], requires_grad=True)
        >>> out = transport_average(u, v, torch.zeros(2), torch.zeros(2), v)
        >>> out.sum().backward()  # 2^u, whose derivative is 2^u ln 2
        >>> out.flatten().tolist(), u.grad.flatten()
        ([2.0, 4.0], tensor([1.3863, 2.7726]))
    """
    module = SINKHORN.find(backend, u.device)
    return _TransportAverage.apply(module, u, v, f, g, y)[0]


class _TransportAverage(torch.autograd.Function):
    @staticmethod
    def forward(
        module: Any, u: Tensor, v: Tensor, f: Tensor, g: Tensor, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        # At a damping of 0 the potentials of the rows are what was given as their masses.
        result = module.sinkhorn_pass(u, v, g, f, y, 0.0)
        return result.average, result.f

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _, u, v, _, g, y = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(u, v, output[1], g, y)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        u, v, f, g, y = ctx.saved_tensors
        with full_precision(u.device):
            gradients = _gradients(bounded(u), bounded(v), f, bounded_potential(g), y, grad)
        needed = zip(gradients, ctx.needs_input_grad[1:], strict=True)
        return None, *(each if needs else None for each, needs in needed)


def _gradients(
    u: Tensor, v: Tensor, f: Tensor, g: Tensor, y: Tensor, grad: Tensor
) -> tuple[Tensor, ...]:
    """In the order of the arguments; sums over rows are float64.

    With B = grad y^T, T's own gradient, and P = ln 2 T * B, that of the scores: u gets P v, v gets
    P^T u, f and g the row and column sums of P, and y gets T^T grad.
    """
    grad_u, grad_f = torch.zeros_like(u), torch.zeros_like(f)
    grad_v, grad_g, grad_y = (torch.zeros_like(each, dtype=torch.float64) for each in (v, g, y))
    for tile in row_tiles(u.size(0), v.size(0), u.device):
        plan = torch.addmm(g, u[tile], v.T).add_(f[tile, None]).exp2_()
        grad_y += plan.T @ grad[tile]
        of_scores = plan.mul_(grad[tile] @ y.T).mul_(math.log(2))
        grad_u[tile], grad_f[tile] = product(of_scores, v), of_scores.sum(1)
        grad_v += of_scores.T @ u[tile]
        grad_g += of_scores.sum(0, dtype=torch.float64)
    return grad_u, grad_v.to(v), grad_f, grad_g.to(g), grad_y.to(y)
