import math

import pytest
import torch

from jsem_pyg.neighbors import NeighborIndex, knn_graph


def points(n=150, dim=4, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, dim, generator=generator, dtype=torch.float64).to(dtype)


def distances(x_new, x, metric):
    if metric == "cosine":
        x_new, x = (each / each.norm(dim=1, keepdim=True) for each in (x_new, x))
    squared = (x_new.double()[:, None] - x.double()[None]).square().sum(2)
    return squared / 2 if metric == "cosine" else squared.sqrt()


@pytest.mark.parametrize("n", [40, 150])
@pytest.mark.parametrize(
    ("kernel", "symmetrize"),
    [("gaussian", "max"), ("self_tuning", "mean"), ("cosine", "mutual"), (None, "max")],
)
def test_its_graph_is_knn_graph(n, kernel, symmetrize):
    options = {"kernel": kernel, "symmetrize": symmetrize, "k": 4}
    index = NeighborIndex(points(n), **options)
    edge_index, edge_weight = knn_graph(points(n), **options)
    assert torch.equal(index.edge_index, edge_index)
    assert torch.equal(index.edge_weight, edge_weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("n", [1, 30])
@pytest.mark.parametrize("k", [1, 8, 150])
def test_query_is_brute_force(metric, dtype, n, k):
    x, x_new = points(dtype=dtype), points(n, seed=1, dtype=dtype)
    neighbor, distance = NeighborIndex(x, 5, metric).query(x_new, k)
    expected, order = distances(x_new, x, metric).sort(dim=1)
    assert distance.dtype == dtype
    assert torch.equal(neighbor, order[:, :k])
    torch.testing.assert_close(distance, expected[:, :k].to(dtype))


@pytest.mark.parametrize(
    ("kernel", "symmetrize"),
    [("gaussian", "max"), ("self_tuning", "mean"), ("cosine", "mutual"), (None, "max")],
)
def test_extending_leaves_the_old_graph_as_it_was(kernel, symmetrize):
    index = NeighborIndex(points(), 4, kernel=kernel, symmetrize=symmetrize)
    x_new = points(25, seed=1)
    edge_index, edge_weight = index.extend(x_new)
    old = (edge_index < 150).all(dim=0)
    assert torch.equal(edge_index[:, old], index.edge_index)
    assert torch.equal(edge_weight[old], index.edge_weight)
    assert ((edge_index[0] * 175 + edge_index[1]).diff() > 0).all()
    assert not (edge_index >= 150).all(dim=0).any()  # new points are not joined
    weight = edge_weight.new_zeros(175, 175).index_put(tuple(edge_index), edge_weight)
    assert torch.equal(weight, weight.T)
    assert ((edge_weight > 0) & (edge_weight <= 1)).all()
    neighbor, _ = index.query(x_new)
    expected = torch.zeros(25, 150, dtype=torch.bool).scatter(1, neighbor, True)
    assert torch.equal(weight[150:, :150] > 0, expected)


def test_weights_of_new_edges_by_hand():
    x = torch.tensor([[0.0], [1.0], [3.0], [4.5]])
    x_new = torch.tensor([[2.5]])
    # k = 2: widths 3, 2, 2, 3.5 (distance to the 2nd neighbour), the median is 2; the new point
    # has neighbours 2 at 0.5 and 1 at 1.5.
    for kernel, expected in {
        "gaussian": [math.exp(-(0.5**2) / 8), math.exp(-(1.5**2) / 8)],
        "self_tuning": [math.exp(-(0.5**2) / (2 * 1.5)), math.exp(-(1.5**2) / (2 * 1.5))],
        None: [1.0, 1.0],
    }.items():
        edge_index, edge_weight = NeighborIndex(x, 2, "l2", kernel=kernel).extend(x_new)
        weight = torch.zeros(5, 5).index_put(tuple(edge_index), edge_weight)
        assert weight[4].tolist() == pytest.approx([0, expected[1], expected[0], 0, 0])


def test_a_new_point_among_duplicates_has_the_common_width():
    x = torch.cat([points(40), torch.ones(20, 4)])
    index = NeighborIndex(x, 10, "l2", kernel="self_tuning")
    edge_index, edge_weight = index.extend(torch.ones(2, 4))
    assert torch.equal(edge_weight[edge_index[0] >= 60], torch.ones(20))
    assert edge_weight.isfinite().all()


def test_no_new_point():
    index = NeighborIndex(points(), 5)
    edge_index, edge_weight = index.extend(torch.empty(0, 4))
    assert torch.equal(edge_index, index.edge_index)
    assert torch.equal(edge_weight, index.edge_weight)
    assert index.query(torch.empty(0, 4))[0].shape == (0, 5)


@pytest.mark.parametrize(
    ("x_new", "k", "error", "message"),
    [
        (points(3), 151, ValueError, "at most the number of fitted points .got k=151 for 150"),
        (points(3, dim=5), None, ValueError, "4 columns of the fitted points .got 5"),
        (torch.full((1, 4), 1e20), None, ValueError, "'x_new' to lie within 1e15"),
        (torch.zeros(1, 4), None, ValueError, "'x_new' without zero vectors"),
    ],
)
def test_query_refuses(x_new, k, error, message):
    with pytest.raises(error, match=message):
        NeighborIndex(points(), 5).query(x_new, k)


@pytest.mark.parametrize("kernel", ["gaussian", "self_tuning", None])
def test_links_are_the_edges_of_an_extension_one_point_at_a_time(kernel):
    index = NeighborIndex(points(40), k=5, kernel=kernel)
    x_new = points(6, seed=1)
    edge_index, edge_weight = index.extend(x_new)
    neighbor, weight = index.links(x_new)
    for each in range(6):
        row = edge_index[0] == 40 + each
        order = neighbor[each].argsort()
        assert torch.equal(edge_index[1, row], neighbor[each, order])
        assert torch.equal(edge_weight[row], weight[each, order])
        alone = index.links(x_new[each : each + 1])
        assert torch.equal(alone[0][0], neighbor[each])
        assert torch.equal(alone[1][0], weight[each])


@pytest.mark.parametrize("connect", [True, False])
@pytest.mark.parametrize("kernel", ["gaussian", "self_tuning"])
def test_a_new_point_among_groups_of_copies_weighs_by_its_distance(kernel, connect):
    x = torch.tensor([[0.0], [1.0], [4.0]]).repeat_interleave(6, 0)  # links of 1 and 3
    index = NeighborIndex(x, 5, "l2", kernel=kernel, connect=connect)
    _, weight = index.links(torch.tensor([[1.5], [40.0]]))
    scale = 2 if kernel == "gaussian" else 0.5  # of the new point's own width, .5
    assert weight[0].tolist() == pytest.approx([math.exp(-0.25 / scale)] * 5)
    far = 1e-6 if kernel == "gaussian" else math.exp(-36)
    assert weight[1].tolist() == pytest.approx([max(far, 1e-6)] * 5)
