"""SpMM and SDDMM on torch's CSR matrices, in bounded memory.

Extra memory, forward and backward: a few copies of X, whatever K; never [N, N], and never [nnz, M].
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..csr import CSR, index_dtype, quiet_sparse_tensors
from .adjoint import AdjointOperator


class SparseOperator(AdjointOperator):
    """A sparse symmetric S, of a pattern of N rows and its values [nnz]."""

    def __init__(self, csr: CSR, value: Tensor) -> None:
        self.num_nodes = csr.num_rows
        self.csr, self.values = csr, (value,)

    def product(self, x: Tensor) -> tuple[Tensor, None]:
        """Apply S: one product."""
        out = torch.empty_like(x)
        self.step(x, None, out, 1)
        return out, None

    def step(self, term: Tensor, before: Tensor | None, out: Tensor, alpha: float) -> None:
        """Take a step: product and subtraction in one, in place; see :class:`.AdjointOperator`."""
        s = csr_matrix(self.csr, self.values[0], self.num_nodes)
        # With an `out`, autocast leaves the types alone: there are no CSR products in bfloat16.
        if before is None:
            torch.addmm(term, s, term, beta=0, alpha=alpha, out=out)
        else:
            torch.addmm(before, s, term, beta=-1, alpha=alpha, out=out)

    def step_back(
        self,
        b: Tensor,
        b_after: Tensor,
        t: Tensor,
        t_after: Tensor,
        t_out: Tensor | None,
        totals: Sequence[Tensor] | None,
        alpha: float,
    ) -> None:
        """See :class:`.AdjointOperator`."""
        if totals is not None:
            self.add_gradient(totals, b, t, None, None, alpha)
        self.step(b, b_after, b_after, alpha)
        if t_out is not None:
            self.step(t, t_after, t_out, 2)

    def add_gradient(
        self, totals: Sequence[Tensor], b: Tensor, t: Tensor, of_b: Any, of_t: Any, scale: float
    ) -> None:
        """Compute <b[i], t[j]> on the slots alone."""
        total = csr_matrix(self.csr, totals[0], self.num_nodes)  # on the memory of `totals`
        torch.sparse.sampled_addmm(total, b, t.t(), alpha=scale, out=total)


def csr_matrix(csr: CSR, value: Tensor, num_cols: int) -> Tensor:
    """Make a torch tensor of a pattern and its values [nnz], on the same memory."""
    rowptr, col = csr.derived(_mkl_indices)
    with quiet_sparse_tensors():
        return torch.sparse_csr_tensor(
            rowptr,
            col,
            value.detach(),
            (csr.num_rows, num_cols),
            device=value.device,
            check_invariants=False,
        )


def _mkl_indices(csr: CSR) -> tuple[Tensor, Tensor]:
    """Bring row pointers and columns to one integer type, as MKL requires."""
    narrow = index_dtype(csr.num_rows, csr.num_slots)
    return csr.rowptr.to(narrow), csr.col.to(narrow)
