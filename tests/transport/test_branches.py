"""Matching of sparse graphs: likely pairs, and what they add to the search."""

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial import Delaunay

from jsem_pyg.kernels.branches.graph import read_neighbours
from jsem_pyg.transport import AdjacencyCost, match_graphs
from jsem_pyg.transport.edges import branches


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


def test_roads_are_found_by_their_branches():
    edges, other, names = roads(250, 0.08)
    sides = [torch.from_numpy(np.concatenate([each, each[::-1]], 1)) for each in (edges, other)]
    plan = match_graphs(*(AdjacencyCost(each, num_nodes=250) for each in sides))
    assert (plan.argmax().numpy() == names).mean() > 0.7
    cost = {step.stage: step.cost for step in plan.history}
    assert cost["branches"] < 0.5 * min(cost["heat"], cost["both"])


@pytest.mark.parametrize("most", [1 << 21, 250 * 80])
def test_probabilities_of_pairs(monkeypatch, most):
    monkeypatch.setattr(branches, "_MOST_PAIRS", most)
    edges, other, names = roads(250, 0.08)
    source, target = symmetric(edges, 250), symmetric(other, 250)
    likely = branches.likely_pairs(source, target)
    assert likely.data.min() >= 0
    assert max(likely.sum(0).max(), likely.sum(1).max()) < 1 + 1e-9
    assert likely.nnz < 250 * 125
    true = likely.toarray()[np.arange(250), names]
    assert true.mean() > 0.5
    certain = likely.toarray().argmax(1) == names
    assert true[certain].mean() > 2 * true[~certain].mean()


def test_odds_are_those_of_a_random_pair_where_nothing_is_known():
    found = branches._odds(np.array([0.0, 0.1, 0.5]), 10)
    np.testing.assert_allclose(found, [0, 10 / 9, 10])


def test_nodes_compete_for_partners():
    scores = torch.from_numpy(np.random.default_rng(0).random((40, 40)).astype(np.float32)) + 0.1
    found = branches._competing(scores.clone())
    for dim in (0, 1):
        np.testing.assert_allclose(found.sum(dim), 1, rtol=1e-3)
    ratio = found / scores  # a factor for each row, and one for each column
    np.testing.assert_allclose(ratio[0, 0] * ratio[1, 1], ratio[0, 1] * ratio[1, 0], rtol=1e-4)


def test_edges_that_a_side_has_fewer_of_are_likely_to_be_missing_there():
    ring = np.stack([np.arange(200), (np.arange(200) + 1) % 200])
    sides = (read_neighbours(symmetric(each, 200)) for each in (ring, ring[:, :150]))
    rates = branches._rates(*sides)
    assert rates.source == pytest.approx(0.25 + branches._MISSING)
    assert rates.target == pytest.approx(branches._MISSING)


def test_a_side_with_hardly_an_edge():
    ring = np.stack([np.arange(200), (np.arange(200) + 1) % 200])
    source, target = symmetric(ring, 200), symmetric(ring[:, :3], 200)
    rates = branches._rates(read_neighbours(source), read_neighbours(target))
    assert rates.source == pytest.approx(1 - branches._MISSING)
    assert np.isfinite(rates).all()
    likely = branches.likely_pairs(source, target)
    assert np.isfinite(likely.data).all()
    assert max(likely.sum(0).max(), likely.sum(1).max()) < 1 + 1e-9


def test_pairs_that_stay_keep_their_messages():
    path = read_neighbours(symmetric([[0, 1], [1, 2]], 3))
    old, new = np.array([0, 4, 5, 8]), np.array([1, 4, 8])  # number i N + j
    before, after = (branches._pairs((path, path), key) for key in (old, new))
    widths = np.array([1, 4, 2, 1])  # of pairs: degree by degree
    assert np.array_equal(np.diff(before.offset), widths)
    message = np.arange(2.0, 10.0, dtype=np.float32)
    found, belief = branches._carried(before, old, after, new, message, np.array([3.0, 4, 5, 6]))
    assert found.tolist() == [1, 1, *message[1:5], message[7]]
    assert belief.tolist() == [1, 4, 6]


def test_dense_graphs_and_hubs_are_left_to_features():
    ring = np.stack([np.arange(200), (np.arange(200) + 1) % 200])
    hub = np.stack([np.zeros(70, np.int64), np.arange(1, 71)])
    sparse = symmetric(ring, 200)
    assert branches.is_sparse(sparse, sparse)
    assert not branches.is_sparse(
        sparse, symmetric(np.unique(np.concatenate([ring, hub], 1), axis=1), 200)
    )
    assert not branches.is_sparse(sparse, sparse + sparse @ sparse)
    assert not branches.is_sparse(symmetric(ring[:, :0], 200), sparse)


def test_the_likeliest_partners_are_kept(monkeypatch):
    monkeypatch.setattr(branches, "_PAIRS", 1)
    likely = csr_array(np.array([[0.01, 0.03, 0.02], [0.01, 0.02, 0.06], [0.05, 0.04, 0.01]]))
    nobody = csr_array((3, 3))
    kept = branches._kept(nobody, nobody, likely, np.arange(9))
    assert kept.tolist() == [1, 5, 6, 7]  # of the rows 1, 5 and 6; of the columns 6, 7 and 5
