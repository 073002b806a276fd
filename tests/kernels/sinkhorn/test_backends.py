"""Every backend against the definition in dense float64; Triton's cases are in a file of theirs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.sinkhorn.cases import DTYPES, Problem, check, dense, problem

from jsem_pyg.kernels.sinkhorn import torch_rows
from jsem_pyg.kernels.table import SINKHORN

CPU = torch.device("cpu")
NAMES = [name for name in ("torch", "numba") if SINKHORN.can_run(name, CPU)]


@pytest.fixture(params=NAMES)
def module(request):
    return SINKHORN.find(request.param, CPU)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1, 1), (7, 33, 1, 3), (8, 32, 2, 1), (9, 256, 3, 2), (16, 257, 4, 0),
        (40, 300, 0, 2), (25, 100, 120, 130), (300, 40, 17, 16), (0, 5, 2, 3), (5, 0, 2, 3),
        (0, 0, 0, 0),
    ],
)  # fmt: skip
def test_any_shape(module, dtype, shape):
    check(module, problem(*shape, dtype=dtype))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 60), st.integers(1, 300), st.integers(0, 12), st.integers(0, 7),
    st.sampled_from(DTYPES), st.floats(0.01, 2000), st.floats(0, 0.9), st.integers(0, 1000),
)  # fmt: skip
@pytest.mark.parametrize("name", NAMES)
def test_drawn_problems(name, n, k, r, c, dtype, scale, empty, seed):
    check(SINKHORN.find(name, CPU), problem(n, k, r, c, dtype, scale, empty, seed))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_single_column_with_mass_takes_all(module, dtype):
    u, v, g, log2_p, y = problem(20, 300, 3, 2, dtype)
    g = torch.full_like(g, -math.inf).index_fill(0, torch.tensor(277), 0.25)
    result = check(module, Problem(u, v, g, log2_p, y))
    assert torch.equal(result.column_mass > 0, torch.arange(300) == 277)
    torch.testing.assert_close(result.peak, torch.ones(20, dtype=dtype))


def test_without_mass_there_is_nothing(module):
    case = problem(12, 40, 3, 2)
    for empty in (
        case._replace(g=torch.full_like(case.g, -math.inf)),
        case._replace(log2_p=torch.full_like(case.log2_p, -math.inf)),
    ):
        result = module.sinkhorn_pass(*empty)
        assert (result.f == -math.inf).all()
        assert not any(each.any() for each in result[1:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_layout_in_memory(module, dtype):
    u, v, g, log2_p, _ = problem(30, 70, 6, 6, dtype)
    y = v[:, 1:4]  # columns of v itself
    plain = module.sinkhorn_pass(u, v, g, log2_p, y.clone())
    transposed = module.sinkhorn_pass(u.T.contiguous().T, v.T.contiguous().T, g, log2_p, y)
    strided = (torch.stack([each, each + 1], -1)[..., 0] for each in (u, v, g, log2_p, y))
    backwards = module.sinkhorn_pass(u.flip(0), v.flip(0), g.flip(0), log2_p.flip(0), y.flip(0))
    for other in (transposed, module.sinkhorn_pass(*strided)):
        for a, b in zip(plain, other, strict=True):
            torch.testing.assert_close(a, b)
    for a, b in zip(plain, backwards, strict=True):
        torch.testing.assert_close(a, b.flip(0), rtol=1e-5, atol=1e-6)


def test_rows_sum_to_p_and_two_calls_agree(module):
    case = problem(50, 300, 4, 1, torch.float32, scale=3000.0)
    case = case._replace(y=torch.ones(300, 1))
    first, second = module.sinkhorn_pass(*case), module.sinkhorn_pass(*case)
    torch.testing.assert_close(first.average[:, 0], case.log2_p.exp2(), rtol=1e-5, atol=0)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_finite_input_of_any_size_makes_no_nan(module, dtype):
    u, v, g, log2_p, y = problem(20, 40, 3, 2, dtype)
    largest = torch.finfo(dtype).max
    u, v = u.sign() * largest, v.sign() * largest
    for potential in (g, torch.full_like(g, largest), torch.full_like(g, -largest)):
        for each in module.sinkhorn_pass(u, v, potential, log2_p, y):
            assert not each.isnan().any()


def test_sums_over_many_columns_keep_their_digits(module):
    u, v, y = torch.zeros(4, 1), torch.zeros(200_001, 1), torch.ones(200_001, 1)
    g = torch.rand(200_001, generator=torch.Generator().manual_seed(0))
    result = module.sinkhorn_pass(u, v, g, torch.zeros(4), y)
    f = -g.double().exp2().sum().log2().float().expand(4)
    torch.testing.assert_close(result.f, f, rtol=1e-5, atol=0)
    torch.testing.assert_close(result.average, torch.ones(4, 1), rtol=1e-5, atol=0)
    assert float(result.column_mass.sum()) == pytest.approx(4, rel=1e-5)


def test_the_definition_takes_batches():
    cases = [problem(6, 9, 3, 2, seed=seed) for seed in range(3)]
    u, v, g, log2_p, y = (torch.stack(parts) for parts in zip(*cases, strict=True))
    result = torch_rows.sinkhorn_pass(u, v, g, log2_p, y)
    for at, case in enumerate(cases):
        for actual, expected in zip(result, dense(*case)[:4], strict=True):
            torch.testing.assert_close(actual[at], expected)
    shared = torch_rows.sinkhorn_pass(u, cases[0].v, cases[0].g, log2_p[0], cases[0].y)
    assert shared.average.shape == (3, 6, 2)


def test_what_does_not_fit_is_refused():
    module, case = SINKHORN.find("numba", CPU), problem(4, 5, 2, 3)
    for name, other in (("u", case.u[:, 0]), ("v", case.v[:, :1]), ("g", case.g[1:]),
                        ("log2_p", case.g), ("y", case.y[1:])):  # fmt: skip
        with pytest.raises(ValueError, match=r"Expected 'u' \[N, R\], 'v' \[K, R\]"):
            module.sinkhorn_pass(*case._replace(**{name: other}))
    with pytest.raises(ValueError, match="tensors of one type .*float32 on cpu, torch.float64"):
        module.sinkhorn_pass(*case._replace(y=case.y.float()))
