"""SpMM by torch-sparse (extra `[sparse]`), in bounded memory."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..csr import CSR
from ..edge_dot import edge_dot
from .adjoint import AdjointOperator


class SparseOperator(AdjointOperator):
    """A sparse symmetric S, of a pattern of N rows and its values [nnz]."""

    def __init__(self, csr: CSR, value: Tensor) -> None:
        import torch_sparse  # noqa: F401 (loads its operations)

        self.num_nodes = csr.num_rows
        self.csr, self.values = csr, (value,)

    def product(self, x: Tensor, gathered: None) -> Tensor:
        """Apply S."""
        matrix = None, self.csr.rowptr, self.csr.derived(_wide_columns), self.values[0].detach()
        found: Tensor = torch.ops.torch_sparse.spmm_sum(*matrix, None, None, x.detach())
        return found

    def add_gradient(
        self, totals: Sequence[Tensor], b: Tensor, t: Tensor, of_b: None, of_t: None, scale: float
    ) -> None:
        """Compute <b[i], t[j]> on the slots alone."""
        totals[0].add_(edge_dot(b, t, self.csr.row, self.csr.col), alpha=scale)


def _wide_columns(csr: CSR) -> Tensor:
    return csr.col.long()
