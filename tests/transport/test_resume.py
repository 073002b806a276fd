"""A plan that is known is where to go on from, also at another temperature, also a hard one."""

import pytest
import torch

from jsem_pyg.transport import Factor, Plan, gromov_wasserstein


def sides(seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    found = []
    for size in (12, 10):
        x = torch.randn(size, 2, generator=generator, dtype=torch.float64)
        found.append(Factor((x - x.mean(0)).to(dtype), "kernel"))
    return found


def missed(plan):
    p, q = plan.marginals()
    return float((p - 1 / 12).abs().sum() + (q - 1 / 10).abs().sum())


def test_a_plan_is_taken_up_with_its_potentials():
    """Also where its scores are written with other vectors, of which only the sums count."""
    first, second = sides()
    known = gromov_wasserstein(first, second, epsilon=0.1, tol=1e-10, max_iter=500, progress=False)
    u, v, _, g = known.scores
    shift = torch.linspace(-1, 1, v.size(1), dtype=v.dtype)
    other = Plan(known.scores._replace(u=u + shift, g=g - v @ shift), 0.0, known.epsilon)
    torch.testing.assert_close(other.dense(), known.dense())
    for start in (known, other):
        found = gromov_wasserstein(
            first, second, epsilon=known.epsilon, absolute=True, starts=start, max_iter=1,
            progress=False,
        )  # fmt: skip
        torch.testing.assert_close(found.dense(), known.dense(), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_temperatures_are_reached_from_warmer_plans(seed, dtype):
    first, second = sides(seed, dtype)
    warm = gromov_wasserstein(first, second, epsilon=0.05, max_iter=100, progress=False)
    cold = gromov_wasserstein(
        first, second, epsilon=warm.epsilon / 20, absolute=True, starts=warm, max_iter=200,
        progress=False,
    )  # fmt: skip
    assert missed(cold) < 5e-3
    assert cold.cost < warm.cost


def test_columns_that_were_lost_come_back():
    first, second = sides()
    good = gromov_wasserstein(first, second, epsilon=0.05, max_iter=100, progress=False)
    g = good.scores.g.clone()
    g[[2, 5]] -= 800
    bad = Plan(good.scores._replace(g=g), 0.0, good.epsilon)
    assert missed(bad) > 0.1
    found = gromov_wasserstein(
        first, second, epsilon=good.epsilon, absolute=True, starts=bad, max_iter=100, progress=False
    )
    assert found.converged
    assert missed(found) < 1e-2


@pytest.mark.parametrize("unit", [1e-2, 1e3])
def test_a_plan_of_costs_in_another_unit_is_a_start(unit):
    """Its temperature is no guide: it would melt the plan, or overflow."""
    first, second = sides(dtype=torch.float32)
    known = gromov_wasserstein(first, second, progress=False)
    scaled = (Factor(each.x * unit, "kernel") for each in (first, second))
    best, found = (
        gromov_wasserstein(*each, starts=known, progress=False)
        for each in ((first, second), scaled)
    )
    assert found.converged
    assert found.cost / unit**4 == pytest.approx(best.cost, rel=1e-2)
