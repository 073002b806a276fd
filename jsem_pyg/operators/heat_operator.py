r"""An operator S and the scaling between S and the Laplacian: the input of a diffusion.

.. math::
    e^{-t \mathbf{L}} =
    \mathbf{P}^{-1} e^{-t \, \mathrm{diag}(r) (\mathbf{I} - \mathbf{S})} \mathbf{P}
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from .._checks import numbers_of
from .._precision import power_of_two
from ..kernels.chebyshev import Operator


class NumericalRange(NamedTuple):
    """The smallest and largest rates and scales; infinity and zero where there are none."""

    slowest: float  # of the positive rates, in components in which something flows
    fastest: float
    lowest_scale: float  # of `row_scale`
    highest_scale: float


@dataclass(frozen=True)
class Scaling:
    """The rates and the diagonal that turn S into the Laplacian; by default L = I - S."""

    rate: Tensor | None = None  #: [G] the rate r of each group of nodes; None: one everywhere
    group: Tensor | None = None  #: [N] the group of each node; None: a single group
    row_scale: Tensor | None = None  #: [N] the diagonal of P; None: the identity
    isolated: Tensor | None = None  #: [N] bool, nodes that keep their features; None: no node does
    #: over the rows of all processes; None: this process has all rows
    shared_range: NumericalRange | None = None

    def to(self, dtype: torch.dtype) -> "Scaling":
        """The same in another type, except the rates, which only coefficients are made of.

        P is divided by a power of two, which changes nothing: its largest entry is of order one,
        so that no signal times P overflows.
        """
        if self.row_scale is None or self.row_scale.numel() == 0:
            return self
        highest = self.row_scale.max()
        if self.shared_range is not None:
            highest = torch.full_like(highest, self.shared_range.highest_scale)
        relative = self.row_scale / power_of_two(highest)
        return replace(self, row_scale=relative.to(dtype))

    @cached_property
    def own_range(self) -> NumericalRange:
        """The range of the rates and scales of these rows."""
        slowest, fastest = lowest, highest = 1.0, 1.0
        if self.rate is not None:
            rate = numbers_of(self.rate)
            slowest, fastest = _ends(rate[rate > 0])
        if self.row_scale is not None:
            lowest, highest = _ends(numbers_of(self.row_scale))
        return NumericalRange(slowest, fastest, lowest, highest)

    @cached_property
    def condition(self) -> float:
        """The condition number of P: how much it can magnify an error; infinite if P underflows."""
        if self.row_scale is None:
            return 1.0
        *_, lowest, highest = self.shared_range or self.own_range
        if highest == 0 and math.isinf(lowest):
            return 1.0  # there are no rows
        return highest / lowest if lowest > 0 else math.inf

    @cached_property
    def rates(self) -> tuple[float, float]:
        """The lowest and the highest rate at which anything flows; one where there is none."""
        slowest, fastest, *_ = self.shared_range or self.own_range
        return (slowest, fastest) if fastest > 0 else (1.0, 1.0)

    @cached_property
    def fastest(self) -> float:
        """The highest rate at which anything flows; zero where there is none."""
        return (self.shared_range or self.own_range).fastest


def _ends(values: Tensor) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if values.numel() else (math.inf, 0.0)


@dataclass(frozen=True)
class HeatOperator:
    """An operator S with the scaling that makes it a Laplacian: what a diffusion needs.

    Of an operator of your own, :func:`~jsem_pyg.diffusion.diffuse` makes one by itself.
    """

    matrix: Operator  #: S, symmetric, with its spectrum in [-1, 1]
    scaling: Scaling = field(default_factory=Scaling)  #: how the Laplacian is made of it
    dtype: torch.dtype | None = None  #: what signals are computed in; None: their own type

    @property
    def num_nodes(self) -> int:
        """The number N of nodes."""
        return self.matrix.num_nodes

    def apply_laplacian(self, x: Tensor) -> Tensor:
        """L x for x [N, M]: for laws, spectra and tests; differentiable."""
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
