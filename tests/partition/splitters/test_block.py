"""A block is cut where its share of the cost ends."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from jsem_pyg.partition.splitters import Block, cut, find_splitter


@pytest.mark.parametrize(
    ("cost", "share", "expected"),
    [
        ([1, 1, 1, 1], 0.5, [True, True, False, False]),
        ([1, 1, 1, 1], 0.26, [True, False, False, False]),
        ([1, 1, 1, 9], 0.5, [True, True, True, False]),
        ([9, 1, 1, 1], 0.5, [True, False, False, False]),
        ([1, 1], 0.01, [True, False]),  # never an empty half
        ([1, 1], 0.99, [True, False]),
    ],
)
def test_a_cut_by_hand(cost, share, expected):
    cost = np.array(cost, float)
    assert cut(np.arange(cost.size), cost, share).tolist() == expected
    backwards = cut(np.arange(cost.size)[::-1], cost[::-1], share)
    assert backwards.tolist() == expected[::-1]


@pytest.mark.parametrize("name", ["metis", "bandwidth"])
def test_a_path_is_cut_once(name):
    path = np.diag(np.ones(99), 1)
    adjacency = csr_array((path + path.T).astype(np.int8))
    for share in (0.5, 1 / 3):
        first = find_splitter(name)(Block(adjacency, np.ones(100), None), share)
        assert abs(first.sum() - 100 * share) <= 3
        assert (first[1:] != first[:-1]).sum() == 1


def test_a_block_keeps_the_edges_among_its_nodes():
    path = np.diag(np.ones(5), 1)
    block = Block(csr_array((path + path.T).astype(np.int8)), np.arange(6.0), np.arange(6))
    some = block.restrict(np.array([1, 2, 5]))
    assert some.adjacency.todense().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert some.cost.tolist() == some.curve.tolist() == [1, 2, 5]
