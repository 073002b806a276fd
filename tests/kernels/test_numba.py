"""What is particular to the numba backend: tiles, tails, threads, and what it keeps."""

import weakref
from types import SimpleNamespace

import pytest
import torch
from torch.utils.checkpoint import checkpoint

numba_cpu = pytest.importorskip("jsem_pyg.kernels.chebyshev.numba_cpu", exc_type=ImportError)

from kernels.test_chebyshev_series import assert_backends_agree, problem  # noqa: E402
from laws import random_graph  # noqa: E402

from jsem_pyg.diffusion import heat_diffusion  # noqa: E402
from jsem_pyg.graph import GraphStructure  # noqa: E402
from jsem_pyg.kernels.bandwidth import bandwidth_order  # noqa: E402
from jsem_pyg.kernels.chebyshev.passes import BLOCK  # noqa: E402
from jsem_pyg.kernels.csr import given_order  # noqa: E402
from jsem_pyg.operators import laplacian_operator  # noqa: E402


@pytest.fixture
def much_work(monkeypatch):
    """As if little work were much: it is divided among threads."""
    monkeypatch.setattr(numba_cpu, "_MUCH_WORK", 0)


@pytest.fixture
def together(much_work, monkeypatch):
    """And as if small tiles were large ones, of which threads share the rows."""
    monkeypatch.setattr(numba_cpu, "_SMALL_TILE", 0)


@pytest.fixture(params=["tiles of their own", "tiles together"])
def three_threads(request):
    """Three threads, however little there is to do, that share tiles or do not."""
    request.getfixturevalue("together" if request.param == "tiles together" else "much_work")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("channels", [1, 7, 8, 15, 16, 17, 32, 33, 70])
def test_any_number_of_columns(three_threads, dtype, channels):
    assert_backends_agree("numba", *problem(50, 2, channels, degree=5, dtype=dtype))


@pytest.mark.parametrize("degree", range(7))
def test_any_number_of_terms(three_threads, degree):
    """The result takes three of them at a time."""
    assert_backends_agree("numba", *problem(20, 2, 17, degree=degree, dtype=torch.float64))


def ring_with_chords(num_nodes):
    """A graph in no particular order, of several blocks of rows, with values and coefficients."""
    generator = torch.Generator().manual_seed(0)
    name = torch.randperm(num_nodes, generator=generator)
    start = torch.arange(num_nodes).repeat(3)
    jump = torch.tensor([1, 2, 40]).repeat_interleave(num_nodes)
    one_way = torch.stack([name[start], name[(start + jump) % num_nodes]])
    structure = GraphStructure(torch.cat([one_way, one_way.flip(0)], dim=1), num_nodes)
    weight = torch.ones(6 * num_nodes, dtype=torch.float64)
    matrix = laplacian_operator(structure, weight, "sym").matrix
    x = torch.randn(num_nodes, 40, dtype=torch.float64, generator=generator)
    coefficients = torch.rand(6, 2, 40, dtype=torch.float64, generator=generator)
    return matrix.csr, matrix.values[0], x, coefficients


@pytest.mark.parametrize("order", [given_order, bandwidth_order])
def test_more_rows_than_a_block_in_any_order(three_threads, order, monkeypatch):
    assert 3 * BLOCK < 3500
    monkeypatch.setattr(numba_cpu, "choose_for_series", lambda *args: order)
    assert_backends_agree("numba", *ring_with_chords(3500))


def test_the_number_of_threads_does_not_change_a_shared_tile(together):
    csr, values, x, coefficients = ring_with_chords(2500)
    before, runs = torch.get_num_threads(), []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        leaves = [each.clone().requires_grad_() for each in (values, x)]
        out = numba_cpu.SparseOperator(csr, leaves[0]).series(leaves[1], coefficients)
        out.sin().sum().backward()
        runs.append([out.detach(), *(leaf.grad for leaf in leaves)])
    torch.set_num_threads(before)
    for run in runs[1:]:
        assert all(torch.equal(*pair) for pair in zip(run, runs[0], strict=True))


def test_scratch_memory_is_not_trusted(three_threads, monkeypatch):
    """Every array that numpy hands out in Python is full of NaN; the kernels fill it anyhow."""
    import numpy as np

    case = problem(50, 2, 17, degree=5, dtype=torch.float64)
    assert_backends_agree("numba", *case)  # compiled by now, with numpy's own function
    empty = np.empty

    def poisoned(*args, **kwargs):
        array = empty(*args, **kwargs)
        array.view(np.uint8).fill(255)  # which is NaN, whatever type of number it becomes
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    assert_backends_agree("numba", *case)


@pytest.mark.parametrize("sizes", [(2**31, 1), (1, 2**31)])
def test_more_than_int32_counts_is_refused(sizes):
    csr = SimpleNamespace(num_rows=sizes[0], num_slots=sizes[1])
    with pytest.raises(ValueError, match=r"fewer than 2\^31 nodes and edges.*\(got \d+ and \d+\)"):
        numba_cpu.SparseOperator(csr, torch.ones(1))


def test_compiled_code_keeps_what_a_second_backward_pass_needs(together):
    """There autograd frees what an op saved, not the series inside of it."""
    edge_index, weight = random_graph(40)[:2]
    x = torch.randn(40, 3, requires_grad=True)
    weight = weight.clone().requires_grad_()

    @torch.compile(backend="aot_eager", fullgraph=True)
    def diffused(x, weight):
        return heat_diffusion(x, edge_index, weight, 2.0, normalization="sym")

    expected = torch.autograd.grad(heat_diffusion(x, edge_index, weight, 2.0).sum(), [x, weight])
    total = diffused(x, weight).sum()
    for keep in (True, False):
        found = torch.autograd.grad(total, [x, weight], retain_graph=keep)
        torch.testing.assert_close(found, expected)


def test_checkpointed_and_packed_tensors_lead_to_the_same_gradients(together):
    csr, values, x, coefficients = ring_with_chords(200)

    def total(x, values):
        return numba_cpu.SparseOperator(csr, values).series(x.sin(), coefficients).square().sum()

    def gradients(run):
        leaves = [x.clone().requires_grad_(), values.clone().requires_grad_()]
        return torch.autograd.grad(run(*leaves), leaves)

    def packed(*leaves):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return total(*leaves)

    expected = gradients(total)
    assert all(map(torch.equal, gradients(packed), expected))
    again = gradients(lambda *leaves: checkpoint(total, *leaves, use_reentrant=False))
    assert all(map(torch.equal, again, expected))


def test_a_backward_pass_frees_what_is_kept_unless_the_graph_is_retained(together, monkeypatch):
    csr, values, x, coefficients = ring_with_chords(200)
    leaves, alive = [each.clone().requires_grad_() for each in (values, x)], []
    backward, kept = numba_cpu.backward, []

    def pack(tensor):
        kept.append(weakref.ref(tensor))
        return tensor

    def watched(*args):
        alive.append(sum(each() is not None for each in kept[2:]))  # after coefficients and values
        backward(*args)

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda each: each):
        out = numba_cpu.SparseOperator(csr, leaves[0]).series(leaves[1], coefficients)
    monkeypatch.setattr(numba_cpu, "backward", watched)
    direction = out.detach()
    found = [torch.autograd.grad(out, leaves, direction, retain_graph=again) for again in (1, 0)]
    assert all(map(torch.equal, *found))
    assert alive == [3, 3, 3, 2, 1, 0]
