import numpy as np
import pytest
import torch

from jsem_pyg.kernels.linear_transport import numba_cpu, reference
from jsem_pyg.kernels.table import LINEAR_TRANSPORT


def problems(seed, pairs=3):
    """Integer costs and masses, with many ties; some points of all but the first have no mass."""
    draw = np.random.default_rng(seed)
    n, m = draw.integers(1, 12, 2)
    p, q = (draw.integers(1, 4, (pairs, size)).astype(float) for size in (n, m))
    p[1:, : n // 3], q[2:, m - m // 3 :] = 0, 0
    p, q = (mass / mass.sum(1, keepdims=True) for mass in (p, q))
    return draw.integers(0, 5, (pairs, n, m)).astype(float), p, q, draw.normal(size=(pairs, m))


@pytest.mark.parametrize("seed", range(20))
def test_values_and_potentials_are_those_of_highs(seed):
    cost, p, q, v = problems(seed)
    expected = reference.linear_transport(-cost, p, q, np.zeros_like(p), v.copy())
    u = np.zeros_like(p)
    plan = numba_cpu.linear_transport(-cost, p, q, u, v)
    value = (cost * expected).sum((1, 2))
    np.testing.assert_allclose((cost * plan).sum((1, 2)), value, atol=1e-12)
    np.testing.assert_allclose(plan.sum(2), p, atol=1e-12)
    np.testing.assert_allclose(plan.sum(1), q, atol=1e-12)
    np.testing.assert_allclose((u * p).sum(1) + (v * q).sum(1), value, atol=1e-12)
    has_mass = (p > 0)[:, :, None] & (q > 0)[:, None]
    assert (cost - u[:, :, None] - v[:, None])[has_mass].min() > -1e-12


def test_threads_change_nothing(monkeypatch):
    cost, p, q, v = problems(3, pairs=7)
    u, other_u, other_v = np.zeros_like(p), np.zeros_like(p), v.copy()
    alone = numba_cpu.linear_transport(-cost, p, q, u, v)
    monkeypatch.setattr(numba_cpu, "_MUCH_WORK", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    shared = numba_cpu.linear_transport(-cost, p, q, other_u, other_v)
    for one, other in ((alone, shared), (u, other_u), (v, other_v)):
        np.testing.assert_array_equal(one, other)


def test_auto_takes_the_compiled_one():
    assert LINEAR_TRANSPORT.find("auto", torch.device("cpu")) is numba_cpu
