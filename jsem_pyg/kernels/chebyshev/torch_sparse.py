"""SpMM by torch-sparse (extra `[sparse]`), differentiated by torch-sparse's own SDDMM."""

from torch import Tensor

from ..csr import CSR
from . import reference
from .recurrence import chebyshev_recurrence


def chebyshev_series(
    csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None
) -> Tensor:
    """Plain autograd over `SparseTensor` products: every term is stored, no [nnz, M] messages."""
    if x.numel() == 0:  # torch-sparse would divide by the number of columns
        return reference.chebyshev_series(csr, values, x, coefficients, group)
    from torch_sparse import SparseTensor

    matrix = SparseTensor(
        rowptr=csr.rowptr,
        col=csr.col,
        value=values,
        sparse_sizes=(csr.num_nodes, csr.num_nodes),
        is_sorted=True,
        trust_data=True,
    )
    return chebyshev_recurrence(matrix.matmul, x, coefficients, group)
