r"""An operator made of an incidence matrix, applied by its factors in two products.

:math:`\mathbf{S} = \alpha \mathbf{I} + \beta \mathbf{D B M B}^{\top} \mathbf{D}` with an incidence
or boundary matrix B of constants and the diagonals D (`root`) and M (`share`): of a hypergraph, and
of either part of a Hodge Laplacian. With
:math:`\mathbf{U}(\mathbf{Z}) = \mathbf{B}^{\top} \mathbf{D Z}` and
:math:`\mathbf{V}(\mathbf{Z}) = \mathbf{B M} \mathbf{U}(\mathbf{Z})`,

.. math::
    \partial_{m_k} \langle \mathbf{b}, \mathbf{S t} \rangle
    &= \beta \, \langle U(\mathbf{b})_k, U(\mathbf{t})_k \rangle

    \partial_{d_i} \langle \mathbf{b}, \mathbf{S t} \rangle
    &= \beta \, ( \langle \mathbf{b}_i, V(\mathbf{t})_i \rangle
    + \langle V(\mathbf{b})_i, \mathbf{t}_i \rangle )

which are row-wise products of what the recurrences compute anyway. So weights need no sparse
gradient, and memory holds a few tensors with a row for each row or column of B, whatever the number
of terms, and never a message for each entry.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..kernels.chebyshev import AdjointOperator, Operator
from ..kernels.chebyshev.torch_csr import csr_matrix
from ..kernels.csr import Incidence
from ..kernels.table import FACTORED
from ..kernels.torch_func import lasting


class Products(NamedTuple):
    """Intermediate results of a product."""

    u: Tensor  # B^T D z
    v: Tensor  # B M B^T D z


class FactoredOperator(AdjointOperator):
    """S = alpha I + beta D B M B^T D, in bounded memory, of B and its transpose.

    D (`root`) has an entry for each row of B, M (`share`) for each column. Of the backends,
    "torch" makes CSR products; "reference" makes messages, on any device, and leaves the
    derivative to autograd.
    """

    def __init__(
        self,
        b: tuple[Incidence, Incidence],
        root: Tensor,
        share: Tensor,
        alpha: float,
        beta: float,
        backend: str = "auto",
    ) -> None:
        self.num_nodes, self.values = b[0].csr.num_rows, (root, share)
        self.alpha, self.beta = alpha, beta
        self.by_autograd = backend == "reference"
        by_messages = FACTORED.choose(backend, root.device) == "reference"
        multiply = _by_messages if by_messages else _by_csr
        self._b, self._b_t = (multiply(each, root.dtype) for each in b)

    def series(self, x: Tensor, coefficients: Tensor) -> Tensor:
        """See :class:`Operator`."""
        if self.by_autograd:
            return Operator.series(self, x, coefficients)
        return super().series(x, coefficients)

    def gather(self, x: Tensor) -> Products:
        """Multiply by B^T, and by B."""
        root, share = (each.unsqueeze(-1) for each in self.values)
        u = self._b_t(root * x)
        return Products(u, self._b(share * u))

    def product(self, x: Tensor, gathered: Products) -> Tensor:
        """Return S x."""
        root = self.values[0].unsqueeze(-1)
        return torch.addcmul(self.alpha * x, root, gathered.v, value=self.beta)

    def add_gradient(
        self,
        totals: Sequence[Tensor],
        b: Tensor,
        t: Tensor,
        of_b: Products,
        of_t: Products,
        scale: float,
    ) -> None:
        """See the head of this file."""
        factor = scale * self.beta
        totals[0].add_(torch.linalg.vecdot(b, of_t.v), alpha=factor)
        totals[0].add_(torch.linalg.vecdot(of_b.v, t), alpha=factor)
        totals[1].add_(torch.linalg.vecdot(of_b.u, of_t.u), alpha=factor)


@lasting
def _by_csr(matrix: Incidence, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return csr_matrix(matrix.csr, matrix.value.to(dtype), matrix.num_cols).matmul


@lasting
def _by_messages(matrix: Incidence, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Gather, multiply, scatter-add: as often differentiable as one likes."""
    csr, value = matrix.csr, matrix.value.to(dtype).unsqueeze(-1)
    return lambda z: z.new_zeros(csr.num_rows, z.size(1)).index_add(
        0, csr.row, value * z.index_select(0, csr.col)
    )
