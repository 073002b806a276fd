"""Threads divide tiles, or the rows of a tile, and end together."""

import pytest

numba_cpu = pytest.importorskip("jsem_pyg.kernels.chebyshev.numba_cpu", exc_type=ImportError)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_in_one_thread_ends_the_others_and_is_raised(failing):
    def stages(tile, thread, memory):
        def work(share):
            if share[0] == failing and tile == 1:
                raise ValueError("this one")

        yield work

    with pytest.raises(ValueError, match="this one"):
        numba_cpu.work_on_tiles(3, 4, True, lambda: None, stages)
