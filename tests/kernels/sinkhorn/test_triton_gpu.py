"""The Triton kernels: on a GPU where there is one, otherwise in the interpreter; see there.

As in `kernels/test_triton.py`, the cases run in a process of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

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


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="only interprets")
@pytest.mark.parametrize("real", ["*fp32", "*fp64"])
@pytest.mark.parametrize("name", ["_row_kernel", "_column_kernel"])
def test_kernels_compile_for_a_gpu(name, real):
    """Without one: types and layouts that the interpreter does not look at."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from jsem_pyg.kernels.sinkhorn import triton_gpu

    kernel = getattr(triton_gpu, name)
    constants = {"ROWS": 64, "COLUMNS": 64, "RANK": 16}
    constants |= {"CHANNELS": 16} if name == "_row_kernel" else {}
    integers = ("num_rows", "num_columns", "rank", "channels")
    types = {
        each: "constexpr" if each in constants
        else "i32" if each in integers
        else "*fp64" if each in ("z", "masses")
        else real
        for each in kernel.arg_names
    }  # fmt: skip
    compiled = compile(
        ASTSource(kernel, types, constants),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": 8},
    )
    assert "ld.global" in compiled.asm["ptx"]
    assert "tf32" not in compiled.asm["ptx"]
    assert "atom." not in compiled.asm["ptx"]
    assert compiled.metadata.shared <= 99 << 10  # what a small GPU has
