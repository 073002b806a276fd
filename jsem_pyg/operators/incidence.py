r"""The operator of a hypergraph through its incidence matrix, in two products.

:math:`\mathbf{S}^{\prime} \mathbf{Z} = 2 \mathbf{D} \mathbf{H} \mathbf{B} \mathbf{H}^{\top}
\mathbf{D} \mathbf{Z} - \mathbf{Z}` with the diagonal matrices D (`inverse_root`) and B (`share`),
from right to left. H holds constants, so weights need no sparse gradient: with
:math:`\mathbf{U}(\mathbf{Z}) = \mathbf{H}^{\top} \mathbf{D} \mathbf{Z}` and
:math:`\mathbf{V}(\mathbf{Z}) = \mathbf{H} \mathbf{B} \mathbf{U}(\mathbf{Z})`,

.. math::
    \partial_{b_e} \langle \mathbf{b}, \mathbf{S}^{\prime} \mathbf{t} \rangle
    &= 2 \langle U(\mathbf{b})_e, U(\mathbf{t})_e \rangle

    \partial_{d_i} \langle \mathbf{b}, \mathbf{S}^{\prime} \mathbf{t} \rangle
    &= 2 ( \langle \mathbf{b}_i, V(\mathbf{t})_i \rangle
    + \langle V(\mathbf{b})_i, \mathbf{t}_i \rangle )

which are row-wise products of what the two recurrences compute anyway. Memory holds a few [N, M]
and [E, M] tensors, whatever the number of terms, and never a message for each membership.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from ..graph import HypergraphStructure
from ..kernels.chebyshev import AdjointOperator, Operator
from ..kernels.chebyshev.torch_csr import csr_matrix


class MessageOperator(Operator):
    """S' by a message for each membership: plain torch, on any device, the definition.

    Args:
        num_nodes: N.
        two_steps: maps x to H diag(share) H^T x.
        inverse_root: [N].
    """

    def __init__(
        self, num_nodes: int, two_steps: Callable[[Tensor], Tensor], inverse_root: Tensor
    ) -> None:
        self.num_nodes, self.two_steps = num_nodes, two_steps
        self.root = inverse_root.unsqueeze(-1)

    def apply(self, x: Tensor) -> Tensor:
        """Gather, multiply, scatter-add, twice."""
        return 2 * self.root * self.two_steps(self.root * x) - x


class IncidenceOperator(AdjointOperator):
    """S' by two CSR products, in bounded memory.

    Args:
        structure: the prepared hypergraph.
        share: [E] what a hyperedge gives each member.
        inverse_root: [N].
    """

    def __init__(self, structure: HypergraphStructure, share: Tensor, inverse_root: Tensor) -> None:
        self.num_nodes, self.structure = structure.num_nodes, structure
        self.values = (share, inverse_root)

    @cached_property
    def _incidence(self) -> tuple[Tensor, Tensor]:
        """H [N, E] and H^T [E, N]."""
        structure, dtype = self.structure, self.values[0].dtype
        pattern, order = structure.transpose
        count = structure.multiplicity.to(dtype)
        return (
            csr_matrix(structure.incidence, count, structure.num_hyperedges),
            csr_matrix(pattern, count[order], structure.num_nodes),
        )

    def _products(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """S' Z, U(Z) and V(Z)."""
        h, h_t = self._incidence
        share, root = (each.detach().unsqueeze(-1) for each in self.values)
        u = h_t @ (root * z)
        v = h @ (share * u)
        return torch.addcmul(-z, root, v, value=2), u, v

    def apply(self, x: Tensor) -> Tensor:
        """Two products."""
        return self._products(x)[0]

    def add_gradient(self, totals: Sequence[Tensor], b: Tensor, t: Tensor, scale: float) -> None:
        """Four products; :meth:`step_back` has them already."""
        self._add_gradient(totals, b, t, self._products(b), self._products(t), scale)

    @staticmethod
    def _add_gradient(
        totals: Sequence[Tensor],
        b: Tensor,
        t: Tensor,
        of_b: tuple[Tensor, Tensor, Tensor],
        of_t: tuple[Tensor, Tensor, Tensor],
        scale: float,
    ) -> None:
        (_, u_b, v_b), (_, u_t, v_t) = of_b, of_t
        totals[0].add_(torch.linalg.vecdot(u_b, u_t), alpha=2 * scale)
        totals[1].add_(torch.linalg.vecdot(b, v_t), alpha=2 * scale)
        totals[1].add_(torch.linalg.vecdot(v_b, t), alpha=2 * scale)

    def step_back(
        self,
        b: Tensor,
        b_after: Tensor,
        t: Tensor,
        t_after: Tensor,
        t_out: Tensor | None,
        totals: Sequence[Tensor] | None,
        alpha: float,
    ) -> None:
        """See :class:`~jsem_pyg.kernels.chebyshev.AdjointOperator`: the products serve both."""
        of_b = self._products(b)
        if totals is not None or t_out is not None:
            of_t = self._products(t)
            if totals is not None:
                self._add_gradient(totals, b, t, of_b, of_t, alpha)
            if t_out is not None:
                torch.sub(2 * of_t[0], t_after, out=t_out)
        torch.sub(alpha * of_b[0], b_after, out=b_after)
