r"""An operator S together with how the Laplacian is made of it: what diffusion takes in.

.. math::
    e^{-t \mathbf{L}} =
    \mathbf{P}^{-1} e^{-t \, \mathrm{diag}(r) (\mathbf{I} - \mathbf{S})} \mathbf{P}
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from .._checks import numbers_of
from .._precision import power_of_two
from ..kernels.chebyshev import Operator


class Limits(NamedTuple):
    """How far rates and scales reach, where other processes hold other rows."""

    slowest: float  # of the rates of components in which something flows; infinite: there are none
    fastest: float  # likewise, zero if there are none
    lowest_scale: float  # of `row_scale`
    highest_scale: float


@dataclass(frozen=True)
class Scaling:
    """What stands between S and the Laplacian; by default nothing: L = I - S."""

    rate: Tensor | None = None  #: [G] the rate r of each group of nodes; None: one everywhere
    group: Tensor | None = None  #: [N] the group of each node; None: a single group
    row_scale: Tensor | None = None  #: [N] the diagonal of P; None: the identity
    isolated: Tensor | None = None  #: [N] bool, nodes that keep their features; None: no node does
    limits: Limits | None = None  #: of all processes; None: this one has all rows

    def to(self, dtype: torch.dtype) -> "Scaling":
        """The same in another type, but for the rates, which only coefficients are made of.

        P is divided by a power of two, which changes nothing: its largest entry is of order one,
        so that no signal times P overflows.
        """
        if self.row_scale is None or self.row_scale.numel() == 0:
            return self
        highest = self.row_scale.max()
        if self.limits is not None:
            highest = torch.full_like(highest, self.limits.highest_scale)
        relative = self.row_scale / power_of_two(highest)
        return replace(self, row_scale=relative.to(dtype))

    def condition(self) -> float:
        """The condition number of P: how much it can magnify an error; infinite if P underflows."""
        lowest, highest = self.scale_range()
        if self.limits is not None and self.row_scale is not None:
            lowest, highest = self.limits.lowest_scale, self.limits.highest_scale
        if highest == 0 and lowest == float("inf"):
            return 1.0  # there are no rows
        return highest / lowest if lowest > 0 else float("inf")

    def rates(self) -> tuple[float, float]:
        """The lowest and the highest rate at which anything flows; one where there is none."""
        slowest, fastest = self.rate_range() if self.limits is None else self.limits[:2]
        return (slowest, fastest) if fastest > 0 else (1.0, 1.0)

    def fastest(self) -> float:
        """The highest rate at which anything flows; zero where there is none."""
        return self.rate_range()[1] if self.limits is None else self.limits.fastest

    def rate_range(self) -> tuple[float, float]:
        """The lowest and the highest positive rate of these rows; none: infinity and zero."""
        if self.rate is None:
            return 1.0, 1.0
        rate = numbers_of(self.rate)
        rate = rate[rate > 0]
        return (float(rate.min()), float(rate.max())) if rate.numel() else (float("inf"), 0.0)

    def scale_range(self) -> tuple[float, float]:
        """The lowest and the highest entry of P in these rows; none: infinity and zero."""
        if self.row_scale is None:
            return 1.0, 1.0
        row_scale = numbers_of(self.row_scale)
        if row_scale.numel() == 0:
            return float("inf"), 0.0
        return float(row_scale.min()), float(row_scale.max())


@dataclass(frozen=True)
class HeatOperator:
    """The generator of a heat flow.

    Of an operator of your own, :func:`~jsem_pyg.diffusion.diffuse` makes one by itself.
    """

    matrix: Operator  #: S, symmetric, with its spectrum in [-1, 1]
    scaling: Scaling = field(default_factory=Scaling)  #: how the Laplacian is made of it
    dtype: torch.dtype | None = None  #: what signals are computed in; None: their own type

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
