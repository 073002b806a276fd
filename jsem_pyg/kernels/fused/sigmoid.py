r"""The logistic conductance of edges and its gradient: one kernel forward, two backward.

.. math::
    h_e = \epsilon + (1 - \epsilon) \, \sigma\left( r \sum_f s_f (k_{ef} - k_{0f}) \right)

Sums are taken in float64, without atomics.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_BLOCK = 512  # edges of a program


def sigmoid_conductance(
    edge_attr: Tensor, slope: Tensor, threshold: Tensor, floor: float, rate: float
) -> Tensor:
    """Compute h [E] of features [E, F], a slope [F] and a threshold [F].

    It is differentiable in slope and threshold; the features are constants.
    """
    found: Tensor = _Sigmoid.apply(edge_attr, slope, threshold, floor, rate)
    return found


class _Sigmoid(torch.autograd.Function):
    """(edge_attr, slope, threshold, floor, rate) -> the conductance."""

    @staticmethod
    def forward(
        ctx: Any, edge_attr: Tensor, slope: Tensor, threshold: Tensor, floor: float, rate: float
    ) -> Tensor:
        edge_attr = edge_attr.contiguous()
        out = slope.new_empty(edge_attr.size(0))
        ctx.constants = {"FLOOR": floor, "RATE": rate, "BLOCK": _BLOCK}
        _sigmoid_kernel[(triton.cdiv(out.numel(), _BLOCK),)](
            edge_attr, slope, threshold, out, *edge_attr.shape, **ctx.constants
        )
        ctx.save_for_backward(edge_attr, slope, threshold)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        edge_attr, slope, threshold = ctx.saved_tensors
        (num_edges, num_features), grad = edge_attr.shape, grads[0].contiguous()
        num_parts = triton.cdiv(num_edges, _BLOCK)
        parts = grad.new_empty(num_features + 1, num_parts, dtype=torch.float64)
        _sigmoid_back_kernel[(num_parts,)](
            edge_attr, slope, threshold, grad, parts, *edge_attr.shape, num_parts, **ctx.constants
        )
        of_slope, of_threshold = torch.empty_like(slope), torch.empty_like(threshold)
        _finish_kernel[(num_features,)](
            parts, slope, of_slope, of_threshold, num_features, num_parts, BLOCK=_BLOCK
        )
        return None, of_slope, of_threshold, None, None


@triton.jit
def _logistic(
    edge_attr, slope, threshold, edges, real, num_features, RATE: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute the logistic function of the edges."""
    logit = tl.zeros([BLOCK], dtype=tl.float64)
    for f in range(num_features):
        k = tl.load(edge_attr + edges * num_features + f, mask=real, other=0.0).to(tl.float64)
        logit += (k - tl.load(threshold + f)) * tl.load(slope + f)
    return 1.0 / (1.0 + tl.exp(-RATE * logit))  # of an infinite number: zero


@triton.jit
def _sigmoid_kernel(
    edge_attr, slope, threshold, out, num_edges, num_features,
    FLOOR: tl.constexpr, RATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    edges = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    real = edges < num_edges
    sigma = _logistic(edge_attr, slope, threshold, edges, real, num_features, RATE, BLOCK)
    found = FLOOR + (1.0 - FLOOR) * sigma
    tl.store(out + edges, found.to(out.dtype.element_ty), mask=real)


@triton.jit
def _sigmoid_back_kernel(
    edge_attr, slope, threshold, grad, parts, num_edges, num_features, num_parts,
    FLOOR: tl.constexpr, RATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up, over a block of edges, the gradients of the logit, times each k - k0 and alone."""
    part = tl.program_id(0).to(tl.int64)
    edges = part * BLOCK + tl.arange(0, BLOCK)
    real = edges < num_edges
    sigma = _logistic(edge_attr, slope, threshold, edges, real, num_features, RATE, BLOCK)
    of_logit = tl.load(grad + edges, mask=real, other=0.0).to(tl.float64)
    of_logit *= (1.0 - FLOOR) * RATE * sigma * (1.0 - sigma)
    for f in range(num_features):
        k = tl.load(edge_attr + edges * num_features + f, mask=real, other=0.0).to(tl.float64)
        total = tl.sum(of_logit * (k - tl.load(threshold + f)), axis=0)
        tl.store(parts + f * num_parts + part, total)
    tl.store(parts + num_features * num_parts + part, tl.sum(of_logit, axis=0))


@triton.jit
def _finish_kernel(
    parts, slope, of_slope, of_threshold, num_features, num_parts, BLOCK: tl.constexpr
):
    f = tl.program_id(0)
    product = tl.zeros([BLOCK], dtype=tl.float64)
    alone = tl.zeros([BLOCK], dtype=tl.float64)
    for first in range(0, num_parts, BLOCK):
        lanes = first + tl.arange(0, BLOCK)
        real = lanes < num_parts
        product += tl.load(parts + f * num_parts + lanes, mask=real, other=0.0)
        alone += tl.load(parts + num_features * num_parts + lanes, mask=real, other=0.0)
    tl.store(of_slope + f, tl.sum(product, axis=0).to(of_slope.dtype.element_ty))
    shift = -tl.load(slope + f) * tl.sum(alone, axis=0)
    tl.store(of_threshold + f, shift.to(of_threshold.dtype.element_ty))
