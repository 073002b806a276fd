"""Features of nodes, and which nodes they say look alike."""

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.spatial import cKDTree

from jsem_pyg.transport.match.features import both_features, local_profiles
from jsem_pyg.transport.match.likeness import find_nearest
from jsem_pyg.transport.profiles import Comparable, overlap_weights


def both_ways(edges, size):
    entries = coo_array((np.ones(len(edges)), edges.T), (size, size))
    matrix = (entries + entries.T).tocsr()
    matrix.data[:] = 1
    return matrix


def neighbors(size, seed=0, k=8):
    """Edges [E, 2] of a neighbour graph of points in a cube."""
    points = np.random.default_rng(seed).random((size, 3))
    near = cKDTree(points).query(points, k + 1)[1][:, 1:]
    matrix = both_ways(np.stack([np.repeat(np.arange(size), k), near.reshape(-1)], 1), size)
    row, column = matrix.tocoo().coords
    return np.stack([row, column], 1)[row < column]


def test_the_nearest_are_ordered_by_likeness_and_then_by_number():
    features = Comparable(torch.zeros(1, 2), torch.tensor([[2.0, 0], [0, 0], [1e-4, 0], [0, 1]]))
    column, likeness = find_nearest(features, 0)
    assert column.tolist() == [[1, 2, 0, 3]]  # the second and third are equal but for rounding
    np.testing.assert_allclose(likeness, [[0.1, 0.1, 0.0, 0.0]], atol=1e-3)


def test_features_side_by_side_count_alike():
    draw = torch.Generator().manual_seed(0)
    first, second = (
        Comparable(*(size * torch.randn(rows, width, generator=draw) + 1 for rows in (30, 20)))
        for size, width in ((1.0, 3), (9.0, 7))
    )
    both = both_features(first, second)
    halves = zip(*(each.split([3, 7], 1) for each in both), strict=True)
    apart = [torch.cdist(*sides).square().mean() for sides in halves]
    torch.testing.assert_close(*apart)


def test_profiles_do_not_depend_on_names():
    source = neighbors(80)
    name = np.random.default_rng(3).permutation(80)
    first = local_profiles(both_ways(source, 80))
    second = local_profiles(both_ways(name[source], 80))
    np.testing.assert_allclose(second[name], first, atol=2e-4)


def test_profiles_are_means_and_deviations_over_neighbours():
    matrix = both_ways(neighbors(40, k=3), 41)  # 40 is isolated
    found = local_profiles(matrix)
    assert found.shape == (41, 117)
    own, adjacency = found[:, :9].astype(float), matrix.toarray()
    share = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)
    mean = share @ own
    spread = [share[i] @ (own - mean[i]) ** 2 for i in range(41)]
    np.testing.assert_allclose(found[:, 9:18], mean, atol=1e-5)
    np.testing.assert_allclose(found[:, 18:27] ** 2, spread, atol=2e-5)
    np.testing.assert_allclose(found[:, 27:36], share @ mean, atol=1e-5)
    edges = np.stack(matrix.tocoo().coords).astype(np.int64)
    alike = np.zeros_like(adjacency)
    alike[tuple(edges)] = overlap_weights(torch.from_numpy(edges), 41)
    alike /= np.maximum(alike.sum(1, keepdims=True), 1e-9)
    np.testing.assert_allclose(found[:, 45:54], alike @ own, atol=1e-5)
