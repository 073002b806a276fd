"""Plain torch: the definition that every other backend is compared with, on any device."""

from torch import Tensor

from ..csr import CSR
from .operator import Operator


class SparseOperator(Operator):
    """A sparse symmetric S [N, N] with values [nnz]; training holds [nnz, M] messages a term."""

    def __init__(self, csr: CSR, value: Tensor) -> None:
        self.num_nodes = csr.num_rows
        self.csr, self.value = csr, value

    def apply(self, x: Tensor) -> Tensor:
        """Gather, multiply, scatter-add."""
        messages = self.value.unsqueeze(-1) * x.index_select(0, self.csr.col)
        return x.new_zeros(x.shape).index_add(0, self.csr.row, messages)
