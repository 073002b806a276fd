"""The cases of test_triton.py, which says in what process they run."""

import pytest
import torch
from kernels.test_chebyshev_series import problem

from jsem_pyg.kernels.chebyshev import reference, triton_gpu
from jsem_pyg.kernels.ordering import given_order
from jsem_pyg.operators import GraphStructure, laplacian_operator

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def run(module, csr, values, x, coefficients, group):
    leaves = [each.to(DEVICE).requires_grad_() for each in (values, x, coefficients)]
    leaves = [each.detach().clone().requires_grad_() for each in leaves]
    csr = csr if csr.col.device.type == DEVICE else csr.to(DEVICE)
    group = None if group is None else group.to(DEVICE)
    out = module.SparseOperator(csr, leaves[0]).series(*leaves[1:], group)
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
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 6])
@pytest.mark.parametrize(("num_nodes", "num_isolated"), [(1, 0), (2, 0), (30, 3)])
def test_values_and_gradients(dtype, rtol, degree, num_nodes, num_isolated):
    compare(problem(num_nodes, num_isolated, channels=5, degree=degree, dtype=dtype), rtol)


@pytest.mark.parametrize("scales", [1, 3])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("per_channel", [1, 7])
def test_scales_groups_and_channels(scales, groups, per_channel):
    shape = {"scales": scales, "groups": groups, "per_channel": per_channel}
    compare(problem(25, 2, channels=7, degree=4, dtype=torch.float64, **shape), 1e-12)


@pytest.mark.parametrize("channels", [1, 16, 17, 40])
def test_more_columns_than_a_block_holds(channels, monkeypatch):
    monkeypatch.setattr(triton_gpu, "_BLOCK", 16)
    compare(problem(20, 1, channels=channels, degree=3, dtype=torch.float64), 1e-12)


def test_a_hub_repeated_edges_and_a_diagonal():
    leaves = torch.arange(1, 60)
    hub = torch.zeros_like(leaves)
    edge_index = torch.cat([torch.stack([hub, leaves]), torch.stack([leaves, hub])], dim=1)
    structure = GraphStructure(edge_index.repeat(1, 2), 60)
    weight = torch.ones(structure.num_edges, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, dtype=torch.float64, generator=generator)
    coefficients = torch.rand(4, 1, 1, 1, dtype=torch.float64, generator=generator)
    for normalization in ("sym", None):  # the latter has a diagonal
        operator = laplacian_operator(structure, weight, normalization)
        compare((operator.matrix.csr, operator.matrix.values[0], x, coefficients, None), 1e-12)


def test_two_runs_agree_to_the_last_bit():
    case = problem(25, 2, channels=7, degree=4, dtype=torch.float32)
    for first, second in zip(run(triton_gpu, *case), run(triton_gpu, *case), strict=True):
        assert torch.equal(first, second)


def test_backward_may_run_twice():
    csr, values, x, coefficients, group = problem(20, 0, 3, 5, torch.float64)
    csr = csr.to(DEVICE)
    leaves = [
        each.to(DEVICE).detach().clone().requires_grad_() for each in (values, x, coefficients)
    ]
    y = triton_gpu.SparseOperator(csr, leaves[0]).series(*leaves[1:], group).sin().sum()
    first = torch.autograd.grad(y, leaves, retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(y, leaves), strict=True):
        assert torch.equal(a, b)


def test_scratch_memory_is_not_trusted(monkeypatch):
    case = problem(20, 1, channels=5, degree=4, dtype=torch.float64)
    expected = run(reference, *case)
    empty_like = torch.empty_like
    monkeypatch.setattr(
        torch, "empty_like", lambda *args, **kwargs: empty_like(*args, **kwargs).fill_(torch.nan)
    )
    for actual, wanted in zip(run(triton_gpu, *case), expected, strict=True):
        torch.testing.assert_close(actual, wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_stored_and_added_up_in_float32(dtype):
    csr, values, x, coefficients, group = problem(20, 1, 5, 3, torch.float32)
    low = run(triton_gpu, csr, values, x.to(dtype), coefficients, group)
    full = run(reference, csr, values, x.to(dtype).float(), coefficients, group)
    assert low[0].dtype == dtype
    for actual, expected in zip(low, full, strict=True):
        assert (actual.float() - expected).norm() <= 0.05 * expected.norm()


@pytest.fixture
def launch_graphs(monkeypatch):
    monkeypatch.setattr(triton_gpu.launch_graphs, "is_enabled", True)


def moved(case):
    csr, values, x, coefficients, group = case
    return csr, values * 0.5, x.flip(0) + 1, coefficients * 2, group


@pytest.mark.parametrize("groups", [1, 3])
def test_recorded_launches_follow_their_inputs(launch_graphs, groups):
    case = problem(12, 2, channels=3, degree=4, dtype=torch.float64, groups=groups)
    csr = case[0].to(DEVICE)
    for each in (case, case, moved(case), case):  # run, record, replay, replay
        compare((csr, *each[1:]), 1e-12)
    recordings = csr.derived(triton_gpu._prepared, given_order).recordings
    assert sum(each is not None for each in recordings.values()) == 2  # forward and backward


def test_results_of_recorded_launches_are_the_callers(launch_graphs):
    case = problem(8, 0, channels=3, degree=3, dtype=torch.float64)
    csr = case[0].to(DEVICE)
    first = [run(triton_gpu, csr, *case[1:]) for _ in range(3)][-1]
    kept = [each.clone() for each in first]
    run(triton_gpu, csr, *moved(case)[1:])
    for a, b in zip(first, kept, strict=True):
        assert torch.equal(a, b)


def test_only_some_recordings_are_kept_and_none_of_large_inputs(launch_graphs, monkeypatch):
    csr, values, x, coefficients, group = problem(3, 0, 2, 12, torch.float64)
    csr = csr.to(DEVICE)
    for degree in range(12):
        run(triton_gpu, csr, values, x, coefficients[: degree + 1], group)
    assert len(csr.derived(triton_gpu._prepared, given_order).recordings) == 8
    other = problem(30, 0, 3, 2, torch.float64)
    monkeypatch.setattr(triton_gpu.launch_graphs, "max_bytes", 8)
    for _ in range(2):
        run(triton_gpu, *other)
    assert not other[0].derived(triton_gpu._prepared, given_order).recordings
