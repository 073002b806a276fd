"""The cases of test_triton.py, which says in what process they run."""

import pytest
import torch
from kernels.test_chebyshev_series import problem

from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.chebyshev import reference, triton_gpu
from jsem_pyg.operators import laplacian_operator

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def run(module, csr, values, x, coefficients):
    leaves = [each.to(DEVICE).requires_grad_() for each in (values, x, coefficients)]
    leaves = [each.detach().clone().requires_grad_() for each in leaves]
    csr = csr if csr.col.device.type == DEVICE else csr.to(DEVICE)
    out = module.SparseOperator(csr, leaves[0]).series(*leaves[1:])
    direction = torch.linspace(-1, 2, out.numel(), dtype=out.dtype, device=DEVICE).sin()
    out.backward(direction.view_as(out))
    gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves]
    return [out.detach(), *gradients]


def compare(case, rtol):
    for actual, expected in zip(run(triton_gpu, *case), run(reference, *case), strict=True):
        assert actual.shape == expected.shape
        error = (actual.double() - expected.double()).norm()
        assert error <= rtol * max(float(expected.double().norm()), 1e-30)


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("degree", [0, 1, 2, 5])
@pytest.mark.parametrize(("num_nodes", "num_isolated"), [(1, 0), (10, 2)])
def test_values_and_gradients(dtype, rtol, degree, num_nodes, num_isolated):
    compare(problem(num_nodes, num_isolated, channels=5, degree=degree, dtype=dtype), rtol)


@pytest.mark.parametrize("scales", [1, 3])
@pytest.mark.parametrize("per_channel", [1, 7])
def test_scales_and_channels(scales, per_channel):
    shape = {"scales": scales, "per_channel": per_channel}
    compare(problem(8, 1, channels=7, degree=3, dtype=torch.float64, **shape), 1e-12)


@pytest.mark.parametrize("channels", [1, 16, 33])
def test_more_columns_than_a_block_holds(channels, monkeypatch):
    monkeypatch.setattr(triton_gpu, "_BLOCK", 16)
    compare(problem(6, 1, channels=channels, degree=2, dtype=torch.float64), 1e-12)


def test_a_hub_repeated_edges_and_a_diagonal():
    leaves = torch.arange(1, 13)
    hub = torch.zeros_like(leaves)
    edge_index = torch.cat([torch.stack([hub, leaves]), torch.stack([leaves, hub])], dim=1)
    structure = GraphStructure(edge_index.repeat(1, 2), 13)
    weight = torch.ones(structure.num_edges, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(13, 3, dtype=torch.float64, generator=generator)
    coefficients = torch.rand(4, 1, 1, dtype=torch.float64, generator=generator)
    for normalization in ("sym", None):  # the latter has a diagonal
        operator = laplacian_operator(structure, weight, normalization)
        compare((operator.matrix.csr, operator.matrix.values[0], x, coefficients), 1e-12)


def test_two_runs_agree_to_the_last_bit():
    case = problem(9, 1, channels=7, degree=4, dtype=torch.float32)
    for first, second in zip(run(triton_gpu, *case), run(triton_gpu, *case), strict=True):
        assert torch.equal(first, second)


def test_backward_may_run_twice():
    csr, values, x, coefficients = problem(8, 0, 3, 4, torch.float64)
    csr = csr.to(DEVICE)
    leaves = [
        each.to(DEVICE).detach().clone().requires_grad_() for each in (values, x, coefficients)
    ]
    y = triton_gpu.SparseOperator(csr, leaves[0]).series(*leaves[1:]).sin().sum()
    first = torch.autograd.grad(y, leaves, retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(y, leaves), strict=True):
        assert torch.equal(a, b)


def test_scratch_memory_is_not_trusted(monkeypatch):
    case = problem(8, 1, channels=5, degree=4, dtype=torch.float64)
    expected = run(reference, *case)
    empty_like = torch.empty_like
    monkeypatch.setattr(
        torch, "empty_like", lambda *args, **kwargs: empty_like(*args, **kwargs).fill_(torch.nan)
    )
    for actual, wanted in zip(run(triton_gpu, *case), expected, strict=True):
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_stored_and_added_up_in_float32(dtype):
    csr, values, x, coefficients = problem(10, 1, 5, 3, torch.float32)
    low = run(triton_gpu, csr, values, x.to(dtype), coefficients)
    full = run(reference, csr, values, x.to(dtype).float(), coefficients)
    assert low[0].dtype == dtype
    for actual, expected in zip(low, full, strict=True):
        assert (actual.float() - expected).norm() <= 0.05 * expected.norm()
