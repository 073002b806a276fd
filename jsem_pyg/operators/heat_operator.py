r"""An operator S and what leads from it to the Laplacian: the input of a diffusion.

.. math::
    e^{-t \mathbf{L}} = \mathbf{P}^{-1} e^{-t r (\mathbf{I} - \mathbf{S})} \mathbf{P}
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..kernels.chebyshev import Operator


@dataclass(frozen=True)
class HeatOperator:
    """An operator S with the rate and the diagonal that turn it into a Laplacian; L = I - S.

    Of an operator of your own, :func:`~jsem_pyg.diffusion.diffuse` makes one by itself.
    """

    matrix: Operator  #: S, symmetric, with its spectrum in [-1, 1]
    rate: float = 1.0  #: r, half a bound of the spectrum of L
    row_scale: Tensor | None = None  #: [N] the diagonal of P, at most one; None: the identity
    isolated: Tensor | None = None  #: [N] bool, nodes that keep their features; None: no node does
    condition: float = 1.0  #: the condition number of P: how much it can magnify an error
    dtype: torch.dtype | None = None  #: what signals are computed in; None: their own type

    @property
    def num_nodes(self) -> int:
        """The number N of nodes."""
        return self.matrix.num_nodes

    def apply_laplacian(self, x: Tensor) -> Tensor:
        """Return L x for x [N, M]: for laws, spectra and tests; differentiable."""
        scale = None if self.row_scale is None else self.row_scale.unsqueeze(-1)
        scaled = x if scale is None else scale * x
        out = self.rate * (scaled - self.matrix.apply(scaled))
        out = out if scale is None else out / scale
        return out if self.isolated is None else out.masked_fill(self.isolated.unsqueeze(-1), 0.0)
