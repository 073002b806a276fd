"""Scores of short vectors and the table of them are the same plan."""

import math

import torch

from jsem_pyg.transport import Plan
from jsem_pyg.transport.plan.scores import DenseScores, FactoredScores


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
