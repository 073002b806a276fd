import numpy as np
import pytest
from scipy.sparse import csr_array

from jsem_pyg.transport.edges import proximal as adjacency_proximal
from jsem_pyg.transport.edges.proximal import Problem, discrepancy, transport


def random_matrix(size, seed):
    upper = np.triu(np.random.default_rng(seed).random((size, size)) < 0.2, 1).astype(float)
    return csr_array(upper + upper.T)


@pytest.fixture
def problem():
    p = 0.5 + np.random.default_rng(0).random(25)
    return Problem(random_matrix(25, 1), random_matrix(20, 2), p / p.sum(), np.full(20, 1 / 20))


def test_steps_lower_the_discrepancy_on_plans_with_the_marginals(problem):
    distance = np.random.default_rng(3).random((25, 20)).astype(np.float32)
    found = transport(problem, distance, np.arange(25), max_iter=100)
    costs = [step.cost for step in found.history]
    assert costs[-1] < 0.8 * discrepancy(problem, np.outer(problem.p, problem.q))
    assert min(costs) >= 0.95 * costs[-1]
    assert max(step.marginal_error for step in found.history) < 0.02
    assert found.cost == pytest.approx(discrepancy(problem, found.plan))
    np.testing.assert_allclose(found.plan.sum(1), problem.p, rtol=1e-5)
    np.testing.assert_allclose(found.plan.sum(0), problem.q, rtol=1e-5)
    assert (found.plan >= 0).all()


def test_the_discrepancy_is_the_sum_written_out(problem):
    plan = np.outer(problem.p, problem.q)
    source, target = problem.source.toarray(), problem.target.toarray()
    squares = (source[:, None, :, None] - target[None, :, None, :]) ** 2
    expected = np.einsum("ijkl,ij,kl->", squares, plan, plan)
    assert discrepancy(problem, plan) == pytest.approx(expected)


def test_projecting_scales_to_the_marginals(problem):
    table = np.random.default_rng(4).normal(size=(25, 20)).astype(np.float32)
    scaled, error = adjacency_proximal._project(problem, table)
    assert error < 1e-4
    np.testing.assert_allclose(np.exp(scaled).sum(1), problem.p, rtol=1e-4)
    np.testing.assert_allclose(np.exp(scaled).sum(0), problem.q, atol=2e-4)
