import numpy as np
import pytest
import torch

from jsem_pyg.kernels.csr import CSR
from jsem_pyg.kernels.triangles import BACKENDS, find_kernels, numba_cpu, torch_wedges

FAST = [name for name in BACKENDS if name != "reference"]
CPU = torch.device("cpu")
reference = find_kernels("reference", CPU)


def csr_of(adjacency):
    row, col = torch.from_numpy(adjacency).nonzero(as_tuple=True)
    rowptr = torch.searchsorted(row, torch.arange(len(adjacency) + 1))
    return CSR(rowptr, row, col.contiguous())


def random_csr(seed, num_nodes, density):
    upper = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, 1)
    return csr_of(upper | upper.T)


def symmetric_values(csr, seed=0):
    values = torch.rand(csr.num_nodes, csr.num_nodes, generator=torch.Generator().manual_seed(seed))
    return (values + values.t())[csr.row, csr.col].double()


def wheel(num_nodes, spokes):
    """A hub with many leaves, some of them joined to the next: a row much longer than others."""
    adjacency = np.zeros((num_nodes, num_nodes), bool)
    adjacency[0, 1:] = True
    for i in range(1, spokes):
        adjacency[i, i + 1] = True
    return csr_of(adjacency | adjacency.T)


def shuffled(csr, seed=0):
    """The same graph with nodes in another order, so that hubs are not the first."""
    order = np.random.default_rng(seed).permutation(csr.num_nodes)
    adjacency = np.zeros((csr.num_nodes, csr.num_nodes), bool)
    adjacency[order[csr.row], order[csr.col]] = True
    return csr_of(adjacency)


GRAPHS = {
    "one node": random_csr(0, 1, 0.0),
    "no edges": random_csr(0, 5, 0.0),
    "one edge": random_csr(0, 2, 1.0),
    "sparse": random_csr(1, 40, 0.08),
    "dense": random_csr(2, 20, 0.7),
    "complete": random_csr(3, 12, 1.0),
    "hub": shuffled(wheel(60, 20)),
    "bipartite": csr_of(np.kron([[0, 1], [1, 0]], np.ones((6, 6))).astype(bool)),
}


@pytest.fixture(params=[1, 10, 1 << 22], ids=["chunk1", "chunk10", "one-chunk"])
def _chunk(request, monkeypatch):
    monkeypatch.setattr(torch_wedges, "_CHUNK_PATHS", request.param)


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("name", GRAPHS)
def test_backends_count_as_the_reference_does(backend, name):
    csr, kernels = GRAPHS[name], find_kernels(backend, CPU)
    values, reverse = symmetric_values(csr), reference.reverse_slots(csr)
    assert torch.equal(kernels.reverse_slots(csr), reverse)
    count, total = kernels.triangle_sums(csr, reverse, values)
    expected_count, expected_total = reference.triangle_sums(csr, reverse, values)
    assert torch.equal(count, expected_count)
    torch.testing.assert_close(total, expected_total, rtol=1e-12, atol=1e-12)
    for got, expected in zip(kernels.square_counts(csr), reference.square_counts(csr), strict=True):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads(threads):
    csr, before = random_csr(4, 80, 0.2), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        got = find_kernels("numba", CPU).square_counts(csr)
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, got, reference.square_counts(csr)))


def test_marks_start_anew_before_they_overflow(monkeypatch):
    csr = random_csr(5, 30, 0.3)
    rowptr, col = csr.rowptr.numpy(), csr.col.numpy()
    count, largest = np.zeros((2, col.size), np.int64)
    monkeypatch.setattr(numba_cpu, "_LARGEST_MARK", 60)
    # Uncompiled, since compiled code has the limit as a constant.
    for name in ("_paths", "_drop_single_paths", "_middles"):
        monkeypatch.setattr(numba_cpu, name, getattr(numba_cpu, name).py_func)
    numba_cpu._squares.py_func(rowptr, col, count, largest, 0, csr.num_nodes)
    expected = reference.square_counts(csr)
    np.testing.assert_array_equal(count, expected[0].numpy())
    np.testing.assert_array_equal(largest, expected[1].numpy())


def test_the_reference_counts_what_a_small_graph_shows():
    square = csr_of(np.roll(np.eye(4), 1, 0).astype(bool) | np.roll(np.eye(4), -1, 0).astype(bool))
    assert reference.square_counts(square)[0].tolist() == [1] * 8
    assert reference.square_counts(square)[1].tolist() == [1] * 8
    triangle = csr_of(~np.eye(3, dtype=bool))
    values = torch.tensor([1.0, 2.0, 1.0, 4.0, 2.0, 4.0])  # of 01, 02, 10, 12, 20, 21
    count, total = reference.triangle_sums(triangle, reference.reverse_slots(triangle), values)
    assert count.tolist() == [1] * 6
    assert total.tolist() == [6.0, 5.0, 6.0, 3.0, 5.0, 3.0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_reverse_slots(backend):
    csr = random_csr(2, 15, 0.4)
    reverse = find_kernels(backend, CPU).reverse_slots(csr)
    assert torch.equal(csr.row[reverse], csr.col)
    assert torch.equal(csr.col[reverse], csr.row)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("edges", [[(0, 1), (1, 2)], [(0, 1)], [(1, 0)], [(0, 1), (1, 2), (2, 0)]])
def test_a_directed_pattern_has_no_reverse(backend, edges):
    adjacency = np.zeros((3, 3), bool)
    adjacency[tuple(np.transpose(edges))] = True
    assert find_kernels(backend, CPU).reverse_slots(csr_of(adjacency)) is None


@pytest.mark.parametrize(
    ("backend", "device", "match"),
    [
        ("cython", "cpu", "'backend' to be one of 'auto', 'reference', 'torch', 'numba'"),
        ("numba", "cuda", "runs on the CPU"),
    ],
)
def test_a_backend_that_cannot_run_is_refused(backend, device, match):
    with pytest.raises(ValueError, match=match):
        find_kernels(backend, torch.device(device))
