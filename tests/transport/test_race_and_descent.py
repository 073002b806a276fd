"""The race of starts, and descent among all points: restarts that are taken or not."""

import pytest
import torch
from transport.problems import masses, points

from jsem_pyg.transport import Factor
from jsem_pyg.transport.problem.prepare import prepare_factor
from jsem_pyg.transport.problem.problem import agreement, make_problem
from jsem_pyg.transport.solver.race import race_at
from jsem_pyg.transport.solver.schedule import Run
from jsem_pyg.transport.solver.starts import Start

NUM_POINTS = 60


def shuffled_in_part(num_wrong, sign=None):
    """A cloud against itself, the last points in one another's places: problem, Z and its mass."""
    x = points(NUM_POINTS, 8, 1)
    mass = torch.full((NUM_POINTS,), 1 / NUM_POINTS, dtype=torch.float64)
    side = prepare_factor(Factor(x, "kernel", sign=sign), mass)
    partner = torch.arange(NUM_POINTS)
    partner[-num_wrong:] = partner[-num_wrong:].roll(1)
    return make_problem(side, side, mass, mass), partner, mass


@pytest.mark.parametrize("sign", [None, torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)])
def test_agreement_is_the_cosine_of_costs(sign):
    problem, partner, mass = shuffled_in_part(20, sign)
    signs = problem.coupling.signs[0]
    cost = (problem.source.z * signs) @ problem.source.z.T
    expected = torch.cosine_similarity(cost, cost[partner][:, partner], dim=1)
    z = problem.source.z
    found = agreement(z, z[partner], mass, problem.coupling.signs)
    torch.testing.assert_close(found, expected)


def test_the_race_merges_equal_plans_and_puts_the_best_first():
    x = points(150, 4, 0) * torch.tensor([4.0, 3.0, 2.0, 1.0]).double()
    mass = masses(150)
    side = prepare_factor(Factor(x, "kernel"), mass)
    problem = make_problem(side, side, mass, mass)
    truth = problem.source.z.T @ (mass[:, None] * problem.source.z)
    starts = [Start("axes", -truth), Start("heat", truth), Start("costs", truth)]
    critical, steps = problem.critical_epsilon(), []
    run = Run(0.05 * critical, critical, report=steps.append)
    states, names = race_at(problem, starts, [0.3 * critical, 0.1 * critical], run)
    assert len(names) == states.epsilon.numel() < 3
    assert names[0] in ("heat", "costs")
    assert bool((states.energy.diff() >= 0).all())
    assert [step.stage for step in steps] == [f"150 x 150, {name}" for name in names]
