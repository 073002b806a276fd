"""All Triton kernels: on a GPU where there is one, otherwise in Triton's interpreter.

Triton decides once, when it is first imported, whether it interprets. So without a GPU the cases
run in a process of their own, in which nothing can have imported it before.
"""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from jsem_pyg.kernels.table import CHEBYSHEV

pytest.importorskip("triton")

HERE = Path(__file__).parent
FILES = ("triton_cases.py", "launch_cases.py", "sinkhorn/triton_cases.py")
CASES = [str(HERE / name) for name in FILES]


@pytest.mark.ci
def test_cases():
    interpreted = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CASES],
        env=os.environ | interpreted,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert " passed" in run.stdout


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="only interprets")
@pytest.mark.parametrize("name", ["_step_kernel", "_step_back_kernel"])
def test_kernels_compile_for_a_gpu(name):
    """Without one: types and layouts that the interpreter does not look at."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from jsem_pyg.kernels.chebyshev import triton_gpu

    kernel = getattr(triton_gpu, name)
    constants = {"IS_FIRST": False} if name == "_step_kernel" else {"IS_LAST": False}
    constants |= {"PER_CHANNEL": False, "EDGES": 8, "BLOCK": 128}
    integers = dict.fromkeys(("order", "rowptr", "col"), "*i32")
    types = {
        each: "constexpr" if each in constants
        else "i32" if each.startswith("num_")
        else integers.get(each, "*fp32")
        for each in kernel.arg_names
    }  # fmt: skip
    compiled = compile(
        ASTSource(kernel, types, constants),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": 1},
    )
    assert "ld.global" in compiled.asm["ptx"]
    assert "bar.sync" not in compiled.asm["ptx"] or name == "_step_back_kernel"
    assert "atom." not in compiled.asm["ptx"]


def test_the_name_is_refused_where_it_cannot_run(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="'triton': triton runs on CUDA, not on 'cpu'"):
        CHEBYSHEV.find("triton", torch.device("cpu"))


def test_more_edges_than_int32_counts_are_refused():
    from jsem_pyg.kernels.chebyshev import triton_gpu

    with pytest.raises(ValueError, match=r"fewer than 2\^31 edges for backend='triton'"):
        triton_gpu.SparseOperator(SimpleNamespace(num_slots=2**31), torch.ones(1))
