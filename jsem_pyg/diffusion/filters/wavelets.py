"""Wavelets: a low pass and a band for each scale, whose squares sum to one."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from .filter import FilterBank, positive
from .low_pass import FromFunction


def Wavelets(scales: Sequence[float | Tensor] | Tensor) -> FilterBank:
    r"""Make a low pass and a wavelet for each scale, a tight frame: :math:`\sum_s f_s^2 = 1`.

    So :math:`\sum_s ||f_s(L) x||^2 = ||x||^2` for symmetric L, and :math:`\sum_s f_s(L) y_s` is the
    signal of the coefficients :math:`y_s = f_s(L) x`. The low pass is first, then the Mexican hats
    :math:`t \lambda e^{-t \lambda}` from the largest scale to the smallest (Hammond et al. 2011,
    section 8), divided by the root of the sum of all squares.

    Args:
        scales: times > 0, numbers or 0-d tensors. A wavelet of the scale t answers mostly
            eigenvalues about 1 / t.
    """
    if isinstance(scales, Tensor):
        scales = scales.unbind() if scales.dim() else [scales]
    times = sorted((positive("scales", each) for each in scales), key=float, reverse=True)
    if not times:
        raise ValueError("Expected 'scales' to hold at least one time (got none).")
    numbers = {f"t{index}": t for index, t in enumerate(times)}
    parts = []
    for index in range(len(times) + 1):
        part = partial(_wavelet, index)
        part.__name__ = "wavelet" if index else "low_pass"  # type: ignore[attr-defined]
        parts.append(FromFunction(part, **numbers))
    return FilterBank(*parts)


def _wavelet(index: int, eigenvalue: Tensor, **times: Tensor) -> Tensor:
    scaled = torch.stack([t * eigenvalue for t in times.values()])
    # The low pass is as high as a wavelet's peak, and ends where the first wavelet rises.
    low = -1 - (scaled[:1] / 0.6) ** 4
    high = scaled.clamp_min(1e-300).log() - scaled
    return torch.exp(torch.cat([2 * low, 2 * high]).log_softmax(0)[index] / 2)
