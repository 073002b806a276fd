"""Threads divide tiles, or the rows of a tile, and end together."""

import threading

import pytest

from jsem_pyg.kernels.chebyshev.thread_pool import TilePool


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("threads", "tiles"), [(1, 1), (1, 3), (2, 1), (2, 5), (4, 3)])
def test_every_stage_of_every_tile_is_done_once_and_in_turn(together, threads, tiles):
    done, lock, memories = [], threading.Lock(), []
    team = TilePool(threads, tiles, together)

    def allocate():
        memories.append(object())
        return memories[-1]

    def stages(tile, thread, memory):
        assert memory in memories
        for stage in range(3):

            def work(share, stage=stage):
                with lock:
                    done.append((tile, stage, *share))

            yield work

    team.run(allocate, stages)
    shares = team.num_threads if team.together else 1
    everything = {(i, j, k, shares) for i in range(tiles) for j in range(3) for k in range(shares)}
    assert len(done) == len(everything)
    assert set(done) == everything
    if team.together:  # no thread begins a stage before all have ended the one before
        assert [each[:2] for each in done] == sorted(each[:2] for each in done)
        assert len(memories) == 1
    else:
        assert len(memories) == team.num_threads == min(threads, tiles)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_in_one_thread_ends_the_others_and_is_raised(failing):
    def stages(tile, thread, memory):
        def work(share):
            if share[0] == failing and tile == 1:
                raise ValueError("this one")

        yield work

    with pytest.raises(ValueError, match="this one"):
        TilePool(3, 4, together=True).run(lambda: None, stages)
