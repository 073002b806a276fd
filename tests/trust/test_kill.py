"""Runs and builds that are killed at random moments lose nothing and end as any other."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import jsem_pyg

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(
        sys.platform != "linux" or not hasattr(signal, "SIGKILL"), reason="needs fork and /proc"
    ),
]

HARNESS = Path(__file__).with_name("kill_harness.py")
ALL_KILLS = int(os.environ.get("JSEM_KILLS", "200"))
SEED = int(os.environ.get("JSEM_KILL_SEED", "0"))


def kill(count, folder):
    roots = [str(Path(jsem_pyg.__file__).parents[1]), str(HARNESS.parents[1])]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = subprocess.run(
        [sys.executable, str(HARNESS), str(count), str(SEED), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        # PyG asks for a GPU where it is imported, which starts a thread.
        env=os.environ
        | one_thread
        | {"PYTHONPATH": os.pathsep.join(roots), "CUDA_VISIBLE_DEVICES": ""},
    )
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout.splitlines()[-1])
    faults = {name: report[name] for name in ("losses", "mismatches", "leftovers")}
    assert faults == {"losses": 0, "mismatches": 0, "leftovers": 0}, process.stderr
    assert report["kills"] == count
    return report


def test_a_kill_loses_nothing(tmp_path):
    kill(1, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)  # five minutes on two idle cores
def test_many_kills_lose_nothing(tmp_path, record_property):
    report = kill(ALL_KILLS, tmp_path)
    for name, value in report.items():
        record_property(name, value)
    assert report["in_a_write"] > ALL_KILLS / 20  # else nothing was tried
