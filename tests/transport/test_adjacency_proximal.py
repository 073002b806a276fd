import numpy as np
import pytest
from scipy.sparse import csr_array

from jsem_pyg.transport.edges import proximal
from jsem_pyg.transport.edges.proximal import Problem, discrepancy, transport


def random_matrix(size, seed):
    upper = np.triu(np.random.default_rng(seed).random((size, size)) < 0.2, 1).astype(float)
    return csr_array(upper + upper.T)


@pytest.fixture
def problem():
    p = 0.5 + np.random.default_rng(0).random(25)
    return Problem(random_matrix(25, 1), random_matrix(20, 2), p / p.sum(), np.full(20, 1 / 20))


def test_steps_lower_the_discrepancy_on_plans_with_the_marginals(problem):
    partner = np.where(np.arange(25) < 20, np.arange(25), -1)
    found = transport(problem, partner, max_iter=100)
    assert found.cost < 0.8 * discrepancy(problem, np.outer(problem.p, problem.q))
    assert found.cost == min(step.cost for step in found.history)
    assert max(step.marginal_error for step in found.history) < 0.01
    assert found.cost == pytest.approx(discrepancy(problem, found.plan))
    np.testing.assert_allclose(found.plan.sum(1), problem.p, rtol=1e-12)
    np.testing.assert_allclose(found.plan.sum(0), problem.q, rtol=1e-12)
    assert (found.plan >= 0).all()


def test_the_discrepancy_is_the_sum_written_out(problem):
    plan = np.outer(problem.p, problem.q)
    source, target = problem.source.toarray(), problem.target.toarray()
    squares = (source[:, None, :, None] - target[None, :, None, :]) ** 2
    expected = np.einsum("ijkl,ij,kl->", squares, plan, plan)
    assert discrepancy(problem, plan) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("share", "most", "names"),
    [
        (1.0, 1 << 22, ["assignment", "independent"]),
        (1.0, 100, ["assignment"]),
        (0.5, 100, ["assignment", "independent"]),
    ],
)
def test_large_pairs_begin_at_an_assignment_of_most_of_the_mass_alone(
    monkeypatch, share, most, names
):
    monkeypatch.setattr(proximal, "_ONE_START", most)
    even = np.full(20, 1 / 20)
    problem = Problem(random_matrix(20, 1), random_matrix(20, 2), even, even)
    partner = np.where(np.arange(20) < share * 20, np.arange(20), -1)
    found = transport(problem, partner, max_iter=2)
    assert [step.stage for step in found.history] == names
