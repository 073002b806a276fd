"""Products at the ends of edges: every backend against the definition, values and derivatives."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from jsem_pyg.kernels.edge_dot import edge_dot, numba_cpu, reference, torch_chunks
from jsem_pyg.kernels.table import EDGE_DOT
from jsem_pyg.testing import random_graph

FAST = [name for name in EDGE_DOT.backends if name != "reference"]
NONE = torch.empty(2, 0, dtype=torch.long)
GRAPHS = {
    "no nodes": (NONE, 0),
    "one node": (NONE, 1),
    "no edges": (NONE, 5),
    "a loop": (torch.tensor([[0], [0]]), 1),
    "isolated nodes": (random_graph(40, 0.1, num_isolated=9)[0], 40),
    "parts": (torch.cat([random_graph(9, 0.6)[0], 9 + random_graph(7, 0.6)[0]], dim=1), 16),
    "repeated": (random_graph(12, 0.5)[0].repeat(1, 3).flip(1), 12),
}


@pytest.fixture(autouse=True)
def _small_chunks_and_threads(monkeypatch):
    """So that small graphs are cut too."""
    monkeypatch.setattr(torch_chunks, "_CHUNK_NUMBERS", 64)
    monkeypatch.setattr(numba_cpu, "_MUCH_WORK", 100)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)


def rows(num_rows, dtype=torch.float64, channels=5, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, channels, dtype=dtype, generator=draw).requires_grad_()


def derivatives(backend, a, b, i, j):
    """Values, both gradients, and the gradients of these."""
    out = edge_dot(a, b, i, j, backend)
    first = torch.autograd.grad(out.sin().sum(), [a, b], create_graph=True)
    second = torch.autograd.grad(sum(each.cos().sum() for each in first), [a, b])
    return [out, *first, *second]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("backend", FAST)
def test_backends_agree_with_the_definition(backend, name, dtype):
    (i, j), num_nodes = GRAPHS[name]
    a, b = rows(num_nodes, dtype), rows(num_nodes, dtype, seed=1)
    expected = derivatives("reference", a, b, i, j)
    for found, wanted in zip(derivatives(backend, a, b, i, j), expected, strict=True):
        assert found.dtype == dtype
        assert_close(found, wanted, rtol=1e-4 if dtype == torch.float32 else 1e-12, atol=1e-5)


@pytest.mark.parametrize("backend", FAST)
def test_one_signal_at_both_ends_and_two_of_other_sizes(backend):
    (i, j), num_nodes = GRAPHS["isolated nodes"]
    z = rows(num_nodes)
    grads = [
        torch.autograd.grad(edge_dot(z, z, i, j, each).exp().sum(), z)
        for each in (backend, "reference")
    ]
    assert_close(*grads)
    few, i = rows(3, seed=2), i % 3
    assert_close(edge_dot(few, z, i, j, backend), edge_dot(few, z, i, j, "reference"))
    pulled = [
        torch.autograd.grad(edge_dot(few, z, i, j, each).exp().sum(), [few, z])
        for each in (backend, "reference")
    ]
    assert_close(*pulled)


@pytest.mark.parametrize("backend", FAST)
def test_layouts_in_memory(backend):
    (i, j), num_nodes = GRAPHS["parts"]
    z = rows(num_nodes).detach()
    expected = edge_dot(z, z, i, j, "reference")
    wide = torch.zeros(num_nodes, 10, dtype=torch.float64)
    wide[:, ::2] = z
    pairs = torch.stack([i, j], dim=1)
    forms = [(i.int(), j.int()), (i.int(), j), tuple(pairs.t()), (i.int(), j.int())]
    for one in (z, wide[:, ::2], z.t().contiguous().t()):
        for ends in forms:
            assert_close(edge_dot(one, z, *ends, backend), expected)


def test_half_precision_and_no_channels():
    (i, j), num_nodes = GRAPHS["parts"]
    for dtype in (torch.float16, torch.bfloat16):
        z = rows(num_nodes, dtype)
        out = edge_dot(z, z, i, j)
        assert out.dtype == dtype
        assert torch.equal(out, edge_dot(z, z, i, j, "reference"))
    for backend in EDGE_DOT.backends:
        empty = rows(num_nodes, channels=0)
        out = edge_dot(empty, empty, i, j, backend)
        assert torch.equal(out, torch.zeros(i.numel(), dtype=torch.float64))
        out.sum().backward()
        assert empty.grad.shape == (num_nodes, 0)


@pytest.mark.parametrize("backend", EDGE_DOT.backends)
@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_row_that_is_not_there(backend, wrong):
    z, good = rows(5), torch.zeros(40, dtype=torch.long)
    bad = good.clone()
    bad[-1] = wrong
    for ends in ((good, bad), (bad, good)):
        with pytest.raises(IndexError, match="out of range"):
            edge_dot(z, z, *ends, backend)
    if backend != "reference":
        kernel = EDGE_DOT.find(backend, z.device)
        for ends in ((good, bad), (bad, good)):
            with pytest.raises((IndexError, RuntimeError), match="out of"):
                kernel.sums(torch.ones(40, dtype=z.dtype), z, *ends, 5)


@pytest.mark.parametrize("backend", FAST)
def test_forward_mode_and_transforms(backend):
    (i, j), num_nodes = GRAPHS["parts"]
    z, moved = rows(num_nodes).detach(), rows(num_nodes, seed=1).detach()
    expected = edge_dot(moved, z, i, j, "reference") + edge_dot(z, moved, i, j, "reference")

    def dots(z):
        return edge_dot(z, z, i, j, backend)

    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(z, moved)
        assert_close(torch.autograd.forward_ad.unpack_dual(dots(dual)).tangent, expected)
    assert_close(torch.func.jvp(dots, (z,), (moved,))[1], expected)
    stacked = torch.func.vmap(dots)(torch.stack([z, moved]))
    assert_close(stacked, torch.stack([dots(z), dots(moved)]))
    jacobian = torch.func.jacrev(dots)(z)
    assert_close(torch.einsum("enc,nc->e", jacobian, moved), expected)

    def pull(z):
        return torch.autograd.grad(dots(z).square().sum(), z, create_graph=True)[0]

    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(z.requires_grad_(), moved)
        along = torch.autograd.forward_ad.unpack_dual(pull(dual)).tangent
    _, plain = torch.autograd.functional.jvp(
        lambda z: torch.autograd.grad(
            edge_dot(z, z, i, j, "reference").square().sum(), z, create_graph=True
        )[0],
        z, moved,
    )  # fmt: skip
    assert_close(along, plain)


class Largest(TorchDispatchMode):
    """The most numbers in any tensor that torch makes meanwhile."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numbers = max(self.numbers, out.numel())
        return out


@pytest.mark.parametrize("backend", [*FAST, "reference"])
def test_no_pair_of_rows_for_every_edge_is_kept_or_made(backend):
    num_nodes, num_edges, channels = 30, 2000, 20
    i, j = torch.randint(num_nodes, (2, num_edges))
    z, kept = rows(num_nodes, channels=channels), []
    with Largest() as made, saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        edge_dot(z, z, i, j, backend).sum().backward()
    is_light = max(kept) <= num_edges and made.numbers <= num_edges
    assert is_light == (backend != "reference")


def test_threads_do_not_change_the_sums(monkeypatch):
    i, j = torch.randint(7, (2, 500))
    z, g = rows(7, torch.float32), torch.rand(500)
    sums = []
    for threads in (1, 2, 16):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        sums.append(numba_cpu.sums(g, z, i, j, 7))
    assert torch.equal(sums[0], sums[1])
    assert torch.equal(sums[0], sums[2])


def test_the_definition_of_sums():
    g, z = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([[1.0, 10.0], [100.0, 1000.0]])
    i, j = torch.tensor([0, 2, 2]), torch.tensor([1, 0, 1])
    expected = [[100.0, 1000.0], [0.0, 0.0], [302.0, 3020.0]]
    assert reference.sums(g, z, i, j, 3).tolist() == expected
