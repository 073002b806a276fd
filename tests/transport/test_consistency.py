from dataclasses import replace

import pytest
import torch
from jsem_pyg.transport.solver.consistency import agreement, consistent_moments
from transport.problems import points

from jsem_pyg.transport import Factor
from jsem_pyg.transport.problem.prepare import prepare_factor
from jsem_pyg.transport.problem.problem import make_problem
from jsem_pyg.transport.solver import annealing, consistency
from jsem_pyg.transport.solver.descent import Effort, begin, settle

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
    sent = mass[:, None] * problem.target.z[partner]
    signs = problem.coupling.signs[0]
    cost = (problem.source.z * signs) @ problem.source.z.T
    expected = torch.cosine_similarity(cost, cost[partner][:, partner], dim=1)
    torch.testing.assert_close(agreement(problem, sent, mass), expected)


def test_points_without_mass_agree_with_nothing():
    problem, partner, mass = shuffled_in_part(20)
    mass = mass.clone()
    mass[:5] = 0
    found = agreement(problem, mass[:, None] * problem.target.z[partner], mass)
    assert found.isfinite().all()
    assert (found[:5] == 0).all()


def test_the_consistent_half_is_scaled_to_the_whole(monkeypatch):
    problem, partner, mass = shuffled_in_part(20)
    z = problem.target.z
    sent = mass[:, None] * z[partner]
    monkeypatch.setattr(consistency, "averages", lambda *_: (sent, mass))
    half = agreement(problem, sent, mass).topk(NUM_POINTS // 2).indices
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
    schedule = annealing.Schedule(lowest, critical, may_stop=False)
    cold = torch.tensor(lowest, dtype=torch.float64)
    effort = Effort(updates=30)
    wrong_state, truth = (
        settle(problem, begin(problem, z.T @ z[order] / 96, cold), effort)
        for order in (wrong.flatten(), torch.arange(96))
    )
    assert float(wrong_state.energy) > 0.99 * float(truth.energy)

    def reheated(state, moments):
        monkeypatch.setattr(annealing, "consistent_moments", lambda *_: moments)
        return annealing.restarted(problem, state, schedule)

    found = reheated(wrong_state, truth.moments)
    assert float(found.energy) == pytest.approx(float(truth.energy), rel=1e-3)
    assert reheated(truth, wrong_state.moments) is truth


def test_a_restart_that_misses_its_marginals_is_no_better(monkeypatch):
    problem, partner, mass = shuffled_in_part(20)
    moments = problem.source.z.T @ (mass[:, None] * problem.target.z[partner])
    state = begin(problem, moments, torch.tensor(0.01, dtype=torch.float64))
    state = replace(state, energy=torch.tensor(-1.0), error=torch.tensor(1e-4))
    other = replace(state, energy=torch.tensor(-2.0), error=torch.tensor(0.7))
    monkeypatch.setattr(annealing, "consistent_moments", lambda *_: moments)
    monkeypatch.setattr(annealing, "cool", lambda *_: other)
    assert annealing.restarted(problem, state, annealing.Schedule(0.01, 1.0)) is state
    fine = replace(other, error=state.error)
    monkeypatch.setattr(annealing, "cool", lambda *_: fine)
    assert annealing.restarted(problem, state, annealing.Schedule(0.01, 1.0)) is fine
