import numpy as np
import pytest
import torch
from jax_cases import enable_x64, jax, jnp

from jsem_pyg.diffusion import heat_coefficients as of_torch
from jsem_pyg.jax import heat_coefficients


def test_the_coefficients_of_torch():
    t = np.array([[0.0, 1e-3], [2.5, 40.0]])
    expected = of_torch(torch.from_numpy(t), 20).numpy()
    np.testing.assert_allclose(heat_coefficients(t, 20), expected, atol=1e-7)
    with enable_x64(True):
        np.testing.assert_allclose(heat_coefficients(t, 20), expected, rtol=0, atol=1e-15)


def test_derivatives_in_time():
    t = torch.tensor(2.5, requires_grad=True)
    first = torch.func.jacrev(lambda t: of_torch(t, 6))
    expected = first(t).detach(), torch.func.jacfwd(first)(t).detach()

    @jax.jit
    def derivatives(t):
        first = jax.jacfwd(lambda t: heat_coefficients(t, 6))
        return first(t), jax.jacfwd(first)(t)

    for one, other in zip(derivatives(2.5), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
def test_vmap_over_times():
    t = jnp.array([[0.5, 1.0], [2.0, 3.0]])
    mapped = jax.vmap(lambda t: heat_coefficients(t, 4), in_axes=1, out_axes=2)(t)
    np.testing.assert_allclose(mapped, heat_coefficients(t, 4), atol=1e-6)


def test_many_times_under_jit():
    """More than what a callback is handed at once, see `numba_call`."""
    t = jnp.linspace(0.1, 1.0, 100_000)
    out = jax.jit(lambda t: heat_coefficients(2 * t, 1).sum())(t)
    assert np.isfinite(out)


@pytest.mark.parametrize("t", [-1.0, np.nan, np.inf])
def test_times_that_are_none(t):
    with pytest.raises(ValueError, match=r"'t' to be finite and >= 0 \(got"):
        heat_coefficients(t, 2)


def test_degrees_that_are_none():
    with pytest.raises(TypeError, match="'degree'"):
        heat_coefficients(1.0, 1.5)
    with pytest.raises(ValueError, match="'degree'"):
        heat_coefficients(1.0, -1)
