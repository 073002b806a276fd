"""What is particular to the numba backend: tiles, tails, threads, and what it keeps."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

numba_cpu = pytest.importorskip("jsem_pyg.kernels.chebyshev.numba_cpu", exc_type=ImportError)

from kernels.test_chebyshev_series import problem  # noqa: E402

from jsem_pyg.operators import GraphStructure, laplacian_operator  # noqa: E402
from jsem_pyg.testing import assert_backends_agree, random_graph  # noqa: E402


@pytest.fixture(params=["one line", "two lines"])
def tile_width(request, monkeypatch):
    small = 0 if request.param == "one line" else numba_cpu._SMALL_TILE
    monkeypatch.setattr(numba_cpu, "_SMALL_TILE", small)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 7, 8, 15, 16, 17, 32, 33, 70])
def test_any_number_of_columns(tile_width, dtype, channels):
    assert_backends_agree("numba", *problem(50, 2, channels, degree=5, dtype=dtype))


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_any_number_of_threads(threads, monkeypatch):
    monkeypatch.setattr(numba_cpu, "_MUCH_WORK", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert_backends_agree("numba", *problem(60, 2, 70, 5, torch.float64))
    finally:
        torch.set_num_threads(before)


def test_a_hub_and_a_diagonal():
    leaves = torch.arange(1, 200)
    hub = torch.zeros_like(leaves)
    edge_index = torch.cat([torch.stack([hub, leaves]), torch.stack([leaves, hub])], dim=1)
    structure = GraphStructure(edge_index, 200)
    generator = torch.Generator().manual_seed(0)
    coefficients = torch.rand(9, 1, 1, 1, dtype=torch.float64, generator=generator)
    x = torch.randn(200, 20, dtype=torch.float64, generator=generator)
    weight = torch.ones(edge_index.size(1), dtype=torch.float64)
    for normalization in ("sym", None):  # the latter has a diagonal
        operator = laplacian_operator(structure, weight, normalization)
        assert_backends_agree(
            "numba", operator.matrix.csr, operator.matrix.values[0], x, coefficients
        )


def test_two_runs_agree_to_the_last_bit():
    csr, values, x, coefficients, group = problem(80, 2, 70, 9, torch.float32)
    runs = []
    for _ in range(2):
        leaves = [each.clone().requires_grad_() for each in (values, x, coefficients)]
        out = numba_cpu.SparseOperator(csr, leaves[0]).series(*leaves[1:], group)
        out.sin().sum().backward()
        runs.append([out.detach(), *(leaf.grad for leaf in leaves)])
    for first, second in zip(*runs, strict=True):
        assert torch.equal(first, second)


def test_an_order_is_made_once_for_its_pattern():
    edge_index, _ = random_graph(30, 0.2)
    csr = GraphStructure(edge_index, 30).csr
    first = csr.derived(ordered_pattern)
    assert csr.derived(ordered_pattern) is first
    # Rows of the new order hold the same neighbours, ascending, and the slots that they come from.
    for row, node in enumerate(first.node):
        here = slice(first.rowptr[row], first.rowptr[row + 1])
        assert (first.col[here][1:] > first.col[here][:-1]).all()
        below = first.middle[row] - first.rowptr[row]
        assert (first.col[here] < row).sum() == below
        slots = first.slot[here]
        assert (csr.col[slots].numpy() == node).all()  # the slots of the reverse edges
        assert (csr.row[slots].numpy() == first.node[first.col[here]]).all()


def test_scratch_memory_is_not_trusted(monkeypatch):
    """Every array that numpy hands out in Python is full of NaN; the kernels fill it anyhow."""
    import numpy as np

    case = problem(50, 2, 17, degree=5, dtype=torch.float64)
    assert_backends_agree("numba", *case)  # compiled by now, with numpy's own function
    empty = np.empty

    def poisoned(*args, **kwargs):
        array = empty(*args, **kwargs)
        if array.dtype.kind == "f":
            array.fill(np.nan)
        return array

    monkeypatch.setattr(numba_cpu.np, "empty", poisoned)
    assert_backends_agree("numba", *case)


def test_without_numba_auto_falls_back_and_the_name_is_refused():
    code = """
import sys
sys.modules["numba"] = None
import torch
from jsem_pyg.diffusion import heat_diffusion
path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
heat_diffusion(torch.ones(3, 1), path)
try:
    heat_diffusion(torch.ones(3, 1), path, backend="numba")
except ValueError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'numba': numba is not installed" in run.stdout


def test_it_is_said_once_that_kernels_compile(caplog):
    numba_cpu._say_once_that_kernels_compile.cache_clear()
    caplog.set_level("INFO", "jsem_pyg")
    for _ in range(2):
        csr, values, x, *_ = problem(5, 0, 1, 1, torch.float64)
        numba_cpu.SparseOperator(csr, values).apply(x)
    assert [record.levelname for record in caplog.records] == ["INFO"]


@pytest.mark.parametrize("sizes", [(2**31, 1), (1, 2**31)])
def test_more_than_int32_counts_is_refused(sizes):
    csr = SimpleNamespace(num_rows=sizes[0], num_slots=sizes[1])
    with pytest.raises(ValueError, match=r"fewer than 2\^31 nodes and edges.*\(got \d+ and \d+\)"):
        numba_cpu.SparseOperator(csr, torch.ones(1))
