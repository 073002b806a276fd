"""The cases of `kernels/test_triton.py`, which says in what process they run."""

import math

import pytest
import torch
from kernels.sinkhorn.cases import DTYPES, Problem, check, problem

from jsem_pyg.kernels.sinkhorn import SinkhornPass, triton_gpu

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class OnDevice:
    """The backend with what goes in and comes out on the CPU, where the answers are."""

    @staticmethod
    def sinkhorn_pass(*case):
        moved = (each.to(DEVICE) if torch.is_tensor(each) else each for each in case)
        return SinkhornPass(*(each.cpu() for each in triton_gpu.sinkhorn_pass(*moved)))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch, request):
    if "no_small_blocks" in request.fixturenames:
        return
    for name, size in {"_ROWS": 16, "_COLUMNS": 32, "_RANK": 16, "_CHANNELS": 16}.items():
        monkeypatch.setattr(triton_gpu, name, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.1, 30.0, 1e4])
def test_scores_of_any_size(dtype, scale):
    check(OnDevice, problem(21, 70, 5, 4, dtype, scale, empty=0.2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1, 1), (16, 32, 16, 16), (17, 33, 17, 17), (40, 65, 40, 35), (5, 40, 0, 2),
     (20, 30, 2, 0), (0, 5, 2, 3), (5, 0, 2, 3)],
)  # fmt: skip
def test_any_shape(dtype, shape):
    check(OnDevice, problem(*shape, dtype=dtype))


@pytest.fixture
def no_small_blocks():
    """Blocks as they are."""


@pytest.mark.parametrize("scale", [30.0, 1e4])
@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_as_they_are(dtype, scale, no_small_blocks):
    check(OnDevice, problem(150, 200, 40, 35, dtype, scale, empty=0.1))


@pytest.mark.parametrize("splits", [1, 2, 100])
def test_rows_shared_out_among_programs(splits, monkeypatch):
    monkeypatch.setattr(triton_gpu, "_PROGRAMS", splits * 3)
    check(OnDevice, problem(70, 70, 3, 2))


def test_a_single_column_with_mass_and_none():
    u, v, g, log2_p, y = problem(20, 70, 3, 2, torch.float32)
    g = torch.full_like(g, -math.inf)
    assert not check(OnDevice, Problem(u, v, g, log2_p, y)).average.any()
    g[66] = 0.5
    assert check(OnDevice, Problem(u, v, g, log2_p, y)).column_mass.count_nonzero() == 1


def test_layouts_and_large_numbers():
    u, v, g, log2_p, _ = problem(20, 40, 6, 6, torch.float32)
    y = v[:, 1:4]
    check(OnDevice, Problem(u.T.contiguous().T, v, g.flip(0), log2_p, y))
    for each in OnDevice.sinkhorn_pass(u.sign() * 3e38, v.sign() * 3e38, g, log2_p, y):
        assert not each.isnan().any()


def test_two_runs_agree_to_the_last_bit():
    case = problem(40, 70, 5, 4, torch.float32)
    first, second = OnDevice.sinkhorn_pass(*case), OnDevice.sinkhorn_pass(*case)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
