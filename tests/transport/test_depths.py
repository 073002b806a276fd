"""Scores of all pairs by kinds of branches, beside sweeps over all pairs."""

import numpy as np
import pytest
from kernels.branches import definition
from scipy.sparse import coo_array, random_array

from jsem_pyg.kernels.branches import numba_cpu
from jsem_pyg.kernels.branches.graph import Pairs, Rates, read_neighbours
from jsem_pyg.transport.edges import depths

RATES = Rates(0.25, 0.05, 0.4, 1.3)


def sparse_graph(size, edges, seed):
    found = random_array((size, size), density=min(1, edges / size**2), random_state=seed)
    found.data[:] = 1
    found = found + found.T
    found.setdiag(0)
    return coo_array(found != 0).astype(float).tocsr()


def swept(sides, rounds):
    """Scores after sweeps without competition over all pairs."""
    sizes = [len(each.indptr) - 1 for each in sides]
    row, column = np.divmod(np.arange(np.prod(sizes)), sizes[1])
    width = np.diff(sides[0].indptr)[row] * np.diff(sides[1].indptr)[column]
    indptr = np.arange(sizes[0] + 1) * sizes[1]
    pairs = Pairs(indptr, column, np.concatenate([[0], np.cumsum(width)]))
    message, belief = np.ones(pairs.offset[-1], np.float32), np.ones(len(column))
    for _ in range(rounds):
        belief, message = numba_cpu.sweep(*sides, pairs, message, belief, RATES)
    return belief.reshape(sizes)


@pytest.mark.parametrize("backend", [definition, numba_cpu])
@pytest.mark.parametrize("sizes", [(25, 25), (30, 12), (1, 5), (4, 1)])
def test_kinds_are_as_good_as_all_pairs(backend, sizes):
    sides = [
        read_neighbours(sparse_graph(size, 1.2 * size, seed)) for seed, size in enumerate(sizes)
    ]
    found = depths.branch_scores(backend.compare, sides, RATES)
    np.testing.assert_allclose(found, swept(sides, 3), rtol=1e-4)


def test_one_hop_less_where_nearly_all_branches_differ(monkeypatch):
    sides = [read_neighbours(sparse_graph(40, 60, seed)) for seed in (0, 1)]
    monkeypatch.setattr(depths, "_MOST", 0.2)
    found = depths.branch_scores(numba_cpu.compare, sides, RATES)
    np.testing.assert_allclose(found, swept(sides, 2), rtol=1e-4)


def test_lists_in_another_order_are_the_same():
    kinds, number = depths._distinct(np.array([0, 2, 4, 4]), np.array([3, 1, 1, 3]))
    assert number.tolist() == [0, 0, 1]
    assert kinds.indptr.tolist() == [0, 2, 2]
    assert kinds.kind.tolist() == [1, 3]


def test_graphs_without_edges():
    sides = [read_neighbours(sparse_graph(3, 0, seed)) for seed in (0, 1)]
    found = depths.branch_scores(numba_cpu.compare, sides, RATES)
    np.testing.assert_allclose(found, np.full((3, 3), RATES.base), rtol=1e-6)
