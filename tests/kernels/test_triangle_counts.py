import numpy as np
import pytest
import torch

from jsem_pyg.kernels.csr import CSR
from jsem_pyg.kernels.table import TRIANGLES
from jsem_pyg.kernels.triangles import numba_triangles, reference, torch_wedges

BACKENDS = list(TRIANGLES.backends)
FAST = [name for name in BACKENDS if name != "reference"]
CPU = torch.device("cpu")


def csr_of(adjacency):
    row, col = torch.from_numpy(adjacency).nonzero(as_tuple=True)
    rowptr = torch.searchsorted(row, torch.arange(len(adjacency) + 1))
    return CSR(rowptr, col.int())


def random_csr(seed, num_nodes, density):
    upper = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, 1)
    return csr_of(upper | upper.T)


def symmetric_values(csr, seed=0):
    values = torch.rand(csr.num_rows, csr.num_rows, generator=torch.Generator().manual_seed(seed))
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
    order = np.random.default_rng(seed).permutation(csr.num_rows)
    adjacency = np.zeros((csr.num_rows, csr.num_rows), bool)
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


def reverse_of(csr):
    return csr.col.argsort(stable=True).int()


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("name", GRAPHS)
def test_backends_count_as_the_reference_does(backend, name):
    csr, kernels = GRAPHS[name], TRIANGLES.find(backend, CPU)
    count = kernels.triangle_counts(csr, reverse_of(csr))
    assert torch.equal(count, reference.triangle_counts(csr, reverse_of(csr)))
    for got, expected in zip(kernels.square_counts(csr), reference.square_counts(csr), strict=True):
        assert torch.equal(got, expected)


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize("dtype", [None, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("with_triangles", [False, True])
@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("name", GRAPHS)
def test_backends_compute_the_curvature_of_the_definition(backend, name, with_triangles, dtype):
    csr, reverse = GRAPHS[name], reverse_of(GRAPHS[name])
    weight = None if dtype is None else symmetric_values(csr).add(0.01).to(dtype)
    got = TRIANGLES.find(backend, CPU).forman(csr, reverse, weight, with_triangles)
    expected = reference.forman(csr, reverse, weight, with_triangles)
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("backend", BACKENDS)
def test_curvature_takes_the_mean_of_weights_that_differ_by_rounding(backend):
    csr, kernels = GRAPHS["dense"], TRIANGLES.find(backend, CPU)
    weight, reverse = symmetric_values(csr).add(0.01), reverse_of(csr)
    uneven = weight * (1 + 1e-6 * (csr.row < csr.col))
    got = kernels.forman(csr, reverse, uneven, True)
    expected = reference.forman(csr, reverse, (uneven + uneven[reverse]) / 2, True)
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", [0.0, -1.0, torch.nan, torch.inf, 2.0])
def test_curvature_has_no_answer_to_bad_weights(backend, bad):
    csr = GRAPHS["sparse"]
    weight = torch.ones(csr.col.numel())
    weight[7] = bad
    assert TRIANGLES.find(backend, CPU).forman(csr, reverse_of(csr), weight, True) is None


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads(threads, monkeypatch):
    for each in ("_scan", "_walk"):  # without their limits
        monkeypatch.setattr(numba_triangles, each, numba_triangles.run_on_rows)
    csr, before = random_csr(4, 80, 0.2), torch.get_num_threads()
    weight, reverse = symmetric_values(csr).add(0.01), reverse_of(csr)
    kernels = TRIANGLES.find("numba", CPU)
    torch.set_num_threads(threads)
    try:
        squares = kernels.square_counts(csr)
        triangles = kernels.triangle_counts(csr, reverse)
        curvature = [kernels.forman(csr, reverse, weight, each) for each in (False, True)]
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, squares, reference.square_counts(csr)))
    assert torch.equal(triangles, reference.triangle_counts(csr, reverse))
    for got, each in zip(curvature, (False, True), strict=True):
        torch.testing.assert_close(got, reference.forman(csr, reverse, weight, each))


def test_the_reference_counts_what_a_small_graph_shows():
    square = csr_of(np.roll(np.eye(4), 1, 0).astype(bool) | np.roll(np.eye(4), -1, 0).astype(bool))
    assert reference.square_counts(square)[0].tolist() == [1] * 8
    assert reference.square_counts(square)[1].tolist() == [1] * 8
    triangle = csr_of(~np.eye(3, dtype=bool))
    assert reference.triangle_counts(triangle, reverse_of(triangle)).tolist() == [1] * 6


@pytest.mark.parametrize(
    ("backend", "device", "match"),
    [
        ("cython", "cpu", "'backend' to be one of 'auto', 'reference', 'torch', 'numba'"),
        ("numba", "cuda", "runs on the CPU"),
    ],
)
def test_a_backend_that_cannot_run_is_refused(backend, device, match):
    with pytest.raises(ValueError, match=match):
        TRIANGLES.find(backend, torch.device(device))


@pytest.mark.parametrize("seed", range(5))
def test_squares_through_a_hub(seed):
    """The ends of paths through it are looked up among its neighbours."""
    generator = np.random.default_rng(seed)
    adjacency = np.triu(generator.random((90, 90)) < 0.02, 1)
    adjacency[0, 1:] = generator.random(89) < 0.9
    csr = csr_of(adjacency | adjacency.T)
    found = TRIANGLES.find("numba", CPU).square_counts(csr)
    assert all(map(torch.equal, found, reference.square_counts(csr)))
    assert found[0].sum() > 0
