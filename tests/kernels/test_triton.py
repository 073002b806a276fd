"""All Triton kernels: on a GPU where there is one, otherwise in Triton's interpreter.

Triton decides once, when it is first imported, whether it interprets. So without a GPU the cases
run in a process of their own, in which nothing can have imported it before.
"""

import os
import subprocess
import sys
from importlib import import_module
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


# Constants of the kernels, and flags and arguments that may be missing.
COMMON = {"EDGES": 8, "BLOCK": 128, "PER_CHANNEL": False}
KERNELS = {"step_kernel": "IS_FIRST", "step_back_kernel": "slopes", "begin_back_kernel": "slopes"}
INTEGERS = ("order", "rowptr", "col")


def kinds_of(kernel, constants):
    """Types of the arguments."""

    def kind(argument):
        if argument in constants:
            return "constexpr"
        if argument.startswith("num_"):
            return "i32"
        return "*i32" if argument in INTEGERS else "*fp32"

    return map(kind, kernel.arg_names)


def compiled_for_a_gpu(kernel, kinds, constants, **options):
    """Without one: types and layouts that the interpreter does not look at."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    source = ASTSource(kernel, dict(zip(kernel.arg_names, kinds, strict=True)), constants)
    compiled = compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert "ld.global" in compiled.asm["ptx"]
    assert "atom." not in compiled.asm["ptx"]
    return compiled


only_interprets = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") == "1", reason="only interprets"
)


@only_interprets
@pytest.mark.parametrize("option", [True, False])
@pytest.mark.parametrize("name", list(KERNELS))
def test_kernels_compile_for_a_gpu(name, option):
    kernel = getattr(import_module("jsem_pyg.kernels.chebyshev.triton_steps"), name)
    flags = {argument: False for argument in kernel.arg_names if argument.isupper()}
    constants = flags | {name: each for name, each in COMMON.items() if name in flags}
    if KERNELS[name].isupper():
        constants[KERNELS[name]] = option
    elif not option:
        constants[KERNELS[name]] = None
    compiled = compiled_for_a_gpu(kernel, kinds_of(kernel, constants), constants, num_warps=1)
    assert "bar.sync" not in compiled.asm["ptx"] or name != "step_kernel"


@only_interprets
@pytest.mark.parametrize("real", ["*fp32", "*fp64"])
@pytest.mark.parametrize("name", ["_row_kernel", "_column_kernel"])
def test_kernels_of_transport_compile_for_a_gpu(name, real):
    kernel = getattr(import_module("jsem_pyg.kernels.sinkhorn.triton_gpu"), name)
    constants = {"ROWS": 64, "COLUMNS": 64, "RANK": 32}
    constants["PRECISION"] = "ieee" if real == "*fp64" else "tf32x3"
    constants |= {"CHANNELS": 16} if name == "_row_kernel" else {}
    special = dict.fromkeys(constants, "constexpr") | dict.fromkeys(("z", "masses"), "*fp64")
    special |= dict.fromkeys(("num_rows", "num_columns", "rank", "channels"), "i32")
    kinds = [special.get(argument, real) for argument in kernel.arg_names]
    compiled = compiled_for_a_gpu(kernel, kinds, constants, num_warps=4, num_stages=2)
    assert ("tf32" in compiled.asm["ptx"]) == (real == "*fp32")
    assert compiled.metadata.shared <= 99 << 10  # what a small GPU has


def test_the_name_is_refused_where_it_cannot_run(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="'triton': triton runs on CUDA, not on 'cpu'"):
        CHEBYSHEV.find("triton", torch.device("cpu"))


def test_more_edges_than_int32_counts_are_refused():
    from jsem_pyg.kernels.chebyshev import triton_gpu

    with pytest.raises(ValueError, match=r"fewer than 2\^31 edges for backend='triton'"):
        triton_gpu.SparseOperator(SimpleNamespace(num_slots=2**31), torch.ones(1))
