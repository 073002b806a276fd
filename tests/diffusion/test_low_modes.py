"""The lowest eigenpairs of the Laplacian, beside dense ones."""

import logging
import sys

import pytest
import torch
from dense import dense_laplacian
from torch_geometric.utils import erdos_renyi_graph, grid, remove_self_loops, to_undirected

from jsem_pyg.diffusion import low_modes
from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.csr import scipy_indices
from jsem_pyg.kernels.sorted_edges import factor_work
from jsem_pyg.neighbors import knn_graph

KINDS = pytest.mark.parametrize("normalization", ["sym", "rw", None])


def random_graph(size, mean_degree, seed=0):
    """Edges of both directions and symmetric weights; float64."""
    torch.manual_seed(seed)
    edge_index = erdos_renyi_graph(size, mean_degree / size)
    weight = torch.rand(edge_index.size(1), dtype=torch.float64) + 0.1
    return to_undirected(edge_index, weight, size, reduce="mean")


def points(size, dim, seed=0):
    x = torch.rand(size, dim, generator=torch.Generator().manual_seed(seed))
    return knn_graph(x, 10, metric="l2", kernel=None, connect=True)[0]


@KINDS
@pytest.mark.parametrize(("size", "degree"), [(60, 6), (900, 12), (900, 3), (900, 0.5)])
@pytest.mark.parametrize("k", [1, 2, 20])
def test_equals_the_dense_decomposition(normalization, size, degree, k):
    edge_index, weight = random_graph(size, degree)
    value, mode = low_modes(
        edge_index, k, weight, normalization=normalization, num_nodes=size, tol=1e-6
    )
    laplacian = dense_laplacian(edge_index, weight, size, normalization)
    symmetric = dense_laplacian(edge_index, weight, size, normalization and "sym")
    expected = torch.linalg.eigvalsh(symmetric)[:k]
    scale = float(symmetric.diagonal().max())
    assert value.shape == (k,)
    assert mode.shape == (size, k)
    assert float((value - expected).abs().max()) < 1e-9 * scale
    assert float((laplacian @ mode - mode * value).norm(dim=0).max()) < 1e-5 * scale
    if normalization != "rw":
        assert torch.allclose(mode.T @ mode, torch.eye(k, dtype=mode.dtype), atol=1e-10)


def comb(size):
    """A path of a third of the nodes, each with two leaves: a tree."""
    i = torch.arange(size // 3)
    leaves = torch.arange(size - len(i))
    edges = [torch.stack([i[1:], i[:-1]]), torch.stack([leaves % len(i), leaves + len(i)])]
    return torch.cat(edges, 1)


@KINDS
@pytest.mark.parametrize(
    "make",
    [
        lambda n: torch.stack([torch.arange(n - 1), torch.arange(1, n)]),
        lambda n: torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]),  # equal pairs
        lambda n: torch.stack([torch.arange(n // 2), torch.arange(1, n // 2 + 1)]),  # and alone
        lambda n: remove_self_loops(grid(5, n // 5)[0])[0],
        comb,
    ],
    ids=["path", "ring", "half", "grid", "comb"],
)
@pytest.mark.parametrize("factor", [1.0, 1e12])
def test_long_graphs_are_factorised(make, normalization, factor):
    size = 1500
    edge_index = to_undirected(make(size), num_nodes=size)
    weight = torch.full((edge_index.size(1),), factor, dtype=torch.float64)
    given = edge_index, weight, size, normalization and "sym"
    k = 12 if size == 1 + int(edge_index.max()) else size // 2 + 8
    value, mode = low_modes(edge_index, k, weight, normalization=normalization, num_nodes=size)
    symmetric = dense_laplacian(*given)
    expected = torch.linalg.eigvalsh(symmetric)[:k]
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-12 * factor)
    residual = dense_laplacian(edge_index, weight, size, normalization) @ mode - mode * value
    assert float(residual.norm(dim=0).max()) < 1e-3 * float(value[-1])


def test_work_is_that_of_the_factor():
    edge_index = to_undirected(
        torch.randint(60, (2, 90), generator=torch.Generator().manual_seed(1))
    )
    structure = GraphStructure(remove_self_loops(edge_index)[0], 60)
    matrix = 2 * torch.eye(60) - 0.01 * dense_laplacian(torch.stack(structure.edges), None, 60)
    factor = torch.linalg.cholesky(matrix.double()).tril(-1)
    indices = scipy_indices(structure.csr)
    assert factor_work(*indices, 1e9) == float((factor != 0).sum(0).square().sum())
    assert 5 < factor_work(*indices, 5) < 500


def test_modes_that_lanczos_misses_are_found():
    parts = to_undirected(torch.cat([comb(900) + 900 * i for i in range(3)], 1))
    one = dense_laplacian(to_undirected(comb(900)), None, 900)
    expected = torch.linalg.eigvalsh(one)[:4].repeat_interleave(3).clamp(min=0)
    torch.testing.assert_close(low_modes(parts, 11)[0].double(), expected[:11], rtol=1e-5, atol=0)
    star = to_undirected(torch.stack([torch.zeros(2999, dtype=torch.long), torch.arange(1, 3000)]))
    assert torch.allclose(low_modes(star, 6)[0], torch.tensor([0.0, 1, 1, 1, 1, 1]), atol=1e-6)


@pytest.mark.parametrize("normalization", ["sym", None])
def test_modes_of_equal_parts_are_orthonormal(normalization, caplog):
    star = torch.stack([torch.zeros(9, dtype=torch.long), torch.arange(1, 10)])
    stars = to_undirected(torch.cat([star + 10 * i for i in range(100)], 1))
    value, mode = low_modes(stars, 150, normalization=normalization)
    torch.testing.assert_close(value, torch.arange(150).ge(100).float(), rtol=0, atol=1e-6)
    torch.testing.assert_close(mode.T @ mode, torch.eye(150), rtol=0, atol=1e-5)
    assert caplog.text == ""


@pytest.mark.parametrize("dim", [2, 3])
def test_large_neighbour_graphs_have_small_residuals(dim):
    edge_index = points(25_000, dim)
    value, mode = low_modes(edge_index, 12)
    assert value.dtype == mode.dtype == torch.float32
    structure = GraphStructure(edge_index, 25_000)
    again = low_modes(structure, 12, torch.ones(edge_index.size(1), dtype=torch.float64))
    assert torch.allclose(value, again[0].float(), rtol=1e-5)
    value, mode = again
    row, col = edge_index
    root = torch.bincount(row, minlength=25_000).double().sqrt()
    image = torch.zeros_like(mode).index_add(0, row, mode[col] / (root[row] * root[col])[:, None])
    residual = (mode - image - mode * value).norm(dim=0)
    assert float(residual.max()) <= 1.01e-4 * float(value[-1])
    assert float(value[0]) == 0
    assert bool((value[1:] > 0).all())
    assert bool((value.diff() >= 0).all())


def test_equal_eigenvalues_are_found_as_often_as_they_are_there():
    edge_index, _ = grid(30, 30)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    value = low_modes(edge_index, 12, tol=1e-6)[0].double()
    expected = torch.linalg.eigvalsh(dense_laplacian(edge_index, None, 900).double())
    assert torch.allclose(value, expected[:12], atol=1e-6)


def test_each_component_has_a_mode_of_its_own_the_largest_first():
    edge_index = torch.tensor([[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]])
    value, mode = low_modes(edge_index, 4, num_nodes=6)
    assert torch.allclose(value, torch.tensor([0.0, 0, 0, 1]))
    expected = torch.tensor([[0, 0, 0.5, 0.5**0.5, 0.5, 0], [0.5**0.5, 0.5**0.5, 0, 0, 0, 0]])
    assert torch.allclose(mode[:, :2].T, expected)
    assert mode[5, 2] == 1
    constant = low_modes(edge_index, 1, num_nodes=6, normalization="rw")[1][2:5, 0]
    assert torch.allclose(constant, constant[0])


def test_graphs_without_edges_and_of_one_node():
    none = torch.empty(2, 0, dtype=torch.int64)
    value, mode = low_modes(none, 2, num_nodes=3)
    assert torch.equal(value, torch.zeros(2))
    assert torch.equal(mode, torch.eye(3)[:, :2])
    assert torch.equal(low_modes(none, 1, num_nodes=1, normalization="rw")[1], torch.ones(1, 1))


def test_edges_of_zero_weight_isolate():
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    value = low_modes(edge_index, 3, torch.tensor([1.0, 1.0, 0.0, 0.0]))[0]
    assert torch.allclose(value, torch.tensor([0.0, 0.0, 2.0]), atol=1e-5)


def test_results_repeat_and_have_a_sign():
    edge_index, weight = random_graph(900, 12)
    first, again, other = (low_modes(edge_index, 8, weight, seed=seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert torch.allclose(first, other, atol=1e-3)
    assert bool((first.amax(0) >= 0.998 * -first.amin(0)).all())


def test_what_has_not_converged_is_told(monkeypatch, caplog):
    monkeypatch.setattr(sys.modules["jsem_pyg.diffusion.low_modes"], "MOST_ROUNDS", 1)
    with caplog.at_level(logging.WARNING):
        low_modes(points(2000, 10), 5)
    assert "raise 'tol'" in caplog.text


def test_refuses_what_is_no_number_of_modes():
    edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="at most the number of nodes"):
        low_modes(edge_index, 3)
    with pytest.raises(ValueError, match="'k'"):
        low_modes(edge_index, 0)
    with pytest.raises(ValueError, match="'normalization'"):
        low_modes(edge_index, 1, normalization="none")
