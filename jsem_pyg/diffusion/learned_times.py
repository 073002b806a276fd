r"""Times that a layer has learned, on a GPU: the host goes on before it knows them.

The number of terms follows from the longest time. If the host waited for it before it launched the
series, the GPU would have nothing to do meanwhile. So it takes a bound in place of the time, one of
eight steps an octave: that of the last call is right until the time passes a step. The device
computes times and coefficients, and the host reads the times once the whole call is launched. If
their bound is another one, the layer computes the call again. So results depend on the times alone,
and are as precise as with times that are known.
"""

import math

import torch
from torch import Tensor

from ..kernels.host_copy import HostCopy
from ..operators import HeatOperator
from .heat_coefficients import LONGEST, device_table
from .options import HeatOptions
from .times import check_reach, read_times, series_degree

_SHORTEST = 1e-3  # the bound of all times below


class LearnedTimes:
    """Times t_0 exp(r u) for a parameter u on a device, of which a bound is known."""

    def __init__(self, raw: Tensor, start: Tensor, rate: float, bound: float) -> None:
        shape = raw.shape if raw.dim() == 2 else (-1, 1)
        self.raw, self.start, self.rate = raw.reshape(shape), start.reshape(shape), rate
        self.bound = bound
        self._sent: HostCopy | None = None

    def reach(self, fastest: float) -> float:
        """Return the longest time in units of a rate, or what is known of it."""
        return self.bound * fastest

    def coefficients(
        self, operator: HeatOperator, dtype: torch.dtype, options: HeatOptions
    ) -> Tensor:
        """Compute the coefficients [K + 1, S, 1 or D] on the device, and send the times."""
        from ..kernels.fused.heat import learned_coefficients

        degree = series_degree(self.bound, operator.scaling, dtype, options)
        samples, cosines, _ = device_table(degree, self.bound, self.raw.device)
        table = samples, cosines
        found, times = learned_coefficients(self.raw, self.start, self.rate, table, dtype)
        self._sent = HostCopy(times)
        return found

    def at_zero(self) -> Tensor:
        """Return ones [S]: isolated nodes keep their features."""
        return torch.ones(self.raw.size(0), dtype=torch.float64, device="cpu")

    def read_bound(self) -> float:
        """Return the bound of the times that the device has found."""
        assert self._sent is not None
        longest = read_times(self._sent.read(), self.raw.size(-1)).longest
        check_reach(longest, 1.0)
        return time_bound(longest)


def time_bound(longest: float) -> float:
    """Round a time up to a step; none is at a power of two, where times often begin.

    Example:
        >>> round(time_bound(5.0), 3)
        5.417
    """
    step = math.ceil(8 * math.log2(max(longest, _SHORTEST)) + 0.5) - 0.5
    return min(2 ** (step / 8), LONGEST)
