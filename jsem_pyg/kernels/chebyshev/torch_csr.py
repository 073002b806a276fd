"""SpMM and SDDMM on torch's CSR matrices, in bounded memory.

Extra memory, forward and backward: a few copies of X, whatever K; never [N, N], and never [nnz, M].
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..csr import CSR, index_dtype, quiet_sparse_tensors
from .adjoint import AdjointOperator


class SparseOperator(AdjointOperator):
    """A sparse symmetric S, of a pattern of N rows and its values [nnz]."""

    def __init__(self, csr: CSR, value: Tensor) -> None:
        self.num_nodes = csr.num_rows
        self.csr, self.values = csr, (value,)

    def product(self, x: Tensor, gathered: None) -> Tensor:
        """Apply S."""
        return self.step(x, None, None, torch.empty_like(x), 1)

    def step(
        self, term: Tensor, gathered: None, before: Tensor | None, out: Tensor, alpha: float
    ) -> Tensor:
        """Multiply and subtract in one call, in place; see :class:`.AdjointOperator`."""
        s = csr_matrix(self.csr, self.values[0], self.num_nodes)
        # With an `out`, autocast leaves the types alone: there are no CSR products in bfloat16.
        if before is None:
            return torch.addmm(term, s, term, beta=0, alpha=alpha, out=out)
        return torch.addmm(before, s, term, beta=-1, alpha=alpha, out=out)

    def add_gradient(
        self, totals: Sequence[Tensor], b: Tensor, t: Tensor, of_b: None, of_t: None, scale: float
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
