"""As many columns as fit, by what diffusing them was seen to take."""

import re

import pytest
import torch

from jsem_pyg.partition.files import panel_width
from jsem_pyg.partition.files.panel_width import Sizes, choose_width

HELD, FIXED, TILE = 500_000_000, 100_000_000, 3  # bytes; copies of a column while it is diffused
SIZES = Sizes(num_nodes=1_000_000, channels=512, scales=1, itemsize=4)


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    """What is held, and what a kernel takes: something fixed, and so much for each column."""
    monkeypatch.setattr(panel_width, "resident_memory", lambda: HELD)
    monkeypatch.setattr(panel_width, "extra_memory", lambda diffuse: diffuse())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    return lambda count: FIXED + TILE * SIZES.column * count


def peak(width, kernel, sizes=SIZES):
    """With the next panel read ahead, and the result of the last one behind."""
    return HELD + kernel(width) + width * sizes.column * (1 + sizes.scales)


@pytest.mark.parametrize(("memory", "panels"), [(1.02, 32), (1.4, 16), (2.0, 8), (6, 2), (12, 1)])
def test_the_limit_is_kept_and_used(kernel, memory, panels):
    limit = int(memory * 1e9)
    width = choose_width(limit, SIZES, kernel).width
    assert -(-SIZES.channels // width) == panels
    assert width % 16 == 0
    assert peak(width, kernel) <= limit
    if panels > 1:  # another panel less would not fit
        fewer = -(-SIZES.channels // (panels - 1) // 32) * 32
        assert peak(fewer, kernel) > 0.96 * limit


def test_the_least_limit_is_named_and_enough(kernel):
    with pytest.raises(ValueError, match=r"'memory' to be at least") as error:
        choose_width(900_000_000, SIZES, kernel)
    amount, unit = re.search(r"at least ([\d.]+) ([MG])B", str(error.value)).groups()
    least = float(amount) * {"M": 1e6, "G": 1e9}[unit]
    assert peak(16, kernel) < least < 1.1 * peak(16, kernel)
    assert choose_width(int(least), SIZES, kernel).width == 16


def test_what_is_tried_out_keeps_the_limit(kernel):
    limit, tried = int(3e9), []

    def watched(count):
        tried.append(count)
        assert peak(count, kernel) <= limit
        return kernel(count)

    width = choose_width(limit, SIZES, watched).width
    assert tried[:2] == [16, 16]
    assert width >= tried[-1] > 16


@pytest.mark.parametrize("channels", [0, 1, 3, 15, 16, 17, 100])
def test_a_few_columns(kernel, channels):
    budget = choose_width(int(10e9), SIZES._replace(channels=channels), kernel)
    assert budget.width == max(1, channels)
    assert budget.strip >= 1
    nobody = Sizes(0, channels, 2, 8)
    assert choose_width(int(10e9), nobody, lambda count: 0).width == max(1, channels)
