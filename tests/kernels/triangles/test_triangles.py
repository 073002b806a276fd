from itertools import combinations

import numpy as np
import pytest
import torch
from kernels.triangles import definition

from jsem_pyg.kernels.csr import CSR
from jsem_pyg.kernels.triangles import (
    forman,
    list_triangles,
    numba_triangles,
    triangle_counts,
)
from jsem_pyg.kernels.triangles.squares import square_counts


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


def reverse_of(csr):
    return csr.col.argsort(stable=True).int()


@pytest.mark.parametrize("name", GRAPHS)
def test_counts_are_those_of_the_definition(name):
    csr = GRAPHS[name]
    assert torch.equal(triangle_counts(csr, reverse_of(csr)), definition.triangle_counts(csr))
    assert all(map(torch.equal, square_counts(csr), definition.square_counts(csr)))


@pytest.mark.parametrize("name", GRAPHS)
def test_triangles_are_listed_in_order(name):
    csr = GRAPHS[name]
    edges = set(zip(csr.row.tolist(), csr.col.tolist(), strict=True))
    expected = [
        nodes
        for nodes in combinations(range(csr.num_rows), 3)
        if edges.issuperset(combinations(nodes, 2))
    ]
    found = list_triangles(csr, reverse_of(csr))
    assert found.shape == (3, len(expected))
    assert found.T.tolist() == list(map(list, expected))


@pytest.mark.parametrize("decades", [0, 3, 30])
@pytest.mark.parametrize("with_triangles", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_curvature_is_that_of_the_definition(name, with_triangles, decades):
    """For weights of one size, and for weights that are very far apart."""
    csr = GRAPHS[name]
    weight = 10 ** (decades * (symmetric_values(csr) - 1)) * (symmetric_values(csr, 1) + 0.01)
    got = forman(csr, reverse_of(csr), weight, with_triangles)
    expected = definition.forman(csr, weight, with_triangles)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads(threads, monkeypatch):
    for each in ("_scan", "_walk"):  # without their limits
        monkeypatch.setattr(numba_triangles, each, numba_triangles.run_on_rows)
    csr, before = random_csr(4, 80, 0.2), torch.get_num_threads()
    weight, reverse = symmetric_values(csr).add(0.01), reverse_of(csr)
    torch.set_num_threads(threads)
    try:
        squares = square_counts(csr)
        triangles = triangle_counts(csr, reverse)
        found = [forman(csr, reverse, weight, each) for each in (False, True)]
    finally:
        torch.set_num_threads(before)
    assert all(map(torch.equal, squares, definition.square_counts(csr)))
    assert torch.equal(triangles, definition.triangle_counts(csr))
    for got, each in zip(found, (False, True), strict=True):
        torch.testing.assert_close(got, definition.forman(csr, weight, each))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_graphs_on_a_gpu_are_computed_on_the_cpu():
    csr, reverse = GRAPHS["dense"], reverse_of(GRAPHS["dense"])
    weight = symmetric_values(csr).add(0.01)
    there = csr.to("cuda"), reverse.cuda()
    for found, expected in (
        (triangle_counts(*there), triangle_counts(csr, reverse)),
        (list_triangles(*there), list_triangles(csr, reverse)),
        (square_counts(there[0])[1], square_counts(csr)[1]),
        (forman(*there, weight.cuda(), True), forman(csr, reverse, weight, True)),
    ):
        assert found.is_cuda
        assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("seed", range(5))
def test_squares_through_a_hub(seed):
    """The ends of paths through it are looked up among its neighbours."""
    generator = np.random.default_rng(seed)
    adjacency = np.triu(generator.random((90, 90)) < 0.02, 1)
    adjacency[0, 1:] = generator.random(89) < 0.9
    csr = csr_of(adjacency | adjacency.T)
    found = square_counts(csr)
    assert all(map(torch.equal, found, definition.square_counts(csr)))
    assert found[0].sum() > 0
