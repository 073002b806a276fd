"""Numba's cache on disk: used where it works, and of no consequence where it does not."""

import importlib.util
import logging
import os
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import numba
import numpy as np
import pytest
from trust.disk_cases import file_size_limit

from jsem_pyg.kernels import compiled

KERNELS = Path(compiled.__file__).parent
SOURCE = """
from jsem_pyg.kernels.compiled import compiled

@compiled()
def double(array):
    return inner(array) * 2

@compiled(nogil=True)
def inner(array):
    return array.sum()
"""


class Module:
    """A file with kernels, whose cache lies beside it; every `load` is that of a new process."""

    def __init__(self, folder, monkeypatch):
        # Nowhere else: neither a folder of the user's choice, nor one in his home.
        monkeypatch.setattr(numba.config, "CACHE_DIR", "")
        monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/no")
        self.path, self.cache, self.names = folder / "kernels.py", folder / "__pycache__", count()
        self.path.write_text(SOURCE)

    def load(self):
        spec = importlib.util.spec_from_file_location(f"_kernels_{next(self.names)}", self.path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.double

    def files(self, suffix):
        return sorted(self.cache.glob(f"*{suffix}"))

    def forbid(self):
        """No folder any more. (Permissions would not keep root from writing.)"""
        shutil.rmtree(self.cache, ignore_errors=True)
        self.cache.write_text("")


@pytest.fixture
def module(tmp_path, monkeypatch):
    return Module(tmp_path, monkeypatch)


@pytest.fixture
def said(caplog, monkeypatch):
    """What was logged, as from the beginning of a process."""
    monkeypatch.setattr(compiled, "_logged", set())
    caplog.set_level(logging.WARNING, "jsem_pyg")
    return lambda: [record.getMessage() for record in caplog.records]


def call(kernel):
    assert kernel(np.arange(4.0)) == 12
    return sum(kernel.stats.cache_hits.values())


def test_what_was_compiled_is_kept(module, said):
    assert call(module.load()) == 0
    assert call(module.load()) == 1
    assert not said()


def test_no_folder_to_write_to(module, said):
    module.forbid()
    for _ in range(2):
        assert call(module.load()) == 0
    (message,) = said()
    assert "cannot be made" in message
    assert "no locator available" in message
    assert "NUMBA_CACHE_DIR" in message


@pytest.mark.parametrize("size", [0, 1000])  # too full for the index, and for what is compiled
def test_a_full_disk(module, said, size):
    with file_size_limit(size):
        assert call(module.load()) == 0
    (message,) = said()
    assert "cannot be written (OSError" in message
    assert call(module.load()) == 0
    assert call(module.load()) == 1


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "zeros", "a folder"])
def test_damaged_files_are_replaced(module, said, suffix, damage):
    assert call(module.load()) == 0
    for path in module.files(suffix):
        content = path.read_bytes()
        path.unlink()
        if damage == "a folder":
            path.mkdir()
        else:
            damaged = {"empty": b"", "truncated": content[:-100], "zeros": bytes(len(content))}
            path.write_bytes(damaged[damage])
    assert call(module.load()) == 0
    if damage == "a folder":  # which only its owner may take away
        assert said()
        return
    assert len(said()) == 1
    assert "cannot be read" in said()[0]
    assert call(module.load()) == 1


def test_new_code_in_another_file_is_compiled(module, monkeypatch):
    assert call(module.load()) == 0
    monkeypatch.setattr(compiled, "_stamp_of_all", lambda: b"another")
    assert call(module.load()) == 0


def test_every_kernel_is_compiled_this_way():
    texts = {path: path.read_text() for path in KERNELS.rglob("*.py")}
    assert [path for path, text in texts.items() if "njit" in text] == [Path(compiled.__file__)]


@pytest.mark.slow
def test_no_kernel_leaves_its_arrays(tmp_path):
    """Where numba checks every index, which it does not do otherwise."""
    names = ("edges/test_edges.py", "test_numba.py", "triangles/test_triangles.py")
    files = [str(Path(__file__).with_name(name)) for name in names]
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files]
    run = subprocess.run(command, env=os.environ | checked, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-3000:]
