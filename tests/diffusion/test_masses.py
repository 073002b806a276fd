"""L = M^-1 (D - W): values and gradients against the dense matrix exponential."""

import pytest
import torch
from dense import dense_laplacian

from jsem_pyg.diffusion import heat_diffusion

EDGES = torch.tensor([[0, 1, 2, 3, 0, 4, 4], [1, 2, 3, 0, 2, 5, 5]])
EDGES = torch.cat([EDGES, EDGES.flip(0)], 1)
WEIGHT = torch.tensor([0.5, 1.0, 2.0, 0.3, 1.5, 0.7, 0.2], dtype=torch.float64)
MASS = torch.tensor([0.1, 2.0, 0.7, 5.0, 0.3, 1.0, 3.0], dtype=torch.float64)
X = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def _exact(x, weight, mass, t):
    laplacian = dense_laplacian(EDGES, weight.repeat(2), 7, None) / mass.unsqueeze(1)
    return torch.matrix_exp(-t * laplacian) @ x


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-8), (torch.float32, 1e-5)])
@pytest.mark.parametrize("backend", ["auto", "reference", "torch"])
def test_masses_are_exact(dtype, atol, backend):
    x, weight, mass = X.to(dtype), WEIGHT.repeat(2).to(dtype), MASS.to(dtype)
    out = heat_diffusion(
        x, EDGES, weight, 0.4, normalization=None, node_mass=mass, tol=1e-9, backend=backend
    )
    exact = _exact(X, WEIGHT, MASS, 0.4)
    assert out.dtype == dtype
    assert torch.allclose(out.double(), exact, atol=atol)
    total = (MASS.unsqueeze(1) * out.double()).sum(0)
    assert torch.allclose(total, (MASS.unsqueeze(1) * X).sum(0), atol=10 * atol)


def test_equal_masses_are_a_scale_of_time():
    given = {"edge_index": EDGES, "edge_weight": WEIGHT.repeat(2), "normalization": None}
    heavy = heat_diffusion(X, **given, t=1.0, node_mass=torch.full_like(MASS, 4.0))
    assert torch.allclose(heavy, heat_diffusion(X, **given, t=0.25), atol=1e-7)


def test_errors_name_node_mass():
    weight = WEIGHT.repeat(2)
    with pytest.raises(ValueError, match="normalization=None"):
        heat_diffusion(X, EDGES, weight, node_mass=MASS)
    for bad in (-MASS, MASS * 0, MASS * float("nan"), MASS[:3]):
        with pytest.raises(ValueError, match="node_mass"):
            heat_diffusion(X, EDGES, weight, normalization=None, node_mass=bad)


@pytest.mark.parametrize(("dtype", "unit"), [(torch.float32, 2.0**-70), (torch.float64, 2.0**-600)])
@pytest.mark.parametrize("edges", [EDGES, EDGES[:, :0]])
def test_gradients_in_masses_of_small_units(dtype, unit, edges):
    """They were infinite, and NaN where there are no edges."""

    def gradient(unit):
        mass = (unit * MASS).to(dtype).requires_grad_()
        t = torch.tensor(0.3 * unit, dtype=torch.float64)
        out = heat_diffusion(X.to(dtype), edges, None, t, normalization=None, node_mass=mass)
        return unit * torch.autograd.grad((out * X.to(dtype)).sum(), mass)[0].double()

    torch.testing.assert_close(gradient(unit), gradient(1.0), rtol=1e-4, atol=1e-5)
