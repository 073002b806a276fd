"""Passes to compare backends on, and the answer in dense float64."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

DTYPES = [torch.float32, torch.float64]


class Problem(NamedTuple):
    u: Tensor
    v: Tensor
    g: Tensor
    log2_p: Tensor
    y: Tensor


def problem(n, k, r, c, dtype=torch.float64, scale=3.0, empty=0.0, seed=0):
    """Scores of about `scale` bits; a share `empty` of the rows and of the columns has no mass."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def log2_mass(size):
        log2 = torch.rand(size, generator=generator, dtype=torch.float64).add(0.1).log2()
        log2[torch.rand(size, generator=generator) < empty] = -math.inf
        return log2

    width = math.sqrt(scale) / max(1, r) ** 0.25
    parts = (draw(n, r) * width, draw(k, r) * width, log2_mass(k), log2_mass(n), draw(k, c))
    return Problem(*(each.to(dtype) for each in parts))


def dense(u, v, g, log2_p, y):
    """By the definition, in float64: f, column masses, averages, peaks, and the plan itself."""
    u, v, g, log2_p, y = (each.double() for each in (u, v, g, log2_p, y))
    scores = u @ v.T + g
    total = torch.logsumexp(scores * math.log(2), 1) / math.log(2)
    f = torch.where(total > -math.inf, log2_p - total, -math.inf)
    plan = torch.where(f[:, None] > -math.inf, (scores + f[:, None]).exp2(), 0)
    top = scores.amax(1) if scores.size(1) else total
    peak = torch.where(f > -math.inf, (top - total).exp2(), 0)
    return f, plan.sum(0), plan @ y, peak, plan


def check(module, case, error=None):
    """Assert that a backend's pass is that of the definition, to rounding."""
    before = [each.clone() for each in case]
    result = module.sinkhorn_pass(*case)
    for each, copy in zip(case, before, strict=True):
        assert torch.equal(each, copy)
    f, column_mass, average, peak, plan = dense(*case)
    dtype = case.u.dtype
    if error is None:  # in bits: of scores, and of what follows from them
        largest = (case.u.double().abs() @ case.v.double().abs().T).amax() if plan.numel() else 0
        finite = case.g[case.g > -math.inf].double().abs()
        largest = float(largest) + (float(finite.max()) if finite.numel() else 0.0) + 1
        error = 100 * torch.finfo(dtype).eps * largest
    assert result.f.dtype == result.average.dtype == result.peak.dtype == dtype
    assert result.column_mass.dtype == torch.float64
    assert torch.equal(result.f == -math.inf, f == -math.inf)
    has_mass = f > -math.inf
    torch.testing.assert_close(
        result.f[has_mass].double(), f[has_mass], rtol=1e-5 if dtype == torch.float32 else 1e-13,
        atol=error,
    )  # fmt: skip
    floor = torch.finfo(dtype).tiny  # of masses; and of shares that are as good as none:
    floor += float(plan.max()) * 1e-12 * error if plan.numel() else 0.0
    for actual, expected, size in (
        (result.column_mass, column_mass, column_mass),
        (result.average, average, plan @ case.y.double().abs()),
        (result.peak, peak, peak),
    ):
        assert actual.shape == expected.shape
        assert not actual.isnan().any()
        assert ((actual.double() - expected).abs() <= error * size + floor).all()
    return result
