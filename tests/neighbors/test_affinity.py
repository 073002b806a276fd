"""How distances become weights."""

import math

import pytest
import torch

from jsem_pyg.neighbors import knn_graph

FAR = 1e-6  # the least weight of an edge


@pytest.mark.parametrize(
    ("kernel", "places", "expected"),
    [
        # With one neighbour, widths are 1, 1, 2 and 1e4; the lower median is 1.
        ("gaussian", [0, 1, 3, 1e4 + 3], [math.exp(-1 / 2), math.exp(-4 / 2), FAR]),
        ("self_tuning", [0, 1, 3, 1e4 + 3], [math.exp(-1), math.exp(-4 / 2), math.exp(-5e3)]),
        (None, [0, 1, 3, 1e4 + 3], [1.0, 1.0, 1.0]),
        ("gaussian", [2, 2, 2, 2], [1.0, 1.0, 1.0]),
    ],
)
def test_kernels_by_hand(kernel, places, expected):
    x = torch.tensor(places, dtype=torch.float64)[:, None]
    edges, weight = knn_graph(x, 1, "l2", kernel=kernel)
    along = weight[edges[0] < edges[1]].tolist()
    assert along == pytest.approx([max(each, FAR) for each in expected], rel=1e-6)


def test_the_cosine_itself_is_a_weight():
    angle = torch.tensor([0.0, 60.0, 240.0], dtype=torch.float64).deg2rad()
    edges, weight = knn_graph(torch.stack([angle.cos(), angle.sin()], 1), 1, kernel="cosine")
    found = dict(zip(map(tuple, edges.T.tolist()), weight.tolist(), strict=True))
    # Cosines 1/2, -1/2 and -1 are distances 1/2, 3/2 and 2.
    assert found == pytest.approx({(0, 1): 0.75, (1, 0): 0.75, (0, 2): 0.25, (2, 0): 0.25})


@pytest.mark.parametrize("k", [9, 7, 3])
def test_self_tuning_width_is_the_distance_to_the_seventh_neighbor(k):
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    edges, weight = knn_graph(x, k, "l2", kernel="self_tuning")
    apart = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    width = apart.sort(1).values[:, min(k, 7)]
    expected = torch.exp(-apart.square() / width[:, None] / width)[tuple(edges)].clamp(min=FAR)
    torch.testing.assert_close(weight, expected, rtol=1e-5, atol=0)
