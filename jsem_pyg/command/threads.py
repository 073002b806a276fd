"""Threads of a job: one where it is small."""

from collections.abc import Iterator
from contextlib import contextmanager

_SMALL = 5_000  # points


@contextmanager
def few_threads(num_points: int) -> Iterator[None]:
    """Within, one thread for a few points: more would only wait for each other."""
    if num_points > _SMALL:
        yield
        return
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
