"""Bytes in words, and how many a process holds."""

import numpy as np
import pytest

from jsem_pyg.partition.files.memory import (
    extra_memory,
    in_words,
    parse_memory,
    resident_memory,
)


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
