"""The adjoint runs the recurrence backwards from its last two terms: does rounding stay small?"""

import pytest
import torch
from dense import exact_heat_diffusion
from kernels.test_chebyshev_series import FAST
from laws import random_graph

from jsem_pyg.diffusion import heat_diffusion


def gradients(diffuse, x, edge_index, weight, t, **kwargs):
    leaves = [x.clone(), weight.clone(), torch.tensor(t, dtype=x.dtype)]
    leaves = [each.requires_grad_() for each in leaves]
    out = diffuse(leaves[0], edge_index, leaves[1], leaves[2], **kwargs)
    direction = torch.linspace(0, 5, out.numel(), dtype=out.dtype).cos().view_as(out)
    return [each.double() for each in torch.autograd.grad(out, leaves, direction)]


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 2e-4), (torch.float64, 1e-9)])
@pytest.mark.parametrize("degree", [None, 30, 200])
@pytest.mark.parametrize("t", [1.0, 10.0, 100.0])
def test_gradients_stay_accurate(backend, dtype, rtol, degree, t):
    if degree == 30 and t == 100.0:
        pytest.skip("too few terms for this time: the logged warning is tested elsewhere")
    edge_index, weight = random_graph(60, 0.06, num_isolated=1)  # sparse, so that modes are slow
    x = torch.randn(60, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = gradients(exact_heat_diffusion, x, edge_index, weight, t)
    actual = gradients(
        heat_diffusion,
        x.to(dtype),
        edge_index,
        weight.to(dtype),
        t,
        degree=degree,
        tol=1e-13,
        backend=backend,
    )
    # The gradient in t is a sum whose parts nearly cancel at long times (the reference's, too):
    # its rounding is that of its parts.
    floors = (0.0, 0.0, 1e-3 * expected[0].norm())
    for what, one, other, floor in zip(
        ("x", "edge_weight", "t"), actual, expected, floors, strict=True
    ):
        error = (one - other).norm() / (other.norm() + floor)
        assert error <= rtol, f"gradient in {what}: {error:.2g}"
