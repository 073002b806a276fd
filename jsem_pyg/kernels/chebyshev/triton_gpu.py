"""The series and its adjoint on a GPU, in Triton: a launch for each term.

A program owns some columns of a row (:mod:`.triton_steps`). It gathers the rows of neighbours,
finishes the recurrence in place of the term before the last, and adds every scale in the same pass;
in the adjoint, one gather of a neighbour's rows of B and T serves both products and the gradient of
the edge, of which each block of columns has a sum of its own: there are no atomics, and two runs
agree to the last bit. Numbers are stored in the type of x and added up in float32 (float64 for
float64); indices are int32, addresses int64.

Programs start in an order in which rows in flight share neighbours in the L2 cache; hubs start
before all others, so that the last to finish is a short one.

The mathematics is in :mod:`.adjoint`. ``TRITON_INTERPRET=1``, set before Triton is imported, runs
the kernels on the CPU, for tests.
"""

from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from ..csr import CSR
from ..ordering import Ordering, choose_for_series
from .adjoint import project
from .series import Gradients, SeriesOperator
from .triton_steps import begin_back_kernel, step_back_kernel, step_kernel

_BLOCK = 128  # columns that a program holds at a time: 16 bytes for each thread of one warp
_EDGES, _EDGES_BACK = 8, 4  # neighbours of a row that are gathered at a time, forward and backward
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

    def evaluate(self, x: Tensor, coefficients: Tensor, kept: Sequence[Tensor]) -> Tensor:
        """Sum the series; see :class:`.SeriesOperator`. T_k is kept in the place (k - 1) % 2."""
        x, num_terms = x.contiguous(), coefficients.size(0)
        terms = kept or x.new_empty(2, *x.shape)
        if num_terms <= 2:
            terms[1].copy_(x)  # T_0
        if num_terms == 1:
            return (coefficients[0].unsqueeze(1) * x).to(x.dtype)
        call = _Call(self.csr, self.values[0], x, coefficients, trains=bool(kept))
        out = call.coefficients.new_empty(coefficients.size(1), *x.shape)
        before, term = x, x
        for k in range(1, num_terms):
            # T_1 = S T_0 has no predecessor; and the memory of x itself is not written to.
            target = terms[(k - 1) % 2]
            step_kernel[call.grid](
                *call.matrix, term, before, target, out, call.coefficients[k - 1],
                IS_FIRST=k == 1, **call.shape, EDGES=_EDGES, num_warps=1,
            )  # fmt: skip
            before, term = term, target
        return out.to(x.dtype)

    def differentiate(
        self, kept: list[Tensor], coefficients: Tensor, grad: Tensor, needs: tuple[bool, bool]
    ) -> Gradients:
        """Differentiate; see :class:`.SeriesOperator`. It always goes through the terms, too."""
        values = self.values[0]
        grad, last = grad.contiguous(), coefficients.size(0) - 1
        call = _Call(self.csr, values, grad, coefficients, trains=True)
        slopes = _Slopes(call, grad, last) if needs[1] else None
        term, before = kept[(last - 1) % 2], kept[last % 2]
        kept.clear()
        b, b_next = torch.empty_like(term), torch.empty_like(term)
        grad_values = call.coefficients.new_empty(call.grid[1], values.numel())
        for k in range(last, -1, -1):
            row_slopes = None if slopes is None else slopes.rows_of(k)
            if k == last:
                begin_back_kernel[(grad.size(-2), call.grid[1])](
                    self.csr.rowptr, b, b_next, term, grad, grad_values, call.coefficients[k],
                    row_slopes, **call.shape, EDGES=_EDGES, num_warps=1,
                )  # fmt: skip
            else:
                # b holds B_(k+1), and b_next B_(k+2), which becomes B_k. before holds T_k, and
                # term T_(k+1), in whose place T_(k-1) is made, unless it is kept and must survive.
                target = term if k < last - 2 else torch.empty_like(term)
                step_back_kernel[call.grid](
                    *call.matrix, b, b_next, before, term, target, grad, grad_values,
                    call.coefficients[k], row_slopes, IS_LAST=k == 0, **call.shape,
                    EDGES=_EDGES_BACK, num_warps=1,
                )  # fmt: skip
                b, b_next = b_next, b
                before, term = target, before
            if slopes is not None:
                slopes.add_up(k, term)
        of_values = grad_values[0] if len(grad_values) == 1 else grad_values.sum(0)
        of_coefficients = None if slopes is None else slopes.out
        return b, (of_values,) if needs[0] else None, of_coefficients


class _Slopes:
    """The gradient of the coefficients: <G, T_k>.

    A step of the adjoint leaves a number for each row; those of several terms are added up at once.
    Where channels have coefficients of their own, torch does the work.
    """

    def __init__(self, call: "_Call", grad: Tensor, last: int) -> None:
        self.grad, self.last = grad, last
        self.out = torch.empty_like(call.coefficients)  # [K + 1, S, C]
        self.rows: Tensor | None = None
        if self.out.size(-1) == 1:
            shape = min(last + 1, _KEPT), self.out.size(1), call.grid[1] * grad.size(-2)
            self.rows = self.out.new_empty(shape)

    def rows_of(self, k: int) -> Tensor | None:
        """Return where a step writes its rows for c_k; None if it writes none."""
        return None if self.rows is None else self.rows[-1 - (self.last - k) % len(self.rows)]

    def add_up(self, k: int, term: Tensor) -> None:
        """Finish the gradient of c_k; rows are added up before others take their places."""
        if self.rows is None:
            self.out[k] = project(self.grad, term, self.out.size(-1))
            return
        count = (self.last - k) % len(self.rows) + 1
        if count == len(self.rows) or k == 0:
            torch.sum(self.rows[-count:], 2, keepdim=True, out=self.out[k : k + count])


def _by_rows(csr: CSR, ordering: Ordering) -> tuple[Tensor, Tensor, Tensor]:
    """Return the row of each program [N], and the pattern, as int32."""
    order = csr.derived(ordering).node
    length = csr.degree.cpu()[order]
    is_hub = length > _HUB * csr.num_slots / max(length.numel(), 1)
    order = torch.cat([order[is_hub], order[~is_hub]]).to(csr.col.device)
    return order.int(), csr.rowptr.int(), csr.col.int()


class _Call:
    """The kernels of a pass, and the arguments that all launches share."""

    def __init__(
        self, csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, trains: bool
    ) -> None:
        num_rows, num_columns = x.shape[-2:]
        values = values.contiguous()
        self.coefficients = coefficients.to(values.dtype).contiguous()
        _, num_scales, num_channels = coefficients.shape
        row_bytes, visits = num_columns * x.element_size(), coefficients.size(0) - 1
        pattern = csr.derived(_by_rows, choose_for_series(csr, row_bytes, visits, trains))
        self.matrix: tuple[Tensor, ...] = (*pattern, values)
        block = min(triton.next_power_of_2(num_columns), _BLOCK)
        # Programs start block by block: what those in flight gather fits the cache more often.
        self.grid = (num_rows, triton.cdiv(num_columns, block))
        self.shape = {
            "num_scales": num_scales,
            "num_rows": num_rows,
            "num_columns": num_columns,
            "num_slots": csr.num_slots,
            "PER_CHANNEL": num_channels > 1,
            "BLOCK": block,
        }
