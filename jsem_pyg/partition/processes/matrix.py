"""The operator of some rows, whose columns reach to rows of other processes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...kernels.chebyshev import AdjointOperator
from ...kernels.chebyshev.series import differentiable_series
from ...kernels.chebyshev.torch_csr import csr_matrix
from ...kernels.csr import CSR
from .routes import Routes


class HaloPattern(NamedTuple):
    """The slots of some rows: columns are these n rows, then those of the halo."""

    csr: CSR
    halo: Routes

    @property
    def num_columns(self) -> int:
        """Count these rows and the rows of the halo."""
        return self.csr.num_rows + self.halo.size


class HaloOperator(AdjointOperator):
    """CSR products in bounded memory, with an exchange of rows before each product."""

    def __init__(self, pattern: HaloPattern, value: Tensor, diagonal: Tensor | None) -> None:
        self.num_nodes = pattern.csr.num_rows
        self.pattern = pattern
        self.values = (value,) if diagonal is None else (value, diagonal)

    def series(self, x: Tensor, coefficients: Tensor) -> Tensor:
        """See :class:`Operator`; a process without rows takes part in every exchange as well."""
        return differentiable_series(self, x, coefficients)

    def _agree_on_terms(self, count: int) -> int:
        """See :class:`Operator`: every term is an exchange, in which all processes take part."""
        return int(self.pattern.halo.ranks.largest(torch.tensor([count])))

    def product(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return S x, and x with the rows of the halo."""
        out = torch.empty_like(x)
        return out, self._step(x, None, out, 1)

    def step(self, term: Tensor, before: Tensor | None, out: Tensor, alpha: float) -> None:
        """See :class:`AdjointOperator`."""
        self._step(term, before, out, alpha)

    def add_gradient(
        self, totals: Sequence[Tensor], b: Tensor, t: Tensor, of_b: Any, of_t: Any, scale: float
    ) -> None:
        """Add <b[i], t[j]> on the slots alone, and on the diagonal."""
        if totals[0].numel() and b.numel():
            total = csr_matrix(self.pattern.csr, totals[0], self.pattern.num_columns)
            torch.sparse.sampled_addmm(total, b, of_t.t(), alpha=scale, out=total)
        if len(totals) > 1:
            totals[1].add_((b * t).sum(1), alpha=scale)

    def _step(self, term: Tensor, before: Tensor | None, out: Tensor, alpha: float) -> Tensor:
        """Write alpha S term - before into `out`; return the term with the rows of the halo."""
        together = self.pattern.halo.append(term)
        s = csr_matrix(self.pattern.csr, self.values[0], self.pattern.num_columns)
        if before is None:
            torch.addmm(term, s, together, beta=0, alpha=alpha, out=out)
        else:
            torch.addmm(before, s, together, beta=-1, alpha=alpha, out=out)
        if len(self.values) > 1:
            out.addcmul_(self.values[1].unsqueeze(-1), term, value=alpha)
        return together
