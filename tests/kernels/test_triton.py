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
from laws import random_graph

from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.table import CHEBYSHEV

pytest.importorskip("triton")

HERE = Path(__file__).parent
FILES = ("triton_cases.py", "fused_cases.py", "launch_cases.py", "replay_cases.py")
CASES = [str(HERE / name) for name in (*FILES, "sinkhorn/triton_cases.py")]


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
COMMON = {"EDGES": 8, "BLOCK": 128, "SAMPLES": 16, "LANES": 16, "PER_CHANNEL": False}
COMMON |= {"FLOOR": 1e-4, "RATE": 0.2, "SELF_LOOP": 1.0}
GIVEN = ("edge", "given", "conductance")
KERNELS = {
    "chebyshev.triton_steps": {
        "step_kernel": ("IS_FIRST", "HAS_DIAGONAL"),
        "step_back_kernel": ("HAS_DIAGONAL", "slopes"),
        "begin_back_kernel": ("HAS_DIAGONAL", "slopes"),
    },
    "fused.entries": {
        "_row_kernel": GIVEN,
        "_degree_kernel": (),
        "_entry_kernel": (),
        "_row_back_kernel": (),
        "_degree_back_kernel": (),
        "_edge_back_kernel": ("RELATIVE", "of_conductance", *GIVEN),
    },
    "fused.sigmoid": dict.fromkeys(
        ("_sigmoid_kernel", "_sigmoid_back_kernel", "_finish_kernel"), ()
    ),
    "fused.heat": dict.fromkeys(("_coefficient_kernel", "_time_kernel"), ()),
}
INTEGERS = ["order", "rowptr", "row", "col", "reverse", "edge"]
INTEGERS += ["starts", "neighbours", "members", "firsts", "slots"]
DOUBLES = ("weights", "nodes", "parts", "samples", "cosines", "times")


def kinds_of(kernel, constants, doubles=(), real="*fp32"):
    """Types of the arguments."""

    def kind(argument):
        if argument in constants:
            return "constexpr"
        if argument.startswith("num_"):
            return "i32"
        if argument in INTEGERS:
            return "*i32"
        return "*fp64" if argument in doubles else real

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
@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in KERNELS.items() for name in names]
)
def test_kernels_compile_for_a_gpu(module, name, option):
    kernel = getattr(import_module(f"jsem_pyg.kernels.{module}"), name)
    options = KERNELS[module][name]
    if not options and not option:
        pytest.skip("has no options")
    doubles = () if module.startswith("chebyshev") else (*DOUBLES, "slopes")

    flags = {argument: False for argument in kernel.arg_names if argument.isupper()}
    constants = flags | {name: each for name, each in COMMON.items() if name in flags}
    for argument in options:
        if argument.isupper():
            constants[argument] = option
        elif not option:
            constants[argument] = None
    kinds = kinds_of(kernel, constants, doubles)
    compiled = compiled_for_a_gpu(kernel, kinds, constants, num_warps=1)
    assert "bar.sync" not in compiled.asm["ptx"] or name != "step_kernel"


@only_interprets
@pytest.mark.parametrize(("real", "option"), [("*fp32", True), ("*fp32", False), ("*fp64", True)])
@pytest.mark.parametrize("name", ["window_step_kernel", "window_step_back_kernel"])
def test_kernels_of_windows_compile_for_a_gpu(name, real, option):
    kernel = getattr(import_module("jsem_pyg.kernels.chebyshev.triton_windows"), name)
    constants = {"ROWS": 16, "EDGES": 32, "BLOCK": 128}
    constants["PRECISION"] = "ieee" if real == "*fp64" else "tf32x3"
    flags = ("IS_FIRST", "IS_LAST", "PER_CHANNEL", "HAS_DIAGONAL")
    constants |= {flag: option for flag in flags if flag in kernel.arg_names}
    kinds = kinds_of(kernel, constants, real=real)
    compiled = compiled_for_a_gpu(kernel, kinds, constants, num_warps=4)
    assert ("tf32" in compiled.asm["ptx"]) == (real == "*fp32")
    assert compiled.metadata.shared <= 99 << 10  # what a small GPU has


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


@pytest.mark.parametrize("num_nodes", [1, 16, 40, 200])
@pytest.mark.parametrize("probability", [0.0, 0.05, 0.9])
def test_windows_hold_every_edge_once(num_nodes, probability):
    from jsem_pyg.kernels.chebyshev.triton_windows import windows_of
    from jsem_pyg.kernels.ordering import locality_order

    csr = GraphStructure(random_graph(num_nodes, probability)[0], num_nodes).csr
    windows = windows_of(csr, locality_order)
    rows = windows.order.flatten()
    assert rows[rows < num_nodes].sort()[0].tolist() == list(range(num_nodes))
    found = []
    for w in range(len(windows.order)):
        entries = range(windows.start[w], windows.start[w + 1])
        neighbours = windows.neighbour[entries.start : entries.stop].tolist()
        assert len(set(neighbours)) == len(neighbours)
        for entry in entries:
            members = [r for r in range(16) if windows.member[entry] >> r & 1]
            for place, r in enumerate(members, start=int(windows.first[entry])):
                edge = windows.order[w, r], windows.neighbour[entry], windows.slot[place]
                found.append(tuple(map(int, edge)))
    slots = range(csr.num_slots)
    assert sorted(found) == list(zip(csr.row.tolist(), csr.col.tolist(), slots, strict=True))


def test_the_name_is_refused_where_it_cannot_run(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="'triton': triton runs on CUDA, not on 'cpu'"):
        CHEBYSHEV.find("triton", torch.device("cpu"))


def test_more_edges_than_int32_counts_are_refused():
    from jsem_pyg.kernels.chebyshev import triton_gpu

    with pytest.raises(ValueError, match=r"fewer than 2\^31 edges for backend='triton'"):
        triton_gpu.SparseOperator(SimpleNamespace(num_slots=2**31), torch.ones(1))
