"""Plans between a few points: exact masses, and no start that ends lower."""

import numpy as np
import pytest
import torch
from transport.problems import align, masses, points

from jsem_pyg.transport import Factor


def missed(plan, p, q):
    rows, columns = plan.marginals()
    return float((rows - p.double()).abs().sum() + (columns - q.double()).abs().sum())


@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
@pytest.mark.parametrize("sizes", [(4, 4), (5, 7), (30, 20)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masses_are_exact(kind, sizes, dtype):
    for seed in range(2):
        x, y = points(sizes[0], 2, seed, dtype), points(sizes[1], 2, seed + 50, dtype)
        p, q = masses(sizes[0], seed), masses(sizes[1], seed + 9)
        plan = align(Factor(x, kind), Factor(y, kind), p=p, q=q)
        assert plan.converged
        assert missed(plan, p, q) < 1e-6
        assert plan.dense().dtype == dtype


@pytest.mark.parametrize("epsilon", [1e-6, 1e-4, 1.0])
def test_masses_are_exact_at_any_temperature(epsilon):
    p, q = masses(9, 1), masses(6, 2)
    p[0] = 1e-8
    plan = align(points(9, 3), points(6, 2, 1), p=p / p.sum(), q=q, epsilon=epsilon)
    assert missed(plan, p / p.sum(), q) < 1e-6


@pytest.mark.parametrize("seed", range(2))
def test_defaults_end_no_higher_than_any_of_their_starts(seed):
    draw = np.random.default_rng(49 + seed)
    x = torch.from_numpy(draw.normal(size=(7, 3)) * [3, 2, 1])
    y = torch.from_numpy(draw.normal(size=(18, 2)) * [3, 1])
    p, q = masses(7, seed), masses(18, seed)
    for kind in ("kernel", "sqdist"):
        options = {"epsilon": 1e-3, "max_iter": 200, "p": p, "q": q}
        best = align(Factor(x, kind), Factor(y, kind), **options).cost
        for start in ("costs", "axes"):
            other = align(Factor(x, kind), Factor(y, kind), starts=[start], **options).cost
            assert best <= other * 1.001


def test_costs_are_no_higher_than_those_of_pot():
    ot = pytest.importorskip("ot")
    ratios = []
    for seed in range(10):
        first, second = Factor(points(5, 2, seed)), Factor(points(7, 2, seed + 50))
        p, q = masses(5, seed), masses(7, seed + 9)
        plan = align(first, second, p=p, q=q)
        sides = (each.numpy() for each in (first.dense(), second.dense(), p, q))
        theirs = ot.gromov.gromov_wasserstein(*sides, log=True)[1]["gw_dist"]
        ratios.append(plan.cost / theirs)
    assert np.mean(ratios) < 1.01
