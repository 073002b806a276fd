"""As many columns as fit; bytes in words."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from jsem_pyg.partition.files import memory
from jsem_pyg.partition.files.memory import choose_width, needed, parse_memory

HELD = 500_000_000  # bytes


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


@pytest.fixture
def make_flow(monkeypatch):
    monkeypatch.setattr(memory, "resident_memory", lambda: HELD)

    def make(channels=512, num_nodes=1_000_000, device="cpu"):
        return SimpleNamespace(
            num_nodes=num_nodes, channels=channels, scales=1, unit=min(16, channels), itemsize=4,
            dtype=torch.float32, device=torch.device(device), warm_up=lambda: None,
        )  # fmt: skip

    return make


@pytest.mark.parametrize("giga", [1.3, 1.6, 2.0, 6, 12, 40])
def test_the_limit_is_kept_and_used(make_flow, giga):
    limit, flow = int(giga * 1e9), make_flow()
    width = choose_width(limit, flow)
    assert width % 16 == 0
    assert HELD + needed(flow, width) <= limit
    assert width == 512 or HELD + needed(flow, width + 32) > 0.96 * limit


def test_the_memory_of_a_device_is_kept(make_flow, monkeypatch):
    flow = make_flow(device="cuda")
    monkeypatch.setattr(memory, "device_memory", lambda device: needed(flow, 160))
    assert choose_width(int(40e9), flow) == 160
    monkeypatch.setattr(memory, "device_memory", lambda device: 1000)
    with pytest.raises(ValueError, match="'device' to have .* free"):
        choose_width(int(40e9), flow)


@pytest.mark.parametrize("channels", [1, 3, 17, 100])
def test_a_few_columns(make_flow, channels):
    assert choose_width(int(40e9), make_flow(channels)) == channels
    assert choose_width(1, make_flow(channels, num_nodes=0)) == 1


def test_panels_of_a_run_that_goes_on_have_to_fit(make_flow):
    assert choose_width(int(40e9), make_flow(), 32) == 32
    with pytest.raises(ValueError, match="'memory' to be at least .* panel of 96 columns"):
        choose_width(int(1e9), make_flow(), 96)


@pytest.mark.slow
@pytest.mark.parametrize(("t", "normalization"), [(2.0, "sym"), ([1.0, 3.0], "rw"), (60.0, "rw")])
def test_what_is_needed_is_what_is_taken(t, normalization, tmp_path):
    """In a process of its own: the peak of its resident memory stays below the limit."""
    limit = 1_200_000_000
    code = f"""
import numpy as np, torch
from jsem_pyg.partition import diffuse_file
torch.set_num_threads(1)
x = np.ones((100_000, 256), np.float32)
np.save("x.npy", x)
del x
ring = torch.arange(100_000)
edges = torch.stack([ring, ring.roll(1)])
edges = torch.cat([edges, edges.flip(0)], 1)
open("/proc/self/clear_refs", "w").write("5")
diffuse_file("x.npy", edges, "y.npy", {t}, memory={limit}, normalization={normalization!r})
print(*(line.split()[1] for line in open("/proc/self/status") if "VmHWM" in line))
"""
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peaks are read from /proc")
    run = [sys.executable, "-c", code]
    out = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert int(out) * 1024 <= limit
