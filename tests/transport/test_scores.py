"""Scores of short vectors and the table of them are the same plan."""

import math

import torch

from jsem_pyg.transport import Plan
from jsem_pyg.transport.plan.scores import (
    DenseScores,
    FactoredScores,
    plan_sums,
    row_potentials,
)


def both(dtype, rows=50, columns=40, rank=3):
    generator = torch.Generator().manual_seed(0)
    u, v, f, g = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        for shape in ((rows, rank), (columns, rank), (rows,), (columns,))
    )
    f[3], g[5] = -math.inf, -math.inf
    scores = FactoredScores(u, v, f, g)
    return Plan(scores, 0.0), Plan(DenseScores(scores.rows(0, rows)), 0.0)


def test_averages_are_differentiable_twice():
    short, _ = both(torch.float64, 7, 6)
    f = short.scores.f.clone()
    y = torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y.requires_grad_()
    assert bool(f.isneginf().any())
    assert torch.autograd.gradcheck(short.apply, y)
    assert torch.autograd.gradgradcheck(lambda y: short.apply(y).square(), y)


def test_sums_over_a_plan():
    short, _ = both(torch.float64)
    plan, sums = short.dense(), plan_sums(short.scores)
    torch.testing.assert_close(sums.r, plan.sum(1))
    torch.testing.assert_close(sums.c, plan.sum(0))
    torch.testing.assert_close(sums.log2, torch.special.xlogy(plan, plan).sum() / math.log(2))
    rows = torch.arange(50) % 7 == 3
    found = row_potentials(short.scores, rows)
    bare = short.scores.u @ short.scores.v.T + short.scores.g
    torch.testing.assert_close(found[rows], -(bare * math.log(2)).logsumexp(1)[rows] / math.log(2))
    assert not bool(found[~rows].any())
