import numpy as np
import pytest
import torch

from jsem_pyg.kernels.frank_wolfe import FRANK_WOLFE, numba_cpu, reference
from jsem_pyg.kernels.frank_wolfe.reference import linear_transport

BACKENDS = [reference, pytest.param(numba_cpu, marks=pytest.mark.timeout(120))]


def problem(n, m, seed=0, pairs=4, zeros=0):
    """Costs of generic points, generic masses, and the independent plan."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.rand(pairs, k, 3, generator=generator, dtype=torch.float64) for k in (n, m))
    p, q = (torch.rand(pairs, k, generator=generator, dtype=torch.float64) + 0.1 for k in (n, m))
    if zeros:
        p[:, :zeros], q[:, -zeros:] = 0, 0
    p, q = p / p.sum(1, keepdim=True), q / q.sum(1, keepdim=True)
    return torch.cdist(x, x), torch.cdist(y, y), p, q, p[:, :, None] * q[:, None]


def quadruple_sum(c, d, plan):
    return torch.stack(
        [
            torch.einsum("ikjl,ij,kl->", (a[:, :, None, None] - b[None, None]).square(), t, t)
            for a, b, t in zip(c, d, plan, strict=True)
        ]
    )


@pytest.mark.parametrize("kernel", BACKENDS)
@pytest.mark.parametrize(("n", "m", "zeros"), [(1, 1, 0), (1, 4, 0), (6, 3, 0), (7, 9, 2)])
def test_marginals_cost_and_optimality(kernel, n, m, zeros):
    c, d, p, q, start = problem(n, m, zeros=zeros)
    result = kernel.descend(c, d, p, q, start, 100, 1e-10)
    assert bool(result.converged.all())
    assert bool((result.plan >= 0).all())
    torch.testing.assert_close(result.plan.sum(2), p, rtol=0, atol=1e-12)
    torch.testing.assert_close(result.plan.sum(1), q, rtol=0, atol=1e-12)
    torch.testing.assert_close(result.cost, quadruple_sum(c, d, result.plan))
    assert bool((result.cost <= quadruple_sum(c, d, start) + 1e-12).all())
    gradient = 2 * (c.square() @ p[..., None]) + 2 * (d.square() @ q[..., None]).mT
    slack = gradient - 4 * c @ result.plan @ d - result.f[..., None] - result.g[:, None]
    has_mass = (p > 0)[..., None] & (q > 0)[:, None]
    # Complementary slackness: dual feasible, and tight where there is mass.
    assert float(slack[has_mass].min()) > -1e-8
    assert float(slack[result.plan > 1e-6].abs().max()) < 1e-3


@pytest.mark.parametrize(("n", "m"), [(5, 5), (4, 7), (9, 2)])
def test_backends_agree_where_the_linear_problems_have_one_solution(n, m):
    numbers = problem(n, m, seed=3)
    expected = reference.descend(*numbers, 100, 1e-10)
    got = numba_cpu.descend(*numbers, 100, 1e-10)
    torch.testing.assert_close(got.plan, expected.plan, rtol=0, atol=1e-9)
    torch.testing.assert_close(got.cost, expected.cost)
    for one, other in ((got.f, expected.f), (got.g, expected.g)):
        torch.testing.assert_close(one - one[:, :1], other - other[:, :1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_the_linear_problem_has_the_value_of_highs(seed):
    draw = np.random.default_rng(seed)
    n, m = draw.integers(1, 12, 2)
    p, q = (draw.integers(1, 4, size).astype(float) for size in (n, m))  # with many ties
    p, q, cost = p / p.sum(), q / q.sum(), draw.integers(0, 5, (n, m)).astype(float)
    expected, _, _ = linear_transport(cost, p, q)
    flow, u, v = np.zeros((m, n)), np.zeros(n), draw.normal(size=m)
    numba_cpu._linear_transport(-cost, p, q, flow, u, v)
    np.testing.assert_allclose((cost * flow.T).sum(), (cost * expected).sum(), atol=1e-12)
    np.testing.assert_allclose(flow.sum(0), p, atol=1e-12)
    np.testing.assert_allclose(flow.sum(1), q, atol=1e-12)
    np.testing.assert_allclose(u @ p + v @ q, (cost * expected).sum(), atol=1e-12)
    assert (cost - u[:, None] - v > -1e-12).all()


@pytest.mark.parametrize("kernel", BACKENDS)
def test_the_independent_plan_of_alike_points_is_left(kernel):
    """All points of a simplex are alike: the gradient is constant, but a permutation is best."""
    c = 1 - torch.eye(5, dtype=torch.float64)[None]
    p = torch.full((1, 5), 0.2, dtype=torch.float64)
    result = kernel.descend(c, c, p, p, p[:, :, None] * p[:, None], 100, 1e-9)
    assert float(result.cost) == 0


def test_threads_change_nothing(monkeypatch):
    numbers = problem(12, 9, pairs=7)
    alone = numba_cpu.descend(*numbers, 100, 1e-10)
    monkeypatch.setattr(numba_cpu, "_MUCH_WORK", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    shared = numba_cpu.descend(*numbers, 100, 1e-10)
    assert all(torch.equal(one, other) for one, other in zip(alone, shared, strict=True))


@pytest.mark.parametrize("kernel", BACKENDS)
def test_no_pairs(kernel):
    c, d, p, q, start = (each[:0] for each in problem(3, 4))
    assert kernel.descend(c, d, p, q, start, 100, 1e-10).plan.shape == (0, 3, 4)


def test_auto_takes_the_compiled_one():
    assert FRANK_WOLFE.find("auto", torch.device("cpu")) is numba_cpu
