from itertools import permutations

import pytest
import torch
from transport.problems import points

from jsem_pyg.transport import Factor
from jsem_pyg.transport.factored.descent import Effort, begin, settle
from jsem_pyg.transport.factored.exchange_moves import best_assignment, exchange
from jsem_pyg.transport.problem.prepare import prepare_factor
from jsem_pyg.transport.problem.problem import make_problem


def value(inner, outer, linear, order):
    order = torch.as_tensor(order)
    quadratic = (inner * outer[order][:, order]).sum()
    return float(quadratic + linear[torch.arange(order.numel()), order].sum())


def symmetric(size, seed):
    matrix = points(size, size, seed)
    return matrix + matrix.T


@pytest.mark.parametrize("seed", range(6))
def test_the_assignment_is_the_best_of_all(seed):
    inner, outer = symmetric(6, seed), symmetric(6, seed + 50)
    linear = points(6, 6, seed + 100)
    best = max(value(inner, outer, linear, each) for each in permutations(range(6)))
    order = best_assignment(inner, outer, linear, seed)
    assert sorted(order.tolist()) == list(range(6))
    assert value(inner, outer, linear, order) == pytest.approx(best, rel=1e-12)


def test_a_linear_problem_is_one_as_well():
    linear, nothing = points(6, 6, 3), torch.zeros(6, 6, dtype=torch.float64)
    best = max(value(nothing, nothing, linear, each) for each in permutations(range(6)))
    found = value(nothing, nothing, linear, best_assignment(nothing, nothing, linear, 0))
    assert found == pytest.approx(best)


def test_what_is_best_already_stays():
    inner = symmetric(6, 0)
    nothing = torch.zeros(6, 6, dtype=torch.float64)
    assert best_assignment(inner, inner, nothing, 0) is None
    assert best_assignment(inner[:2, :2], -inner[:2, :2], nothing[:2, :2], 0) is None


def test_the_seed_decides_and_nothing_else():
    problem = (symmetric(20, 1), symmetric(20, 2), points(20, 20, 3))
    state = torch.random.get_rng_state()
    first, second = best_assignment(*problem, 5), best_assignment(*problem, 5)
    assert torch.equal(first, second)
    assert torch.equal(state, torch.random.get_rng_state())


def test_groups_that_were_exchanged_are_put_back():
    """Two tight clusters of a rigid cloud, taken for one another."""
    centres = 4 * points(8, 5, 2)
    x = centres.repeat_interleave(12, 0) + 0.1 * points(96, 5, 1)
    wrong = torch.arange(96).reshape(8, 12)
    wrong[[0, 3]] = wrong[[3, 0]]
    mass = torch.full((96,), 1 / 96, dtype=torch.float64)
    side = prepare_factor(Factor(x, "kernel"), mass)
    problem = make_problem(side, side, mass, mass)
    z = problem.source.z
    moments = z.T @ z[wrong.flatten()] / 96
    cold = torch.tensor(0.01 * problem.critical_epsilon(), dtype=torch.float64)
    state = settle(problem, begin(problem, moments, cold), Effort(updates=30))
    truth = settle(problem, begin(problem, z.T @ z / 96, cold), Effort(updates=30))
    assert float(state.energy) > float(truth.energy) + 0.01 * abs(float(truth.energy))
    found, right = exchange(problem, state, seed=0), z.T @ z / 96
    assert min(float((each - right).norm() / right.norm()) for each in found) < 0.05
    better = [
        settle(problem, begin(problem, each, cold), Effort(updates=30)).energy for each in found
    ]
    assert float(min(better)) == pytest.approx(float(truth.energy), rel=1e-3)


def test_three_dimensions_are_left_alone():
    mass = torch.full((30,), 1 / 30, dtype=torch.float64)
    side = prepare_factor(Factor(points(30, 3), "kernel"), mass)
    problem = make_problem(side, side, mass, mass)
    nothing = torch.zeros(3, 3, dtype=torch.float64)
    state = begin(problem, nothing, torch.tensor(1.0, dtype=torch.float64))
    assert exchange(problem, state, seed=0) == []
