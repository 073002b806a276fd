"""The operator of some rows, whose columns reach to rows of other processes."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels.chebyshev import AdjointOperator
from ...kernels.chebyshev.series import differentiable_series
from ...kernels.chebyshev.torch_csr import csr_matrix
from ...kernels.csr import CSR
from .routes import Routes


class HaloOperator(AdjointOperator):
    """CSR products in bounded memory, with an exchange of rows before each product.

    Columns of the pattern are the n rows of this process, then those of the halo.
    """

    def __init__(self, csr: CSR, halo: Routes, value: Tensor, diagonal: Tensor | None) -> None:
        self.num_nodes, self.num_columns = csr.num_rows, csr.num_rows + halo.size
        self.csr, self.halo = csr, halo
        self.values = (value,) if diagonal is None else (value, diagonal)

    def series(self, x: Tensor, coefficients: Tensor) -> Tensor:
        """See :class:`Operator`; a process without rows takes part in every exchange as well."""
        return differentiable_series(self, x, coefficients)

    def _agree_on_terms(self, count: int) -> int:
        """See :class:`Operator`: every term is an exchange, in which all processes take part."""
        return int(self.halo.ranks.largest(torch.tensor([count])))

    def gather(self, x: Tensor) -> Tensor:
        """Append the rows of the halo."""
        return self.halo.append(x)

    def product(self, x: Tensor, gathered: Tensor) -> Tensor:
        """Return S x."""
        return self.step(x, gathered, None, torch.empty_like(x), 1)

    def step(
        self, term: Tensor, gathered: Tensor, before: Tensor | None, out: Tensor, alpha: float
    ) -> Tensor:
        """See :class:`AdjointOperator`."""
        s = csr_matrix(self.csr, self.values[0], self.num_columns)
        if before is None:
            torch.addmm(term, s, gathered, beta=0, alpha=alpha, out=out)
        else:
            torch.addmm(before, s, gathered, beta=-1, alpha=alpha, out=out)
        if len(self.values) > 1:
            out.addcmul_(self.values[1].unsqueeze(-1), term, value=alpha)
        return out

    def add_gradient(
        self,
        totals: Sequence[Tensor],
        b: Tensor,
        t: Tensor,
        of_b: Tensor,
        of_t: Tensor,
        scale: float,
    ) -> None:
        """Add <b[i], t[j]> on the slots alone, and on the diagonal."""
        if totals[0].numel() and b.numel():
            total = csr_matrix(self.csr, totals[0], self.num_columns)
            torch.sparse.sampled_addmm(total, b, of_t.t(), alpha=scale, out=total)
        if len(totals) > 1:
            totals[1].add_((b * t).sum(1), alpha=scale)
