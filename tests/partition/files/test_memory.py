"""As many columns as fit, by what diffusing them was seen to take; bytes in words."""

import re

import numpy as np
import pytest
import torch

from jsem_pyg.partition.files import memory
from jsem_pyg.partition.files.memory import (
    Sizes,
    choose_width,
    extra_memory,
    in_words,
    parse_memory,
    resident_memory,
)

HELD, FIXED, TILE = 500_000_000, 100_000_000, 3  # bytes; copies of a column while it is diffused
SIZES = Sizes(num_nodes=1_000_000, channels=512, scales=1, itemsize=4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1GB", 10**9),
        ("512MB", 512 * 10**6),
        (" 1.5 gib ", 1.5 * 2**30),
        ("2KiB", 2048),
        ("7b", 7),
        ("3TB", 3 * 10**12),
        (12, 12),
        (np.int64(12), 12),
    ],
)
def test_amounts_that_are_understood(text, expected):
    assert parse_memory("memory", text) == expected


@pytest.mark.parametrize("text", ["", "1", "GB", "1 XB", "-1GB", "1iB", "0.1B", "1e3MB", 0, -3])
def test_amounts_that_are_not(text):
    with pytest.raises(ValueError, match="'memory' to be"):
        parse_memory("memory", text)
    for value in (None, True, 1.5, [1]):
        with pytest.raises(TypeError, match="'memory' to be a number of bytes"):
            parse_memory("memory", value)


def test_words():
    assert [in_words(each) for each in (0, 999, 1000, 2.5e6, 4e12)] == [
        "0 B", "999 B", "1 KB", "2.5 MB", "4e+03 GB",
    ]  # fmt: skip


def test_memory_that_is_taken_for_a_while_is_seen():
    def work():
        held = np.ones(30_000_000)
        for _ in range(4):
            held += 1

    before = resident_memory()
    assert 200e6 < extra_memory(work) < 400e6
    assert resident_memory() < before + 100e6
    with pytest.raises(ZeroDivisionError):
        extra_memory(lambda: 1 / 0)


@pytest.fixture
def kernel(monkeypatch):
    """What is held, and what a kernel takes: something fixed, and so much for each column."""
    monkeypatch.setattr(memory, "resident_memory", lambda: HELD)
    monkeypatch.setattr(memory, "extra_memory", lambda diffuse: diffuse())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    return lambda count: FIXED + TILE * SIZES.column * count


def peak(width, kernel):
    """With the next columns read ahead, and the result of the last ones behind."""
    return HELD + kernel(width) + width * SIZES.column * (1 + SIZES.scales)


@pytest.mark.parametrize("giga", [1.02, 1.4, 2.0, 6, 12])
def test_the_limit_is_kept_and_used(kernel, giga):
    limit = int(giga * 1e9)

    def watched(count):
        assert peak(count, kernel) <= limit
        return kernel(count)

    width = choose_width(limit, SIZES, watched).width
    assert width % 16 == 0
    assert peak(width, kernel) <= limit
    if width < 512:  # two more units would not fit
        assert peak(width + 32, kernel) > 0.96 * limit


def test_the_least_limit_is_named_and_enough(kernel):
    with pytest.raises(ValueError, match=r"'memory' to be at least") as error:
        choose_width(900_000_000, SIZES, kernel)
    amount, unit = re.search(r"at least ([\d.]+) ([MG])B", str(error.value)).groups()
    least = float(amount) * {"M": 1e6, "G": 1e9}[unit]
    assert peak(16, kernel) < least < 1.1 * peak(16, kernel)
    assert choose_width(int(least), SIZES, kernel).width == 16


@pytest.mark.parametrize("channels", [0, 1, 3, 15, 16, 17, 100])
def test_a_few_columns(kernel, channels):
    budget = choose_width(int(40e9), SIZES._replace(channels=channels), kernel)
    assert budget.width == max(1, channels)
    assert budget.strip >= 1
    nobody = Sizes(0, channels, 2, 8)
    assert choose_width(int(10e9), nobody, lambda count: 0).width == max(1, channels)
