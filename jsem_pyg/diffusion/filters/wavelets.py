"""Wavelets: a low pass and a band for each scale, whose squares sum to one."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._checks import check_choice, check_instance
from ...operators import HeatOperator
from ..evolve import sum_series
from ..options import HeatOptions
from ..times import check_signal
from .filter import Filter, positive


class Wavelets(Filter):
    r"""A low pass and a wavelet for each scale, a tight frame: :math:`\sum_s f_s^2 = 1`.

    So :math:`\sum_s ||f_s(L) x||^2 = ||x||^2` for symmetric L, and :meth:`synthesize` inverts the
    analysis. The low pass is first, then wavelets from the largest scale to the smallest.

    Args:
        scales: times > 0. A wavelet of the scale t answers mostly eigenvalues about 1 / t.
        kind: "mexican_hat", :math:`t \lambda e^{-t \lambda}` (Hammond et al. 2011, section 8),
            divided by the root of the sum of all squares; or "meyer", bands that overlap only with
            the next (Leonardi and Van De Ville 2013, "Tight wavelet frames on multislice graphs"),
            between powers of one ratio: `scales` are a geometric sequence. Its series is long,
            since its third derivative jumps: take a `tol` of 1e-3.
    """

    def __init__(self, scales: Sequence[float] | Tensor, kind: str = "mexican_hat") -> None:
        super().__init__()
        check_choice("kind", kind, ("mexican_hat", "meyer"))
        self.scales = positive("scales", scales, 1)
        self.kind, self.num_filters = kind, self.scales.numel() + 1
        step = self.scales.detach().double().sort().values.log().diff()
        if kind == "meyer" and not torch.allclose(step, step[:1], rtol=1e-5):
            raise ValueError(
                "Expected 'scales' of Meyer's wavelets to be a geometric sequence "
                f"(got {self.scales.tolist()})."
            )

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        scales = self.scales.to(eigenvalue).sort(descending=True).values
        if self.kind == "meyer":
            return _meyer(eigenvalue, scales)
        scaled = scales.reshape(-1, *[1] * eigenvalue.dim()) * eigenvalue
        # The low pass is as high as a wavelet's peak, and ends where the first wavelet rises.
        low = -1 - (scaled[:1] / 0.6) ** 4
        high = scaled.clamp_min(1e-300).log() - scaled
        return torch.exp(torch.cat([2 * low, 2 * high]).log_softmax(0) / 2)

    def synthesize(self, y: Tensor, operator: HeatOperator, tol: float = 1e-6) -> Tensor:
        """Return the signal [..., N, D] of wavelet coefficients [..., S, N, D].

        It is the adjoint of the analysis, in the inner product that L is symmetric in, and its
        inverse, since the frame is tight.
        """
        options = HeatOptions(tol=tol)
        check_signal(y, "y")
        check_instance("operator", operator, HeatOperator, "a HeatOperator")
        sizes = (self.num_filters, operator.num_nodes)
        if y.shape[-3:-1] != sizes:
            raise ValueError(
                f"Expected 'y' to have shape [..., {sizes[0]}, {sizes[1]}, D], of the filters and "
                f"nodes (got {list(y.shape)})."
            )
        coefficients = self.coefficients(y, operator, options)
        parts = zip(y.unbind(-3), coefficients.split(1, 1), self.at_zero(), strict=True)
        return torch.cat([sum_series(part, operator, *each) for part, *each in parts], -3).sum(-3)


def _meyer(eigenvalue: Tensor, scales: Tensor) -> Tensor:
    """Bands between 1 / t of neighbouring scales, in the logarithm of the eigenvalue."""
    edges = (1 / scales).log()
    width = (edges[1:] - edges[:-1]).mean() if len(edges) > 1 else edges.new_tensor(1.0)
    at = (eigenvalue.clamp_min(1e-300).log() - edges.reshape(-1, *[1] * eigenvalue.dim())) / width
    u = at.clamp(0, 1)
    ramp = u**4 * (35 - 84 * u + 70 * u**2 - 20 * u**3)
    up, down = torch.sin(torch.pi / 2 * ramp), torch.cos(torch.pi / 2 * ramp)
    return torch.cat([down[:1], up[:-1] * down[1:], up[-1:]])
