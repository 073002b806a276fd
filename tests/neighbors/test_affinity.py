import math

import pytest
import torch

from jsem_pyg.neighbors.affinity import MIN_WEIGHT, affinity, node_width, undirected_edges


def weight_of(distance, kernel, width=1.0):
    distance = torch.tensor([distance], dtype=torch.float64)
    i, j = torch.tensor([0]), torch.tensor([1])
    return float(affinity(distance, i, j, torch.tensor([width, 2 * width]).double(), kernel))


@pytest.mark.parametrize(
    ("kernel", "distance", "expected"),
    [
        ("gaussian", 2.0, math.exp(-1)),  # 4 / (2 * 1 * 2)
        ("self_tuning", 2.0, math.exp(-2)),  # 4 / (1 * 2)
        ("cosine", 0.5, 0.75),
        (None, 5.0, 1.0),
        ("gaussian", 0.0, 1.0),
        ("gaussian", 1e6, MIN_WEIGHT),
        ("self_tuning", 1e6, MIN_WEIGHT),
        ("cosine", 2.0, MIN_WEIGHT),
    ],
)
def test_kernels_by_hand(kernel, distance, expected):
    assert weight_of(distance, kernel) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("k", "expected"), [(9, 7.0), (7, 7.0), (3, 3.0)])
def test_self_tuning_width_is_the_distance_to_the_seventh_neighbor(k, expected):
    distance = torch.arange(1.0, k + 1).expand(4, k)
    assert node_width(distance, "self_tuning").tolist() == [expected] * 4


def test_a_node_among_its_duplicates_has_the_width_of_the_others():
    distance = torch.tensor([[0.0, 0.0], [1e-12, 1e-12], [1.0, 2.0], [1.0, 4.0], [1.0, 4.0]])
    # The median of the positive distances to the last neighbour, 1e-12, 2, 4, 4, is 2.
    assert node_width(distance, "self_tuning").tolist() == [2.0, 2.0, 2.0, 4.0, 4.0]


# 0 and 1 have found each other, 2 has found 1.
EDGES = torch.tensor([0, 1, 2]), torch.tensor([1, 0, 1]), torch.tensor([0.5, 0.25, 1.0])


@pytest.mark.parametrize(
    ("symmetrize", "pairs", "weights"),
    [
        ("max", [[0, 1], [1, 2]], [0.5, 1.0]),
        ("mean", [[0, 1], [1, 2]], [0.375, 0.5]),
        ("mutual", [[0], [1]], [0.5]),
    ],
)
def test_symmetrizations_by_hand(symmetrize, pairs, weights):
    pair, weight = undirected_edges(*EDGES, 3, symmetrize)
    assert pair.tolist() == pairs
    assert weight.tolist() == weights
