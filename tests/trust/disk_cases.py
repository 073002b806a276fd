"""Disks that are full or cannot be written to, as far as this machine allows to make them."""

import os
import resource
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def file_size_limit(num_bytes):
    """No file grows beyond a size: the OSError of a full disk, by another number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def small_disk(folder, size):
    """A disk of its own under a folder; skips where nobody may mount one."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("no disk may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def read_only(folder):
    """A folder that cannot be written to, also by root, whom permissions do not bind."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        try:
            yield folder
        finally:
            folder.chmod(0o755)
        return
    with small_disk(folder, "1m"):
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        yield folder
