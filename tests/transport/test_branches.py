"""Matching of sparse graphs: likely pairs, and what they add to the search."""

import numpy as np
import pytest
import torch
from kernels.branches import definition
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import Delaunay

from jsem_pyg.kernels.branches import numba_cpu
from jsem_pyg.kernels.branches.graph import Pairs, Rates, read_neighbours
from jsem_pyg.transport import AdjacencyCost, match_graphs
from jsem_pyg.transport.match import branches

RATES = Rates(0.25, 0.05, 0.4, 1.3)
RING = np.stack([np.arange(100), (np.arange(100) + 1) % 100])


def roads(size, removed, seed=0):
    """Edges [2, E] of towns with two or three neighbours, a copy without some edges, its names."""
    draw = np.random.default_rng(seed)
    towns = draw.random((size, 2))
    corners = Delaunay(towns).simplices
    edges = np.unique(np.sort(np.concatenate([corners[:, [0, 1]], corners[:, 1:]]), 1), axis=0)
    length = np.linalg.norm(towns[edges[:, 0]] - towns[edges[:, 1]], axis=1)
    tree = minimum_spanning_tree(coo_array((length, edges.T), (size, size)).tocsr()).tocoo()
    chosen = edges[np.argsort(length * draw.random(len(edges)))[: size // 4]]
    edges = np.unique(np.sort(np.concatenate([np.stack(tree.coords, 1), chosen]), 1), axis=0)
    kept = edges[draw.random(len(edges)) >= removed]
    names = draw.permutation(size)
    return edges.T, names[kept].T, names


def symmetric(edges, size):
    ends = np.concatenate([edges, edges[::-1]], 1)
    return coo_array((np.ones(ends.shape[1]), ends), (size, size)).tocsr()


def random_sides(*sizes):
    draw = np.random.default_rng(0)
    found = []
    for size in sizes:
        edges = draw.integers(0, size, (2, int(1.2 * size)))
        matrix = symmetric(edges[:, edges[0] != edges[1]], size)
        matrix.data[:] = 1
        found.append(read_neighbours(matrix))
    return found


def swept(sides, rounds):
    """Scores after sweeps without competition over all pairs."""
    sizes = [len(each.indptr) - 1 for each in sides]
    row, column = np.divmod(np.arange(np.prod(sizes)), sizes[1])
    width = np.diff(sides[0].indptr)[row] * np.diff(sides[1].indptr)[column]
    indptr = np.arange(sizes[0] + 1) * sizes[1]
    pairs = Pairs(indptr, column, np.concatenate([[0], np.cumsum(width)]))
    message, odds = np.ones(pairs.offset[-1], np.float32), np.ones(len(column))
    for _ in range(rounds):
        odds, message = numba_cpu.sweep(*sides, pairs, message, odds, RATES)
    return odds.reshape(sizes)


def test_roads_are_found_by_their_branches():
    edges, other, names = roads(150, 0.06)
    sides = [torch.from_numpy(np.concatenate([each, each[::-1]], 1)) for each in (edges, other)]
    plan = match_graphs(*(AdjacencyCost(each, num_nodes=150) for each in sides))
    assert (plan.argmax().numpy() == names).mean() > 0.7
    cost = {step.stage: step.cost for step in plan.history}
    assert cost["branches"] < 0.7 * min(cost["heat"], cost["both"])


@pytest.mark.parametrize("most", [1 << 21, 150 * 80])
def test_probabilities_of_pairs(monkeypatch, most):
    monkeypatch.setattr(branches, "FIRST_PAIRS", most)
    edges, other, names = roads(150, 0.06)
    likely = branches.likely_pairs(symmetric(edges, 150), symmetric(other, 150))
    assert likely.data.min() >= 0
    assert max(likely.sum(0).max(), likely.sum(1).max()) < 1 + 1e-9
    true = likely.toarray()[np.arange(150), names]
    assert true.mean() > 0.5
    certain = likely.toarray().argmax(1) == names
    assert true[certain].mean() > 2 * true[~certain].mean()


@pytest.mark.parametrize("compare", [definition.compare, numba_cpu.compare])
@pytest.mark.parametrize("sizes", [(25, 25), (30, 12), (1, 5)])
def test_kinds_of_branches_are_as_good_as_all_pairs(compare, sizes, monkeypatch):
    sides = random_sides(*sizes)
    found = branches.branch_scores(compare, sides, RATES)
    np.testing.assert_allclose(found, swept(sides, 3), rtol=1e-4)
    monkeypatch.setattr(branches, "MOST_KINDS", 0)
    found = branches.branch_scores(compare, sides, RATES)
    np.testing.assert_allclose(found, swept(sides, 1), rtol=1e-4)


def test_dense_graphs_and_hubs_are_left_to_features():
    sparse = symmetric(RING, 100)
    hub = np.stack([np.zeros(70, np.int64), np.arange(2, 72)])
    assert branches.is_sparse(sparse, sparse)
    assert not branches.is_sparse(sparse, symmetric(np.concatenate([RING, hub], 1), 100))
    assert not branches.is_sparse(sparse, sparse + sparse @ sparse)
    assert not branches.is_sparse(symmetric(RING[:, :0], 100), sparse)
