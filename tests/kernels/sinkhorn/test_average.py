"""T y without T: values, and gradients in all that T is made of."""

import math

import pytest
import torch
from kernels.sinkhorn.cases import problem

from jsem_pyg.kernels.sinkhorn import torch_tiles, transport_average
from jsem_pyg.kernels.table import SINKHORN

CPU = torch.device("cpu")
NAMES = [name for name in ("reference", "torch", "numba") if SINKHORN.can_run(name, CPU)]


def leaves(*shape, dtype=torch.float64, **kwargs):
    u, v, g, f, y = problem(*shape, dtype, 2.0, **kwargs)
    return [each.requires_grad_() for each in (u, v, f, g, y)]


def dense_average(u, v, f, g, y):
    return (u @ v.T + f[:, None] + g).exp2() @ y


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (5, 7, 3, 2), (9, 4, 0, 1), (3, 40, 2, 0)])
def test_gradcheck(name, shape):
    inputs = leaves(*shape)
    assert torch.autograd.gradcheck(lambda *each: transport_average(*each, name), inputs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])
def test_values_and_gradients_are_those_of_dense_matrices(name, dtype, rtol, monkeypatch):
    monkeypatch.setitem(torch_tiles._TILE, "cpu", 1000)  # a few rows at a time
    inputs = leaves(70, 300, 5, 4, dtype=dtype)
    direction = torch.linspace(-1, 2, 280, dtype=torch.float64).sin().view(70, 4)
    doubles = [each.detach().double().requires_grad_() for each in inputs]
    expected = dense_average(*doubles)
    actual = transport_average(*inputs, name)
    pairs = [(actual, expected)]
    pairs += zip(
        torch.autograd.grad(actual, inputs, direction.to(dtype)),
        torch.autograd.grad(expected, doubles, direction),
        strict=True,
    )
    for one, other in pairs:
        assert one.dtype == dtype
        assert (one.double() - other).norm() <= rtol * other.norm()


@pytest.mark.parametrize("name", NAMES)
def test_what_has_no_mass_has_no_gradient(name):
    u, v, f, g, y = leaves(12, 20, 3, 2)
    empty_row, empty_column = torch.arange(12) == 3, torch.arange(20) > 15
    with torch.no_grad():
        f[empty_row], g[empty_column] = -math.inf, -math.inf
    out = transport_average(u, v, f, g, y, name)
    out.square().sum().backward()
    assert not out[empty_row].any()
    for each, empty in ((u, empty_row), (f, empty_row), (v, empty_column), (g, empty_column)):
        assert not each.grad[empty].any()
        assert each.grad[~empty].isfinite().all()
        assert each.grad[~empty].any()
    assert not y.grad[empty_column].any()


def test_only_what_is_asked_for():
    u, v, f, g, y = (each.detach() for each in leaves(5, 6, 2, 2))
    v.requires_grad_()
    assert torch.autograd.grad(transport_average(u, v, f, g, y).sum(), v)[0].shape == v.shape
    assert not transport_average(u, v.detach(), f, g, y).requires_grad


def test_no_points_make_no_gradient():
    for shape in ((0, 4, 2, 3), (4, 0, 2, 3)):
        inputs = leaves(*shape)
        transport_average(*inputs).sum().backward()
        assert not any(each.grad.any() for each in inputs)


def test_gradients_of_torch_func():
    inputs = [each.detach() for each in leaves(5, 6, 2, 2)]

    def total(u):
        return transport_average(u, *inputs[1:]).square().sum()

    expected = torch.func.grad(lambda u: dense_average(u, *inputs[1:]).square().sum())(inputs[0])
    torch.testing.assert_close(torch.func.grad(total)(inputs[0]), expected)


def test_backends_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="'backend' to be one of 'auto', 'reference'"):
        transport_average(*leaves(2, 2, 1, 1), "fast")
