"""The table of backends: what it chooses, what it refuses, and how a stranger adds to it."""

import sys
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from laws import random_graph

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.kernels import table
from jsem_pyg.kernels.chebyshev import Operator
from jsem_pyg.kernels.table import CHEBYSHEV, FAMILIES, Backend, KernelFamily

CPU = torch.device("cpu")


def family(**obstacles):
    return KernelFamily(
        {name: Backend("math", lambda device, o=o: o) for name, o in obstacles.items()}
    )


def test_auto_takes_the_first_that_can_run():
    own = family(fast="no hands", slow=None, plain=None)
    assert own.choose("auto", CPU) == "slow"
    assert own.find("slow", CPU).__name__ == "math"
    for each in FAMILIES.values():
        assert each.choose("auto", CPU) == "numba"
        assert each.choose("auto", torch.device("meta")) == list(each.backends)[-1]


def test_a_slower_kernel_on_a_gpu_is_logged_once(caplog):
    own = family(triton="too old", torch=None)
    for _ in range(2):
        assert own.choose("auto", torch.device("cuda")) == "torch"
    assert [each.getMessage() for each in caplog.records] == [
        "backend='auto' takes 'torch', which is slower, on 'cuda': too old."
    ]


def test_triton_runs_anywhere_in_its_interpreter(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(table, "_is_installed", lambda name: True)
    assert table.triton_obstacle(CPU) is None


def test_what_cannot_run_says_why_and_what_can():
    own = family(fast="no hands", slow=None, plain=None)
    with pytest.raises(ValueError, match=r"'fast': no hands\)\. These can: 'slow', 'plain'"):
        own.choose("fast", CPU)
    with pytest.raises(ValueError, match="'numba': numba runs on the CPU, not on 'cuda'"):
        CHEBYSHEV.choose("numba", torch.device("cuda"))
    with pytest.raises(ValueError, match="'backend' to be one of 'auto', 'fast', 'slow', 'plain'"):
        own.check("quick")


def test_a_backend_from_outside_is_an_entry(monkeypatch):
    class SparseOperator(Operator):
        def __init__(self, csr, value):
            self.num_nodes = csr.num_rows
            self.dense = torch.zeros(csr.num_rows, csr.num_rows, dtype=value.dtype)
            self.dense = self.dense.index_put((csr.row.long(), csr.col.long()), value)

        def apply(self, x):
            return self.dense @ x

    module = types.ModuleType("dense_backend")
    module.SparseOperator = SparseOperator
    monkeypatch.setitem(sys.modules, "dense_backend", module)
    monkeypatch.setitem(CHEBYSHEV.backends, "dense", Backend("dense_backend"))
    edge_index, weight = random_graph(12, 0.3, num_isolated=1)
    x = torch.randn(12, 3, dtype=torch.float64)
    for normalization in ("sym", "rw", None):
        results = []
        for backend in ("dense", "reference"):
            leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
            out = heat_diffusion(
                leaves[0], edge_index, leaves[1], normalization=normalization, backend=backend
            )
            results.append([out, *torch.autograd.grad(out.sin().sum(), leaves)])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other)


def test_threads_may_ask_for_a_module_at_once(tmp_path, monkeypatch):
    (tmp_path / "slow_backend.py").write_text("import time\ntime.sleep(0.3)\nready = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    own = KernelFamily({"slow": Backend("slow_backend")})
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(lambda name: own.find(name, CPU).ready, ["slow"] * 2))
