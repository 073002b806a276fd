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

from jsem_pyg._tensor_file import load_tree

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
    state = load_tree(output / f"run-{SIZE}.safetensors", "checkpoint")
    return state["model"], state["epoch"], np.load(output / "diffused.npy")


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
    weights, epoch, y = results(tmp_path / "whole")
    others, other_epoch, other_y = results(tmp_path / "broken")
    assert epoch == other_epoch == 40
    for name, value in weights.items():
        assert torch.equal(value, others[name]), name
    assert np.array_equal(y, other_y)
