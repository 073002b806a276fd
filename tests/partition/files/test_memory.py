"""As many columns as fit, by what diffusing them was seen to take; bytes in words."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from jsem_pyg.partition.files import memory
from jsem_pyg.partition.files.memory import (
    choose_sizes,
    extra_memory,
    in_words,
    parse_memory,
    resident_memory,
)

HELD, FIXED, TILE = 500_000_000, 100_000_000, 4  # bytes; copies of a column while it is diffused
COLUMN = 4_000_000  # bytes


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
    assert 200e6 < extra_memory(work, torch.device("cpu"))[0] < 400e6
    assert resident_memory() < before + 100e6
    with pytest.raises(ZeroDivisionError):
        extra_memory(lambda: 1 / 0, torch.device("cpu"))


@pytest.fixture
def make_flow(monkeypatch):
    """A flow that takes something fixed, and as much for every column, and no time."""
    monkeypatch.setattr(memory, "resident_memory", lambda: HELD)
    monkeypatch.setattr(memory, "extra_memory", lambda work, device: work())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def make(channels=512, num_nodes=1_000_000, limit=None, device="cpu"):
        def try_out(count):
            assert limit is None or peak(count) <= limit
            return FIXED + TILE * COLUMN * count, 2 * COLUMN * count

        return SimpleNamespace(
            num_nodes=num_nodes, channels=channels, scales=1, unit=min(16, channels),
            dtype=torch.float32, device=torch.device(device), try_out=try_out,
        )  # fmt: skip

    return make


def peak(width):
    """With the next columns, which are read ahead."""
    return HELD + FIXED + (TILE + 1) * COLUMN * width


@pytest.mark.parametrize("giga", [1.02, 1.4, 2.0, 6, 12])
def test_the_limit_is_kept_and_used(make_flow, giga):
    limit = int(giga * 1e9)
    width = choose_sizes(limit, make_flow(limit=limit)).width
    assert width % 16 == 0
    assert peak(width) <= limit
    if width < 512:  # two more units would not fit
        assert peak(width + 32) > 0.96 * limit


def test_the_memory_of_a_device_is_kept(make_flow, monkeypatch):
    monkeypatch.setattr(memory, "device_memory", lambda device: 20 * 16 * COLUMN)
    flow = make_flow(device="cuda")
    assert choose_sizes(int(40e9), flow).width == 160  # of 320 columns, two copies
    monkeypatch.setattr(memory, "device_memory", lambda device: COLUMN)
    with pytest.raises(ValueError, match="'device' to have .* free"):
        choose_sizes(int(40e9), flow)


def test_the_least_limit_is_named_and_enough(make_flow):
    with pytest.raises(ValueError, match=r"'memory' to be at least") as error:
        choose_sizes(900_000_000, make_flow())
    amount, unit = re.search(r"at least ([\d.]+) ([MG])B", str(error.value)).groups()
    least = float(amount) * {"M": 1e6, "G": 1e9}[unit]
    assert peak(16) < least < 1.1 * peak(16)
    assert choose_sizes(int(least), make_flow()).width == 16


@pytest.mark.parametrize("channels", [1, 3, 17, 100])
def test_a_few_columns(make_flow, channels):
    sizes = choose_sizes(int(40e9), make_flow(channels))
    assert sizes.width == channels
    assert sizes.strip >= 1
    assert choose_sizes(1, make_flow(channels, num_nodes=0)) == (1, 1)
