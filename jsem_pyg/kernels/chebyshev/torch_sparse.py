"""SpMM by torch-sparse (extra `[sparse]`), differentiated by torch-sparse's own SDDMM."""

from torch import Tensor

from ..csr import CSR
from ..torch_func import is_transformed
from .operator import Operator
from .series import refuse_transform


class SparseOperator(Operator):
    """A sparse symmetric S. Every term is stored while training, but no [nnz, M] messages."""

    def __init__(self, csr: CSR, value: Tensor) -> None:
        from torch_sparse import SparseTensor

        if is_transformed():
            refuse_transform("the transforms of torch.func")
        self.num_nodes = csr.num_rows
        self._matrix = SparseTensor(
            rowptr=csr.rowptr,
            col=csr.col.long(),
            value=value,
            sparse_sizes=(csr.num_rows, csr.num_rows),
            is_sorted=True,
            trust_data=True,
        )

    def apply(self, x: Tensor) -> Tensor:
        """Multiply."""
        if x.numel() == 0:  # torch-sparse would divide by the number of columns
            return x + 0 * self._matrix.storage.value().sum()
        product: Tensor = self._matrix.matmul(x)
        return product
