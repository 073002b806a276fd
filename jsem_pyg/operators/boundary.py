r"""An operator made of a boundary matrix B with entries 1 and -1, in two products.

:math:`\mathbf{S} = \mathbf{I} - \mathbf{D B M B}^{\top} \mathbf{D}` with diagonal D (`root`) and
M (`share`). With :math:`\mathbf{U}(\mathbf{Z}) = \mathbf{B}^{\top} \mathbf{D Z}` and
:math:`\mathbf{V}(\mathbf{Z}) = \mathbf{B M} \mathbf{U}(\mathbf{Z})`,

.. math::
    \partial_{m_k} \langle \mathbf{b}, \mathbf{S t} \rangle
    &= - \langle U(\mathbf{b})_k, U(\mathbf{t})_k \rangle

    \partial_{d_e} \langle \mathbf{b}, \mathbf{S t} \rangle
    &= - \langle \mathbf{b}_e, V(\mathbf{t})_e \rangle
    - \langle V(\mathbf{b})_e, \mathbf{t}_e \rangle
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..graph.simplicial_structure import SignedIncidence
from ..kernels.chebyshev import AdjointOperator, Gradients, Needs, Operator
from ..kernels.chebyshev.torch_csr import csr_matrix


class BoundaryOperator(AdjointOperator):
    """S = I - D B M B^T D, in bounded memory.

    Args:
        b: B, a row for each edge, a column for each node or triangle.
        b_t: its transpose.
        root: [M] the diagonal of D.
        share: the diagonal of M, an entry for each column of B.
        sparse: whether to multiply by torch's CSR products, or by messages, on any device.
    """

    def __init__(
        self, b: SignedIncidence, b_t: SignedIncidence, root: Tensor, share: Tensor, sparse: bool
    ) -> None:
        self.num_nodes, self.values = b.csr.num_rows, (root, share)
        self._b, self._b_t = (_product(each, root.dtype, sparse) for each in (b, b_t))

    def _products(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """U(z) and V(z)."""
        root, share = (each.unsqueeze(-1) for each in self.values)
        u = self._b_t(root * z)
        return u, self._b(share * u)

    def apply(self, x: Tensor) -> Tensor:
        """Two products."""
        return x - self.values[0].unsqueeze(-1) * self._products(x)[1]

    def differentiate(
        self, kept: Tensor, coefficients: Tensor, group: Tensor | None, grad: Tensor, needs: Needs
    ) -> Gradients:
        """In full precision, since a backward pass may be called under autocast."""
        with torch.autocast(grad.device.type, enabled=False):
            return super().differentiate(kept, coefficients, group, grad, needs)

    def add_gradient(self, totals: Sequence[Tensor], b: Tensor, t: Tensor, scale: float) -> None:
        """See the head of this file."""
        (u_b, v_b), (u_t, v_t) = self._products(b), self._products(t)
        totals[0].add_(torch.linalg.vecdot(b, v_t) + torch.linalg.vecdot(v_b, t), alpha=-scale)
        totals[1].add_(torch.linalg.vecdot(u_b, u_t), alpha=-scale)


class AutogradOperator(Operator):
    """Another operator, whose derivatives are left to autograd: as often as one likes."""

    def __init__(self, operator: Operator) -> None:
        self.num_nodes, self.operator = operator.num_nodes, operator

    def apply(self, x: Tensor) -> Tensor:
        """S x, as the other operator has it."""
        return self.operator.apply(x)


def _product(
    matrix: SignedIncidence, dtype: torch.dtype, sparse: bool
) -> Callable[[Tensor], Tensor]:
    """The map z -> matrix @ z."""
    csr, sign = matrix.csr, matrix.sign.to(dtype)
    if sparse:
        return csr_matrix(csr, sign, matrix.num_cols).matmul
    return lambda z: z.new_zeros(csr.num_rows, z.size(1)).index_add(
        0, csr.row, sign.unsqueeze(-1) * z.index_select(0, csr.col)
    )
