"""Rows are shared among threads: every row once, in parts of about as many entries each."""

import numpy as np
import pytest
import torch

from jsem_pyg.kernels.threads import run_on_rows


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def parts_of(length, **options):
    rowptr, parts = np.cumsum([0, *length]), []
    run_on_rows(lambda rowptr, first, last: parts.append((first, last)), rowptr, **options)
    return sorted(parts)


@pytest.mark.parametrize("length", [[5] * 100, [300, *[1] * 99], [0] * 50 + [9] * 50])
def test_every_row_is_in_one_part(threads, length):
    parts = parts_of(length)
    assert len(parts) > threads
    assert [row for part in parts for row in range(*part)] == list(range(len(length)))
    entries = [sum(length[first:last]) for first, last in parts]
    assert max(entries) <= max(length) + sum(length) / len(parts) + max(length)


def test_little_work_stays_in_one_piece(threads):
    assert parts_of([5] * 100, threads_from=501) == [(0, 100)]
    assert len(parts_of([5] * 100, threads_from=500)) > 1
    torch.set_num_threads(1)
    assert parts_of([5] * 100) == [(0, 100)]
    assert parts_of([]) == [(0, 0)]
