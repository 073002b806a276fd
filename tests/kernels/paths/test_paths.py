import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from jsem_pyg.kernels.paths import PATHS
from jsem_pyg.testing import random_graph

BACKENDS = ["scipy", "numba"]


def search(backend, matrix, source):
    if not PATHS.can_run(backend, torch.device("cpu")):
        pytest.skip("needs numba")
    out = np.full(matrix.shape[0], np.nan)  # which nobody may read
    distances = PATHS.find(backend, torch.device("cpu")).distances
    distances(matrix.indptr, matrix.indices, matrix.data, source, out)
    return out


def csr(edge_index, length, num_nodes):
    index = edge_index.int().numpy()
    return csr_array((length.double().numpy(), (index[0], index[1])), shape=(num_nodes, num_nodes))


def floyd_warshall(edge_index, length, num_nodes):
    distance = torch.full((num_nodes, num_nodes), torch.inf, dtype=torch.float64)
    distance[edge_index[0], edge_index[1]] = length.double()
    distance.fill_diagonal_(0)
    for k in range(num_nodes):
        distance = torch.minimum(distance, distance[:, k, None] + distance[k])
    return distance.numpy()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("num_nodes", "density"), [(1, 0.0), (2, 1.0), (63, 0.03), (64, 0.3)])
def test_are_the_shortest(backend, num_nodes, density):
    edge_index, length = random_graph(num_nodes, density)
    matrix = csr(edge_index, length, num_nodes)
    expected = floyd_warshall(edge_index, length, num_nodes)
    for source in range(0, num_nodes, 5):
        np.testing.assert_allclose(search(backend, matrix, source), expected[source], rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_edges_of_no_length_are_edges(backend):
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    matrix = csr(edge_index, torch.tensor([0.0, 0.0, 2.0, 2.0]), 4)
    assert search(backend, matrix, 0).tolist() == [0.0, 0.0, 2.0, np.inf]


@pytest.mark.parametrize("backend", BACKENDS)
def test_takes_indices_of_64_bits(backend):
    edge_index, length = random_graph(30, 0.2)
    matrix = csr(edge_index, length, 30)
    expected = search(backend, matrix, 3)
    matrix.indptr, matrix.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    np.testing.assert_array_equal(search(backend, matrix, 3), expected)


@pytest.mark.parametrize("num_nodes", [500])
def test_both_ways_agree_to_the_last_digit_on_many_equal_lengths(num_nodes):
    # A heap has to keep its order among ties, and when nodes come nearer while they are in it.
    edge_index, _ = random_graph(num_nodes, 0.02)
    i, j = edge_index
    length = 1.0 + ((i + j) % 3).double()
    matrix = csr(edge_index, length, num_nodes)
    for source in (0, 17, 499):
        np.testing.assert_array_equal(
            search("numba", matrix, source), search("scipy", matrix, source)
        )
