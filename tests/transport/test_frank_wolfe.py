import pytest
import torch

from jsem_pyg.kernels.linear_transport import numba_cpu, reference
from jsem_pyg.transport.small import frank_wolfe
from jsem_pyg.transport.small.proximal import Pairs

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


def descend(kernel, c, d, p, q, start, tol=1e-10):
    return frank_wolfe.descend(Pairs(c, d, p, q), start, 100, tol, kernel.linear_transport)


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
    result = descend(kernel, c, d, p, q, start)
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
    expected, got = (descend(each, *problem(n, m, seed=3)) for each in (reference, numba_cpu))
    torch.testing.assert_close(got.plan, expected.plan, rtol=0, atol=1e-9)
    torch.testing.assert_close(got.cost, expected.cost)
    for one, other in ((got.f, expected.f), (got.g, expected.g)):
        torch.testing.assert_close(one - one[:, :1], other - other[:, :1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel", BACKENDS)
def test_the_independent_plan_of_alike_points_is_left(kernel):
    """All points of a simplex are alike: the gradient is constant, but a permutation is best."""
    c = 1 - torch.eye(5, dtype=torch.float64)[None]
    p = torch.full((1, 5), 0.2, dtype=torch.float64)
    assert float(descend(kernel, c, c, p, p, p[:, :, None] * p[:, None], 1e-9).cost) == 0


@pytest.mark.parametrize("kernel", BACKENDS)
def test_no_pairs(kernel):
    assert descend(kernel, *(each[:0] for each in problem(3, 4))).plan.shape == (0, 3, 4)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_costs_does_not_decide_when_to_end(unit):
    c, d, p, q, start = problem(8, 8, seed=3)
    expected = descend(numba_cpu, c, d, p, q, start)
    found = descend(numba_cpu, unit * c, unit * d, p, q, start)
    torch.testing.assert_close(found.plan, expected.plan, rtol=1e-9, atol=1e-12)
    assert torch.equal(found.converged, expected.converged)
