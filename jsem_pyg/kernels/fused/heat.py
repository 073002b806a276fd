r"""The coefficients of the heat series for a learned time, made where the time lies: on the device.

:mod:`jsem_pyg.diffusion.heat_coefficients` has the formula. For :math:`t = t_0 e^{r u}` with the
parameter u, one kernel computes t, every c_k and its derivative in u, in float64; another one sums
the gradient of u.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

_SAMPLES = 16  # samples of a table that a program holds at a time
_MOST_TIMES = 64  # times of a program


def learned_coefficients(
    raw: Tensor, start: Tensor, rate: float, table: tuple[Tensor, Tensor], dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Compute c_k(t) [K + 1, *shape] for u and t_0 of one shape, and the times in float64.

    Args:
        raw: u; the coefficients are differentiable in it.
        start: t_0.
        rate: r.
        table: 1 - s at the samples [M, 1] and the cosines [K + 1, M], in float64.
        dtype: the type of the coefficients.
    """
    found: tuple[Tensor, Tensor] = _Coefficients.apply(raw, start, rate, table, dtype)
    return found


class _Coefficients(torch.autograd.Function):
    """(raw, start, rate, table, dtype) -> (the coefficients, the times)."""

    @staticmethod
    def forward(
        ctx: Any,
        raw: Tensor,
        start: Tensor,
        rate: float,
        table: tuple[Tensor, Tensor],
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        (samples, cosines), raw, start = table, raw.contiguous(), start.contiguous()
        num_terms, num_times = cosines.size(0), raw.numel()
        coefficients = raw.new_empty((num_terms, *raw.shape), dtype=dtype)
        slopes = torch.empty_like(coefficients, dtype=torch.float64)
        times = torch.empty_like(raw, dtype=torch.float64)
        lanes = min(triton.next_power_of_2(num_times), _MOST_TIMES)
        _coefficient_kernel[(num_terms, triton.cdiv(num_times, lanes))](
            raw, start, samples, cosines, coefficients, slopes, times, num_times, samples.numel(),
            RATE=rate, SAMPLES=_SAMPLES, LANES=lanes,
        )  # fmt: skip
        ctx.lanes = lanes
        ctx.save_for_backward(raw, slopes)
        ctx.mark_non_differentiable(times)
        ctx.set_materialize_grads(False)
        return coefficients, times

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (raw, slopes), grad = ctx.saved_tensors, grads[0]
        if grad is None:
            return (None,) * 5
        of_raw = torch.empty_like(raw)
        _time_kernel[(triton.cdiv(raw.numel(), ctx.lanes),)](
            grad.contiguous(), slopes, of_raw, slopes.size(0), raw.numel(), LANES=ctx.lanes
        )
        return of_raw, None, None, None, None


@triton.jit
def _coefficient_kernel(
    raw, start, samples, cosines, coefficients, slopes, times, num_times, num_samples,
    RATE: tl.constexpr, SAMPLES: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    k = tl.program_id(0)
    lanes = tl.program_id(1) * LANES + tl.arange(0, LANES)
    inside = lanes < num_times
    t = tl.load(start + lanes, mask=inside, other=0.0).to(tl.float64)
    t *= tl.exp(RATE * tl.load(raw + lanes, mask=inside, other=0.0).to(tl.float64))
    if k == 0:
        tl.store(times + lanes, t, mask=inside)
    total = tl.zeros([LANES], dtype=tl.float64)
    slope = tl.zeros([LANES], dtype=tl.float64)
    for first in range(0, num_samples, SAMPLES):
        m = first + tl.arange(0, SAMPLES)
        real = m < num_samples
        speed = tl.load(samples + m, mask=real, other=0.0)[:, None]
        cosine = tl.load(cosines + k * num_samples + m, mask=real, other=0.0)[:, None]
        y = -speed * t[None, :]  # [SAMPLES, LANES]
        power = tl.exp(y)
        # exp(y) - 1 to the last digit: Kahan's formula, in which the rounding of `power` cancels.
        is_small = (y > -0.5) & (power != 1.0)
        tiny = (power - 1.0) * y / tl.log(tl.where(is_small, power, 2.0))
        less_one = tl.where(power == 1.0, y, tl.where(is_small, tiny, power - 1.0))
        total += tl.sum(cosine * tl.where(t[None, :] < 1.0, less_one, power), axis=0)
        slope += tl.sum(cosine * power * y, axis=0)
    total += tl.where((k == 0) & (t < 1.0), 1.0, 0.0)
    at = k * num_times + lanes
    tl.store(coefficients + at, total.to(coefficients.dtype.element_ty), mask=inside)
    tl.store(slopes + at, slope * RATE, mask=inside)


@triton.jit
def _time_kernel(grad, slopes, of_raw, num_terms, num_times, LANES: tl.constexpr):
    lanes = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = lanes < num_times
    total = tl.zeros([LANES], dtype=tl.float64)
    for k in range(num_terms):
        weight = tl.load(grad + k * num_times + lanes, mask=inside, other=0.0).to(tl.float64)
        total += weight * tl.load(slopes + k * num_times + lanes, mask=inside, other=0.0)
    tl.store(of_raw + lanes, total.to(of_raw.dtype.element_ty), mask=inside)
