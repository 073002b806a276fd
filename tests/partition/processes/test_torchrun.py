"""The example under torchrun: a process that is killed starts again, and ends where it would."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import needs_gloo
from safetensors.torch import load_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").exists(), reason="children are found in /proc"),
    needs_gloo,
]

EXAMPLE = Path(__file__).parents[3] / "examples" / "distributed_diffusion.py"
SIZE = 2


def start(output, *more):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(SIZE), *more, str(EXAMPLE), "--epochs", "40"]
    command += ["--output", str(output), "--batch-size", "512", "--seconds", "60"]
    # Otherwise those who start again may find addresses of before: pytorch/pytorch#135712.
    environment = os.environ | {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def children_of(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(path, seconds):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"no {path}"
        time.sleep(0.05)


def results(output):
    state = load_file(output / f"run-{SIZE}.safetensors")
    state.pop("tree")  # of all that is no tensor: it has the seconds of epochs
    return state, np.load(output / "diffused.npy")


@pytest.mark.parametrize("lost", range(SIZE))
def test_restarts_end_with_the_same_weights(lost, tmp_path):
    whole = start(tmp_path / "whole")
    said, _ = whole.communicate(timeout=300)
    assert whole.returncode == 0, said
    broken = start(tmp_path / "broken", "--max-restarts", "2")
    wait_for(tmp_path / "broken" / f"run-{SIZE}.safetensors", 300)
    os.kill(children_of(broken.pid)[lost], signal.SIGKILL)
    said, _ = broken.communicate(timeout=300)
    assert broken.returncode == 0, said
    assert "SIGKILL" in said or "exitcode: -9" in said, said
    weights, y = results(tmp_path / "whole")
    others, other_y = results(tmp_path / "broken")
    assert weights.keys() == others.keys()
    for name, value in weights.items():
        assert torch.equal(value, others[name]), name
    assert np.array_equal(y, other_y)
