"""The Triton kernels: on a GPU where there is one, otherwise in Triton's interpreter.

Triton decides once, when it is first imported, whether it interprets. So without a GPU the cases
run in a process of their own, in which nothing can have imported it before.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from jsem_pyg.kernels.dispatch import find_backend

pytest.importorskip("triton")

CASES = Path(__file__).parent / "triton_cases.py"


def test_cases():
    interpreted = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)],
        env=os.environ | interpreted,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert " passed" in run.stdout


def test_the_name_is_refused_where_it_cannot_run(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="'triton': triton runs on CUDA, not on 'cpu'"):
        find_backend("triton", torch.device("cpu"))
