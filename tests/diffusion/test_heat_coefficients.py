import numpy as np
import pytest
import torch
from scipy.special import ive

from jsem_pyg.diffusion import heat_coefficients, heat_degree

TIMES = [0.0, 1e-3, 0.5, 1.0, 5.0, 30.0, 100.0, 1000.0]


def tail(t, degree):
    """The sum of what is cut, by SciPy's Bessel functions."""
    return 2 * float(ive(np.arange(degree + 1.0, degree + 2000), t)[::-1].sum())


def series(t, degree, s):
    """sum over k of c_k T_k(s), by numpy's own Chebyshev evaluation."""
    coefficients = heat_coefficients(torch.tensor(t, dtype=torch.float64), degree).numpy()
    return np.polynomial.chebyshev.chebval(s, coefficients)


@pytest.mark.parametrize("t", TIMES)
def test_expand_the_exponential(t):
    s = np.linspace(-1, 1, 101)
    degree = heat_degree(t, 1e-14)
    np.testing.assert_allclose(series(t, degree, s), np.exp(-t * (1 - s)), atol=1e-12)


@pytest.mark.parametrize("t", TIMES)
@pytest.mark.parametrize("bound", [1e-2, 1e-6, 1e-12])
def test_the_degree_keeps_the_bound_and_is_the_smallest_that_does(t, bound):
    degree = heat_degree(t, bound)
    assert tail(t, degree) <= bound
    assert degree == 0 or tail(t, degree - 1) > bound


@pytest.mark.parametrize("t", TIMES[1:])
def test_the_error_stays_below_the_bound_and_reaches_it_at_one(t):
    s = np.linspace(-1, 1, 201)
    for degree in range(0, 12, 3):
        error = np.abs(series(t, degree, s) - np.exp(-t * (1 - s)))
        assert error.max() <= tail(t, degree) * (1 + 1e-9) + 1e-12
        assert error[-1] == pytest.approx(tail(t, degree), rel=1e-6, abs=1e-12)


def test_are_positive_and_sum_to_one():
    coefficients = heat_coefficients(torch.tensor([0.5, 5.0]), 60)
    assert coefficients.shape == (61, 2)
    assert heat_coefficients(torch.empty(0), 60).shape == (61, 0)
    assert coefficients.min() >= -1e-12
    torch.testing.assert_close(coefficients.sum(0), torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("degree", [0, 1, 2, 7])
def test_derivatives_in_t(degree):
    t = torch.tensor([0.3, 2.0, 11.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: heat_coefficients(t, degree), (t,))
    assert torch.autograd.gradgradcheck(lambda t: heat_coefficients(t, degree), (t,))


def test_the_derivative_at_zero_is_one_sided():
    t = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    coefficients = heat_coefficients(t, 3)
    slopes = [torch.autograd.grad(c, t, retain_graph=True)[0].item() for c in coefficients]
    np.testing.assert_allclose(slopes, [-1.0, 1.0, 0.0, 0.0], atol=1e-12)


@pytest.mark.parametrize("t", [1e-12, *TIMES[1:], 1e4])
def test_are_those_of_the_bessel_functions(t):
    for degree in (1, 30, 1200):
        found = heat_coefficients(torch.tensor(t, dtype=torch.float64), degree).numpy()
        expected = ive(np.arange(degree + 1.0), t)
        expected[1:] *= 2
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * min(t, 1))


def test_short_times_keep_their_digits_beside_long_ones():
    times = torch.tensor([1e-9, 0.5, 40.0, 1e4], dtype=torch.float64)
    alone = torch.stack([heat_coefficients(t, 1) for t in times], dim=1)
    torch.testing.assert_close(heat_coefficients(times, 1), alone, rtol=1e-10, atol=0)
