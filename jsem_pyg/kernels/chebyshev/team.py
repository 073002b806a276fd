"""Threads that work on column tiles: each on tiles of its own, or all on the same one."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Memory = TypeVar("Memory")
Share = tuple[int, int]  # which of how many threads one is, that share the rows of a tile
Stage = Callable[[Share], object]  # a part of the work on a tile, on a thread's share of the rows


class Team:
    """So many threads, and how they divide the work.

    Args:
        num_threads: how many there may be.
        num_tiles: how many tiles there are.
        together: whether all work on the same tile, so that there is scratch memory for one alone,
            and wait for one another after every stage; else each takes every so-many-th tile.
    """

    def __init__(self, num_threads: int, num_tiles: int, together: bool) -> None:
        self.num_tiles = num_tiles
        self.num_threads = max(1, num_threads if together else min(num_threads, num_tiles))
        self.together = together and self.num_threads > 1

    def run(
        self,
        allocate: Callable[[], Memory],
        stages: Callable[[int, int, Memory], Iterable[Stage]],
    ) -> None:
        """Work on all tiles.

        Args:
            allocate: makes the scratch memory for a tile.
            stages: the stages of a tile, for (tile, thread, memory).
        """
        if not self.together:

            def work(thread: int) -> None:
                memory = allocate()
                for tile in range(thread, self.num_tiles, self.num_threads):
                    for stage in stages(tile, thread, memory):
                        stage((0, 1))

        else:
            shared = allocate()
            barrier = threading.Barrier(self.num_threads)

            def work(thread: int) -> None:
                try:
                    for tile in range(self.num_tiles):
                        for stage in stages(tile, thread, shared):
                            stage((thread, self.num_threads))
                            barrier.wait()
                except threading.BrokenBarrierError:
                    pass  # another thread has failed, and says why
                except BaseException:
                    barrier.abort()  # or the others would wait for ever
                    raise

        if self.num_threads == 1:
            work(0)
            return
        with ThreadPoolExecutor(self.num_threads) as pool:
            list(pool.map(work, range(self.num_threads)))
