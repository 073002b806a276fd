"""What is particular to the numba backend: threads, parts, exponents that rise, what is skipped."""

import pytest
import torch

numba_cpu = pytest.importorskip("jsem_pyg.kernels.sinkhorn.numba_cpu", exc_type=ImportError)

from kernels.sinkhorn.cases import DTYPES, check, problem  # noqa: E402

from jsem_pyg.kernels.sinkhorn import numba_fused  # noqa: E402


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_threads_agrees_to_the_last_bit(dtype):
    case = problem(1101, 970, 5, 4, dtype)  # less work is not divided
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 40):
            torch.set_num_threads(threads)
            results.append(check(numba_cpu, case))
    finally:
        torch.set_num_threads(before)
    for result in results[1:]:
        for a, b in zip(result, results[0], strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [-3.0, 3.0, 30.0, 500.0])
def test_scores_that_rise_or_fall_along_the_columns(dtype, step):
    """Exponents of rows are raised in the middle, and columns summed before are scaled."""
    case = problem(20, 1500, 2, 3, dtype, scale=2.0)
    check(numba_cpu, case._replace(g=torch.arange(1500, dtype=dtype) * step / 256))


def test_columns_that_every_row_dislikes_keep_their_mass():
    """60 bits below the rows' largest scores: no row notices, but the column has to be weighed."""
    case = problem(20, 600, 2, 3, torch.float32, scale=2.0)
    case.g[256:] = case.g[256:] - 50
    result = check(numba_cpu, case, error=1e-5)
    assert (result.column_mass[256:] > 0).all()


def test_what_is_skipped_is_zero():
    case = problem(20, 600, 2, 3, torch.float32, scale=2.0)
    case.g[256:] = case.g[256:] - 2 * numba_fused._SKIPPED
    assert not check(numba_cpu, case).column_mass[256:].any()
