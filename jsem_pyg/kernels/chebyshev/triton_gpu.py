"""Fused steps of the recurrence on a GPU, in Triton.

A program owns some columns of a row. It gathers its neighbours' rows, several at a time, finishes
the recurrence in place of the term before the last, and adds every scale in the same pass; in the
adjoint, one gather of a neighbour's rows of B and T serves both products and the gradient of the
edge, of which each block of columns has a sum of its own: there are no atomics, and two runs agree
to the last bit. Numbers are stored in the type of x and added up in float32 (float64 for float64);
indices are int32, addresses int64.

Programs start in reverse Cuthill-McKee order of their rows, so that rows in flight share neighbours
in the L2 cache; hubs start before all others, so that the last to finish is a short one.

The mathematics is in :mod:`.adjoint`. ``TRITON_INTERPRET=1``, set before Triton is imported, runs
the kernels on the CPU, for tests.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..csr import CSR
from ..ordering import Ordering, choose_for_series
from .operator import Gradients, RequiredGradients
from .recurrence import project
from .series import SeriesOperator

_BLOCK = 128  # columns that a program holds at a time: 16 bytes for each thread of one warp
_EDGES, _EDGES_BACK = 8, 4  # neighbours that are gathered at a time, forward and backward
_HUB = 8  # times the mean number of neighbours
_KEPT = 32  # terms whose products with the gradient are kept, a number for each row


class SparseOperator(SeriesOperator):
    """A sparse symmetric S, of a pattern of N rows and its values [nnz], fewer than 2^31."""

    def __init__(self, csr: CSR, value: Tensor) -> None:
        if csr.num_slots >= 2**31:
            raise ValueError(
                f"Expected fewer than 2^31 edges for backend='triton' (got {csr.num_slots})."
            )
        self.num_nodes = csr.num_rows
        self.csr, self.values = csr, (value,)

    def evaluate(self, x: Tensor, coefficients: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
        """Sum the series; see :class:`.SeriesOperator`. T_k is kept in the place (k - 1) % 2."""
        x, call = x.contiguous(), _Call(self, x, coefficients, trains=keep)
        out, terms = call.weigh(0, x).to(self.values[0].dtype), x.new_empty(2, *x.shape)
        before, term = x, x
        for k in range(1, coefficients.size(0)):
            # T_1 = S T_0 has no predecessor; and the memory of x itself is not written to.
            target = terms[(k - 1) % 2]
            _step_kernel[call.grid](
                *call.matrix, term, before, target, out, call.coefficients[k],
                IS_FIRST=k == 1, **call.shared,
            )  # fmt: skip
            before, term = term, target
        if coefficients.size(0) <= 2:
            terms[1].copy_(x)  # T_0
        return out.to(x.dtype), terms

    def differentiate(
        self, kept: Tensor, coefficients: Tensor, grad: Tensor, required: RequiredGradients
    ) -> Gradients:
        """Differentiate; see :class:`.SeriesOperator`. It always goes through the terms, too."""
        grad, call = grad.contiguous(), _Call(self, grad, coefficients, trains=True)
        term, before = kept.clone()  # which must survive for a second backward pass
        last = coefficients.size(0) - 1
        if last % 2 == 0:
            term, before = before, term
        grad_values = call.matrix[-1].new_zeros(call.grid[1], self.csr.num_slots)
        slopes = _Slopes(call, grad) if required.coefficients else None
        if slopes is not None:
            slopes.project(last, term)
        b = call.weigh(last, grad).sum(0).to(kept.dtype)
        b_next = torch.zeros_like(b)
        for k in range(last - 1, -1, -1):
            # b holds B_(k+1), and b_next B_(k+2), which becomes B_k;
            # before holds T_k, and term T_(k+1), which becomes T_(k-1).
            of_rows = None if slopes is None else slopes.of_rows(k, before)
            _step_back_kernel[call.grid](
                *call.matrix, b, b_next, before, term, grad, grad_values, call.coefficients[k],
                b if of_rows is None else of_rows, IS_LAST=k == 0,
                HAS_SLOPES=of_rows is not None, **call.shared | {"EDGES": _EDGES_BACK},
            )  # fmt: skip
            b, b_next = b_next, b
            before, term = term, before
        return Gradients(
            b,
            (grad_values.sum(0),) if required.values else None,
            None if slopes is None else slopes.close(),
        )


class _Slopes:
    """The gradient of the coefficients: <G, T_k>.

    A step of the adjoint leaves a number for each row; those of several terms are added up at once.
    Where channels have coefficients of their own, torch does the work.
    """

    def __init__(self, call: "_Call", grad: Tensor) -> None:
        self.call, self.grad = call, grad
        self.out = torch.empty_like(call.coefficients)  # [K + 1, S, C]
        self.kept: list[Tensor] = []  # [S, blocks of columns, N] each, of falling terms

    def project(self, k: int, term: Tensor) -> None:
        self.out[k] = project(self.grad, term, self.out.size(-1))

    def of_rows(self, k: int, term: Tensor) -> Tensor | None:
        """Return the place for the sums of a step's rows, if it is to write them."""
        if len(self.kept) == _KEPT:
            self._add_up(k + 1)
        if self.out.size(-1) > 1:
            self.project(k, term)
            return None
        num_rows, num_blocks = self.call.grid
        self.kept.append(self.out.new_empty(self.out.size(1), num_blocks, num_rows))
        return self.kept[-1]

    def _add_up(self, k: int) -> None:
        """Close the terms k and above that are kept."""
        if self.kept:
            rows = torch.stack(self.kept[::-1])  # [terms, S, blocks, N]
            self.out[k : k + len(self.kept)] = rows.flatten(2).sum(2, keepdim=True)
            self.kept.clear()

    def close(self) -> Tensor:
        self._add_up(0)
        return self.out


class _Pattern(NamedTuple):
    """A CSR pattern as the kernels read it, and the row of each program."""

    order: Tensor  # [N] int32
    rowptr: Tensor  # [N + 1] int32
    col: Tensor  # [nnz] int32


def _prepared(csr: CSR, ordering: Ordering) -> _Pattern:
    order = csr.derived(ordering).node
    length = csr.degree.cpu()[order]
    is_hub = length > _HUB * csr.num_slots / max(length.numel(), 1)
    order = torch.cat([order[is_hub], order[~is_hub]]).to(csr.col.device)
    return _Pattern(order.int(), csr.rowptr.int(), csr.col.int())


class _Call:
    """The arguments that all launches of a pass share."""

    def __init__(
        self, operator: SparseOperator, x: Tensor, coefficients: Tensor, trains: bool
    ) -> None:
        num_rows, num_columns = x.shape[-2:]
        row_bytes, visits = num_columns * x.element_size(), coefficients.size(0) - 1
        ordering = choose_for_series(operator.csr, row_bytes, visits, trains)
        pattern = operator.csr.derived(_prepared, ordering)
        self.matrix = (*pattern, operator.values[0].contiguous())
        self.coefficients = coefficients.contiguous()
        _, num_scales, num_channels = coefficients.shape
        block = min(triton.next_power_of_2(num_columns), _BLOCK)
        # Programs start block by block: what those in flight gather fits the cache more often.
        self.grid = (num_rows, triton.cdiv(num_columns, block))
        self.shared = {
            "num_scales": num_scales,
            "num_channels": num_channels,
            "num_rows": num_rows,
            "num_columns": num_columns,
            "PER_CHANNEL": num_channels > 1,
            "EDGES": _EDGES,
            "BLOCK": block,
            "num_warps": 1,
        }

    def weigh(self, k: int, x: Tensor) -> Tensor:
        """Compute c_k x, for every scale, in the type of the sums."""
        return self.coefficients[k].unsqueeze(1) * x


@triton.jit
def _step_kernel(
    order, rowptr, col, values, term, before, target, out, coefficient,
    num_scales, num_channels, num_rows, num_columns,
    IS_FIRST: tl.constexpr, PER_CHANNEL: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    inside = lanes < num_columns
    here = row * num_columns + lanes
    total = tl.zeros([BLOCK], dtype=out.dtype.element_ty)
    for edge in range(start, stop, EDGES):
        edges = edge + tl.arange(0, EDGES)  # [EDGES]
        real = edges < stop
        neighbour = tl.load(col + edges, mask=real, other=0).to(tl.int64)
        value = tl.load(values + edges, mask=real, other=0.0)
        there = neighbour[:, None] * num_columns + lanes[None, :]  # [EDGES, BLOCK]
        both = real[:, None] & inside[None, :]
        gathered = tl.load(term + there, mask=both, other=0.0).to(total.dtype)
        total += tl.sum(value[:, None] * gathered, axis=0)
    if not IS_FIRST:
        total = 2 * total - tl.load(before + here, mask=inside, other=0.0).to(total.dtype)
    tl.store(target + here, total.to(target.dtype.element_ty), mask=inside)
    for scale in range(num_scales):
        place = scale * num_channels
        if PER_CHANNEL:
            weight = tl.load(coefficient + place + lanes, mask=inside, other=0.0)  # [BLOCK]
        else:
            weight = tl.load(coefficient + place)
        at = out + (scale * num_rows + row) * num_columns + lanes
        tl.store(at, tl.load(at, mask=inside, other=0.0) + weight * total, mask=inside)


@triton.jit
def _step_back_kernel(
    order, rowptr, col, values, b, b_next, t, t_next, grad, grad_values, coefficient, slopes,
    num_scales, num_channels, num_rows, num_columns,
    IS_LAST: tl.constexpr, HAS_SLOPES: tl.constexpr, PER_CHANNEL: tl.constexpr,
    EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    start, stop = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    twice = 1.0 if IS_LAST else 2.0  # of S B_1, and of the gradient that B_1 and T_0 make
    real_type = grad_values.dtype.element_ty
    grad_values += tl.program_id(1).to(tl.int64) * tl.load(rowptr + num_rows)
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    inside = lanes < num_columns
    here = row * num_columns + lanes
    own_b = tl.load(b + here, mask=inside, other=0.0).to(real_type)  # [BLOCK]
    own_t = tl.load(t + here, mask=inside, other=0.0).to(real_type)
    total_b = tl.zeros([BLOCK], dtype=real_type)
    total_t = tl.zeros([BLOCK], dtype=real_type)
    for edge in range(start, stop, EDGES):
        edges = edge + tl.arange(0, EDGES)  # [EDGES]
        real = edges < stop
        neighbour = tl.load(col + edges, mask=real, other=0).to(tl.int64)
        value = tl.load(values + edges, mask=real, other=0.0)
        there = neighbour[:, None] * num_columns + lanes[None, :]  # [EDGES, BLOCK]
        both = real[:, None] & inside[None, :]
        other_b = tl.load(b + there, mask=both, other=0.0).to(real_type)
        other_t = tl.load(t + there, mask=both, other=0.0).to(real_type)
        total_b += tl.sum(value[:, None] * other_b, axis=0)
        total_t += tl.sum(value[:, None] * other_t, axis=0)
        product = tl.sum(own_b[None, :] * other_t, axis=1)  # [EDGES]
        sofar = tl.load(grad_values + edges, mask=real, other=0.0)
        tl.store(grad_values + edges, sofar + twice * product, mask=real)
    total_b = twice * total_b - tl.load(b_next + here, mask=inside, other=0.0).to(real_type)
    total_t = 2 * total_t - tl.load(t_next + here, mask=inside, other=0.0).to(real_type)
    for scale in range(num_scales):
        place = scale * num_channels
        if PER_CHANNEL:
            weight = tl.load(coefficient + place + lanes, mask=inside, other=0.0)  # [BLOCK]
        else:
            weight = tl.load(coefficient + place)
        at = grad + (scale * num_rows + row) * num_columns + lanes
        own_grad = tl.load(at, mask=inside, other=0.0).to(real_type)
        total_b += weight * own_grad
        if HAS_SLOPES:
            block = scale * tl.num_programs(1) + tl.program_id(1)
            tl.store(slopes + block.to(tl.int64) * num_rows + row, tl.sum(own_grad * own_t))
    tl.store(b_next + here, total_b.to(b_next.dtype.element_ty), mask=inside)
    tl.store(t_next + here, total_t.to(t_next.dtype.element_ty), mask=inside)
