"""A thread pool for column tiles: each thread works on its own tiles, or all on the same one."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Memory = TypeVar("Memory")
Share = tuple[int, int]  # (index of the thread, number of threads that share the rows of a tile)
Stage = Callable[[Share], object]  # a part of the work on a tile, on a thread's share of the rows


class TilePool:
    """A thread pool and the way in which its threads divide the tiles.

    Together, all threads work on the same tile, with scratch memory for one tile, and wait for each
    other after every stage; otherwise thread i of n takes the tiles i, i + n, ...
    """

    def __init__(self, num_threads: int, num_tiles: int, together: bool) -> None:
        self.num_tiles = num_tiles
        self.num_threads = max(1, num_threads if together else min(num_threads, num_tiles))
        self.together = together and self.num_threads > 1

    def run(
        self, allocate: Callable[[], Memory], stages: Callable[[int, int, Memory], Iterable[Stage]]
    ) -> None:
        """Work on all tiles: on the `stages` of each, for (tile, thread, what `allocate` made)."""
        shared = allocate() if self.together else None
        barrier = threading.Barrier(self.num_threads)
        step = 1 if self.together else self.num_threads

        def work(thread: int) -> None:
            memory = allocate() if shared is None else shared
            share = (thread, self.num_threads) if self.together else (0, 1)
            try:
                for tile in range(0 if self.together else thread, self.num_tiles, step):
                    for stage in stages(tile, thread, memory):
                        stage(share)
                        if self.together:
                            barrier.wait()
            except threading.BrokenBarrierError:
                pass  # another thread has failed, and raises the reason
            except BaseException:
                barrier.abort()  # or the others would wait for ever
                raise

        if self.num_threads == 1:
            work(0)
            return
        with ThreadPoolExecutor(self.num_threads) as pool:
            list(pool.map(work, range(self.num_threads)))
