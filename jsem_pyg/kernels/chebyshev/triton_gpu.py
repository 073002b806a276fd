"""Fused steps of the recurrence on a GPU, in Triton.

A program owns a row. It gathers its neighbours' rows, finishes the recurrence in place of the term
before the last, and adds every scale in the same pass; in the adjoint, one gather of a neighbour's
rows of B and T serves both products and the gradient of the edge, which no other program touches:
there are no atomics, and two runs agree to the last bit. Long rows start first, so that the last
programs to finish are short ones. Numbers are stored in the type of x and added up in float32
(float64 for float64); indices are int32, addresses int64.

Like :mod:`.torch_csr`, the adjoint stores the last two terms only and runs the recurrence
backwards. ``TRITON_INTERPRET=1``, set before Triton is imported, runs the kernels on the CPU, for
tests.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..csr import CSR
from . import reference
from .torch_csr import project

_WIDEST_BLOCK = 512  # columns that a program holds at a time


def chebyshev_series(
    csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None
) -> Tensor:
    """See :mod:`jsem_pyg.kernels.chebyshev`; differentiable once."""
    if x.numel() == 0:
        return reference.chebyshev_series(csr, values, x, coefficients, group)
    return _ChebyshevSeries.apply(csr.rowptr, csr.col, values, x, coefficients, group)


class _ChebyshevSeries(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rowptr: Tensor,
        col: Tensor,
        values: Tensor,
        x: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
    ) -> Tensor:
        problem = _Problem(rowptr, col, values, x.shape, coefficients, group)
        term = x.contiguous()
        before = torch.empty_like(term)
        out = problem.weigh(0, x).expand(coefficients.size(1), *x.shape).contiguous()
        for k in range(1, coefficients.size(0)):
            # T_1 = S T_0 has no predecessor; and the memory of x itself is not written to.
            target = torch.empty_like(term) if k == 2 else before
            problem.step(term, before, target, out, k)
            before, term = term, target
        ctx.save_for_backward(rowptr, col, values, before, term, coefficients, group)
        return out.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rowptr, col, values, before, term, coefficients, group = ctx.saved_tensors
        _, _, needs_values, _, needs_coefficients, _ = ctx.needs_input_grad
        problem = _Problem(rowptr, col, values, term.shape, coefficients, group)
        grad = grad.contiguous()
        grad_values = torch.zeros_like(values)
        grad_coefficients = torch.zeros_like(coefficients)
        last = coefficients.size(0) - 1
        if last > 0:
            before, term = before.clone(), term.clone()  # written to; saved for a second pass
        b, b_next = torch.zeros_like(term), torch.zeros_like(term)
        b += problem.weigh(last, grad).sum(0)
        if needs_coefficients:
            grad_coefficients[last] = project(grad, term, coefficients, group)
        for k in range(last - 1, -1, -1):
            # b holds B_(k+1), and b_next B_(k+2), which becomes B_k;
            # before holds T_k, and term T_(k+1), which becomes T_(k-1).
            if needs_coefficients:
                grad_coefficients[k] = project(grad, before, coefficients, group)
            problem.step_back(b, b_next, before, term, grad, grad_values, k)
            b, b_next = b_next, b
            before, term = term, before
        return (
            None,
            None,
            grad_values if needs_values else None,
            b,
            grad_coefficients if needs_coefficients else None,
            None,
        )


class _Problem:
    """The arrays of one call in the form that the kernels take, and their launches."""

    def __init__(
        self,
        rowptr: Tensor,
        col: Tensor,
        values: Tensor,
        shape: torch.Size,
        coefficients: Tensor,
        group: Tensor | None,
    ) -> None:
        self.num_rows, self.num_columns = shape
        order = rowptr.diff().argsort(descending=True)
        index = torch.int32
        self.matrix = (order.to(index), rowptr.to(index), col.to(index), values.contiguous())
        self.coefficients = coefficients.contiguous()
        self.group = order if group is None else group  # where there are none, it is not read
        _, self.num_scales, self.num_groups, num_channels = coefficients.shape
        self.shared = {
            "num_scales": self.num_scales,
            "num_groups": self.num_groups,
            "num_channels": num_channels,
            "num_rows": self.num_rows,
            "num_columns": self.num_columns,
            "HAS_GROUPS": group is not None,
            "PER_CHANNEL": num_channels > 1,
            "BLOCK": min(triton.next_power_of_2(self.num_columns), _WIDEST_BLOCK),
        }

    def step(self, term: Tensor, before: Tensor, target: Tensor, out: Tensor, k: int) -> None:
        """Make target = 2 S term - before (for k = 1: S term), and add c_k target to out."""
        _step_kernel[(self.num_rows,)](
            *self.matrix, term, before, target, out, self.coefficients[k], self.group,
            IS_FIRST=k == 1, **self.shared,
        )  # fmt: skip

    def step_back(
        self,
        b: Tensor,
        b_next: Tensor,
        t: Tensor,
        t_next: Tensor,
        grad: Tensor,
        grad_values: Tensor,
        k: int,
    ) -> None:
        """Both recurrences of the adjoint, one step back to the term k, and the edges' gradient."""
        _step_back_kernel[(self.num_rows,)](
            *self.matrix, b, b_next, t, t_next, grad, grad_values, self.coefficients[k], self.group,
            IS_LAST=k == 0, **self.shared,
        )  # fmt: skip

    def weigh(self, k: int, x: Tensor) -> Tensor:
        """c_k x, for every scale."""
        coefficient = self.coefficients[k]
        if self.num_groups > 1:
            coefficient = coefficient.index_select(1, self.group)
        return coefficient * x


@triton.jit
def _step_kernel(
    order, rowptr, col, values, term, before, target, out, coefficient, group,
    num_scales, num_groups, num_channels, num_rows, num_columns,
    IS_FIRST: tl.constexpr, HAS_GROUPS: tl.constexpr, PER_CHANNEL: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    own_group = tl.load(group + row) if HAS_GROUPS else 0
    for first in range(0, num_columns, BLOCK):
        lanes = first + tl.arange(0, BLOCK)  # [BLOCK]
        inside = lanes < num_columns
        here = row * num_columns + lanes
        total = tl.zeros([BLOCK], dtype=out.dtype.element_ty)
        for edge in range(start, stop):
            there = tl.load(col + edge).to(tl.int64) * num_columns + lanes
            neighbour = tl.load(term + there, mask=inside, other=0.0)  # [BLOCK]
            total += tl.load(values + edge) * neighbour.to(total.dtype)
        if not IS_FIRST:
            total = 2 * total - tl.load(before + here, mask=inside, other=0.0).to(total.dtype)
        tl.store(target + here, total.to(target.dtype.element_ty), mask=inside)
        for scale in range(num_scales):
            place = (scale * num_groups + own_group) * num_channels
            if PER_CHANNEL:
                weight = tl.load(coefficient + place + lanes, mask=inside, other=0.0)  # [BLOCK]
            else:
                weight = tl.load(coefficient + place)
            at = out + (scale * num_rows + row) * num_columns + lanes
            tl.store(at, tl.load(at, mask=inside, other=0.0) + weight * total, mask=inside)


@triton.jit
def _step_back_kernel(
    order, rowptr, col, values, b, b_next, t, t_next, grad, grad_values, coefficient, group,
    num_scales, num_groups, num_channels, num_rows, num_columns,
    IS_LAST: tl.constexpr, HAS_GROUPS: tl.constexpr, PER_CHANNEL: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    own_group = tl.load(group + row) if HAS_GROUPS else 0
    twice = 1.0 if IS_LAST else 2.0  # of S B_1, and of the gradient that B_1 and T_0 make
    for first in range(0, num_columns, BLOCK):
        lanes = first + tl.arange(0, BLOCK)  # [BLOCK]
        inside = lanes < num_columns
        here = row * num_columns + lanes
        own_b = tl.load(b + here, mask=inside, other=0.0)  # [BLOCK]
        total_b = tl.zeros([BLOCK], dtype=grad_values.dtype.element_ty)
        total_t = tl.zeros([BLOCK], dtype=grad_values.dtype.element_ty)
        for edge in range(start, stop):
            there = tl.load(col + edge).to(tl.int64) * num_columns + lanes
            value = tl.load(values + edge)
            other_t = tl.load(t + there, mask=inside, other=0.0).to(total_t.dtype)  # [BLOCK]
            total_b += value * tl.load(b + there, mask=inside, other=0.0).to(total_b.dtype)
            total_t += value * other_t
            product = tl.sum(own_b.to(total_t.dtype) * other_t)
            tl.store(grad_values + edge, tl.load(grad_values + edge) + twice * product)
        total_b = twice * total_b - tl.load(b_next + here, mask=inside, other=0.0).to(total_b.dtype)
        total_t = 2 * total_t - tl.load(t_next + here, mask=inside, other=0.0).to(total_t.dtype)
        for scale in range(num_scales):
            place = (scale * num_groups + own_group) * num_channels
            if PER_CHANNEL:
                weight = tl.load(coefficient + place + lanes, mask=inside, other=0.0)  # [BLOCK]
            else:
                weight = tl.load(coefficient + place)
            at = grad + (scale * num_rows + row) * num_columns + lanes
            total_b += weight * tl.load(at, mask=inside, other=0.0).to(total_b.dtype)
        tl.store(b_next + here, total_b.to(b_next.dtype.element_ty), mask=inside)
        tl.store(t_next + here, total_t.to(t_next.dtype.element_ty), mask=inside)
