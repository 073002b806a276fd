"""The race of starts, and descent among all points: restarts that are taken or not."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transport.problems import masses, points

from jsem_pyg.transport import Factor
from jsem_pyg.transport.problem.prepare import prepare_factor
from jsem_pyg.transport.problem.problem import agreement, make_problem
from jsem_pyg.transport.solver import cooling
from jsem_pyg.transport.solver.cooling import consistent_moments, descend
from jsem_pyg.transport.solver.descent import Effort, begin, settle
from jsem_pyg.transport.solver.race import _carry, race_at
from jsem_pyg.transport.solver.schedule import SCHEDULE, Run
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


def test_the_consistent_half_is_scaled_to_the_whole(monkeypatch):
    problem, partner, mass = shuffled_in_part(20)
    z = problem.target.z
    sent = mass[:, None] * z[partner]
    found = SimpleNamespace(done=SimpleNamespace(average=sent))
    monkeypatch.setattr(cooling, "scale", lambda *_: found)
    half = agreement(z, z[partner], mass).topk(NUM_POINTS // 2).indices
    assert int(half.max()) < NUM_POINTS - 20
    found = consistent_moments(problem, None)
    torch.testing.assert_close(found, z[half].T @ z[half] / len(half))


def test_only_what_lowers_the_energy_is_taken(monkeypatch):
    """Two tight clusters in one another's places, where descent leaves them."""
    x = 4 * points(8, 5, 2).repeat_interleave(12, 0) + 0.1 * points(96, 5, 1)
    wrong = torch.arange(96).reshape(8, 12)
    wrong[[0, 3]] = wrong[[3, 0]]
    mass = torch.full((96,), 1 / 96, dtype=torch.float64)
    side = prepare_factor(Factor(x, "kernel"), mass)
    problem = make_problem(side, side, mass, mass)
    z, critical = problem.source.z, problem.critical_epsilon()
    lowest = 0.01 * critical
    run = Run(lowest, critical, may_stop=False)
    cold = torch.tensor(lowest, dtype=torch.float64)
    effort = Effort(updates=30)
    wrong_state, truth = (
        settle(problem, begin(problem, z.T @ z[order] / 96, cold), effort)
        for order in (wrong.flatten(), torch.arange(96))
    )
    assert float(wrong_state.energy) > 0.99 * float(truth.energy)

    def reheated(state, moments):
        monkeypatch.setattr(cooling, "consistent_moments", lambda *_: moments)
        return descend(problem, [state], run)

    found = reheated(wrong_state, truth.moments)
    assert float(found.energy) == pytest.approx(float(truth.energy), rel=1e-3)
    kept = reheated(truth, wrong_state.moments)
    assert float(kept.energy) == pytest.approx(float(truth.energy), rel=1e-3)


def test_a_restart_that_misses_its_marginals_is_no_better(monkeypatch):
    problem, partner, mass = shuffled_in_part(20)
    moments = problem.source.z.T @ (mass[:, None] * problem.target.z[partner])
    state = begin(problem, moments, torch.tensor(0.01, dtype=torch.float64))
    state = replace(state, energy=torch.tensor(-1.0), error=torch.tensor(1e-4))
    other = replace(state, energy=torch.tensor(-2.0), error=torch.tensor(0.7))
    monkeypatch.setattr(cooling, "consistent_moments", lambda *_: moments)
    for restart, is_taken in ((other, False), (replace(other, error=state.error), True)):
        answers = [state, restart, restart]
        monkeypatch.setattr(cooling, "cool", lambda *_, answers=answers: answers.pop(0))
        assert (descend(problem, [state], Run(0.01, 1.0)) is restart) == is_taken


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


def test_of_several_candidates_the_one_of_lowest_energy_is_returned(monkeypatch):
    problem, partner, mass = shuffled_in_part(20)
    moments = problem.source.z.T @ (mass[:, None] * problem.target.z[partner])
    state = begin(problem, moments, torch.tensor(1.0, dtype=torch.float64))
    states = [
        replace(state, energy=torch.tensor(energy), error=torch.tensor(error))
        for energy, error in ((-1.0, 1e-4), (-3.0, 0.5), (-2.0, 1e-4))
    ]
    monkeypatch.setattr(cooling, "cool", lambda problem, each, run: each)
    assert descend(problem, states, Run(1.0, 1.0)) is states[2]  # the second misses its marginals


def test_more_cells_begin_warmer_if_cells_limit_the_plan():
    problem, partner, mass = shuffled_in_part(20)
    moments = problem.source.z.T @ (mass[:, None] * problem.target.z[partner])
    cold = torch.full((2,), 0.01, dtype=torch.float64)
    states = replace(
        begin(problem, moments.expand(2, -1, -1), cold), peak=torch.tensor([0.1, 0.9]).double()
    )
    finer = problem.at(problem.source, problem.target)
    carried = _carry(problem, finer, states, Run(0.01, 1.0))
    assert carried.epsilon.tolist() == [0.01, SCHEDULE.warm]
    assert not bool(carried.psi[1].any())  # the potentials of other cells are of no use
    assert bool(carried.psi[0].any())
