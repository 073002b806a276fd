"""Plain torch: the definition that every other backend is compared with, on any device."""

from torch import Tensor

from ..csr import CSR
from .recurrence import chebyshev_recurrence


def chebyshev_series(
    csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None
) -> Tensor:
    """Gather, multiply, scatter-add. It holds [nnz, M] messages for every term while training."""

    def apply_s(term: Tensor) -> Tensor:
        messages = values.unsqueeze(-1) * term.index_select(0, csr.col)
        return term.new_zeros(term.shape).index_add(0, csr.row, messages)

    return chebyshev_recurrence(apply_s, x, coefficients, group)
