r"""An operator S together with how the Laplacian is made of it: what diffusion takes in.

.. math::
    e^{-t \mathbf{L}} =
    \mathbf{P}^{-1} e^{-t \, \mathrm{diag}(r) (\mathbf{I} - \mathbf{S})} \mathbf{P}
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .._checks import numbers_of
from ..kernels.chebyshev import Operator


@dataclass(frozen=True)
class Scaling:
    """What stands between S and the Laplacian; by default nothing: L = I - S."""

    rate: Tensor | None = None  # [G] the rate r of each group of nodes; None: one everywhere
    group: Tensor | None = None  # [N] the group of each node; None: a single group
    row_scale: Tensor | None = None  # [N] the diagonal of P; None: the identity
    isolated: Tensor | None = None  # [N] bool, nodes that keep their features; None: no node does

    def condition(self) -> float:
        """The condition number of P: how much it can magnify an error."""
        if self.row_scale is None or self.row_scale.numel() == 0:
            return 1.0
        row_scale = numbers_of(self.row_scale)
        return float(row_scale.max() / row_scale.min())


@dataclass(frozen=True)
class HeatOperator:
    """The generator of a heat flow.

    Of an operator of your own, :func:`~jsem_pyg.diffusion.diffuse` makes one by itself.
    """

    matrix: Operator  # S, symmetric, with its spectrum in [-1, 1]
    scaling: Scaling = field(default_factory=Scaling)

    @property
    def num_nodes(self) -> int:
        """The number N of nodes."""
        return self.matrix.num_nodes

    @torch.no_grad()
    def apply_laplacian(self, x: Tensor) -> Tensor:
        """L x for x [N, M]: for laws, spectra and tests."""
        scaling = self.scaling
        scale = 1.0 if scaling.row_scale is None else scaling.row_scale.unsqueeze(-1)
        rate: Tensor | float = 1.0
        if scaling.rate is not None:
            rate = scaling.rate if scaling.group is None else scaling.rate[scaling.group]
            rate = rate.to(x).reshape(-1, 1)
        out = rate * (scale * x - self.matrix.apply(scale * x)) / scale
        if scaling.isolated is not None:
            out = out.masked_fill(scaling.isolated.unsqueeze(-1), 0.0)
        return out
