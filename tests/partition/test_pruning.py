import pytest
import torch
from dense import dense_laplacian
from partition.pruning_cases import faint_graph, pairs
from tiny_graphs import ring, star, triangle_with_tail, undirected
from torch_geometric.data import Data

from jsem_pyg.graph import GraphStructure
from jsem_pyg.partition import prune_edges


def graph(edges_and_nodes, **more):
    edge_index, num_nodes = edges_and_nodes
    return Data(edge_index=edge_index, num_nodes=num_nodes, **more)


def both(values):
    """A value for each undirected edge of a tiny graph, for both directions."""
    return torch.tensor(values).repeat(2)


def test_what_is_below_the_threshold_goes_with_both_directions():
    data = graph(triangle_with_tail())
    pruned = prune_edges(data, both([0.9, 0.004, 0.8, 0.002]), 0.01)
    # 02 goes; 23 is the last edge of node 3.
    assert pairs(pruned.data.edge_index) == {(0, 1), (1, 2), (2, 3)}
    assert pruned.num_dropped == 2
    assert pruned.kept.tolist() == [True, False, True, True] * 2
    assert pruned.data.num_nodes == 4
    assert data.num_edges == 8


def test_an_edge_goes_if_both_directions_are_below_the_threshold():
    h = both([0.5, 0.01, 0.5])
    assert prune_edges(graph(ring(3)), h, 0.01).num_dropped == 0  # the threshold is not below it
    assert prune_edges(graph(ring(3)), h, 0.011, max_share=1).num_dropped == 2
    h[1] = 0.5
    assert prune_edges(graph(ring(3)), h, 0.011, max_share=1).num_dropped == 0


def test_a_layer_in_which_an_edge_is_the_best_one_keeps_it():
    one, other = both([0.001, 0.003, 0.002, 0.9]), both([0.003, 0.001, 0.002, 0.9])
    kept = prune_edges(graph(triangle_with_tail()), torch.stack([one, other], 1), max_share=1.0)
    assert pairs(kept.data.edge_index) == {(0, 1), (0, 2), (1, 2), (2, 3)}


def test_a_node_whose_edges_are_all_closed_keeps_the_best():
    h = both([0.001, 0.004, 0.002, 0.003])
    pruned = prune_edges(graph(star(4)), h, 0.01, max_share=1.0)
    assert pruned.num_dropped == 0  # the leaves have no other
    square = undirected([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], 4)
    pruned = prune_edges(graph(square), both([0.004, 0.001, 0.004, 0.001, 0.002]), max_share=1.0)
    assert pairs(pruned.data.edge_index) == {(0, 1), (2, 3)}


def test_the_best_edge_is_the_one_of_most_weight_times_conductance():
    data = graph(ring(3), edge_weight=both([1.0, 1.0, 100.0]))
    pruned = prune_edges(data, both([0.004, 0.003, 0.002]), max_share=1.0)
    assert pairs(pruned.data.edge_index) == {(0, 2), (0, 1)}  # 01 is the best of node 1


def test_the_share_limits_what_a_node_loses():
    # Node 0 has ten edges of conductance 0.005 each beside one of 0.95: 5 % of its degree in all.
    leaves = [(0, i) for i in range(1, 12)] + [(i, 12) for i in range(1, 12)]
    h = both([0.95, *[0.005] * 10, *[0.9] * 11])
    counts = [
        prune_edges(graph(undirected(leaves, 13)), h, max_share=share).num_dropped // 2
        for share in (0.004, 0.0126, 0.0251, 0.051, 1.0)
    ]
    assert counts == [0, 2, 5, 10, 10]


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_node_loses_more_than_its_share_nor_its_best_edge(share, dtype):
    for seed in range(3):
        data, h = faint_graph(seed, dtype=dtype)
        pruned = prune_edges(data, h, 0.3, max_share=share)
        assert pruned.num_dropped > 0
        w = data.edge_weight.double() * h.double()
        degree, left = (
            torch.zeros(data.num_nodes, dtype=torch.float64).index_add(0, data.edge_index[0], each)
            for each in (w, w * pruned.kept)
        )
        assert (degree - left <= share * degree + 1e-12).all()
        best = torch.zeros(data.num_nodes, dtype=torch.float64)
        best = best.scatter_reduce(0, data.edge_index[0], w, "amax")
        left_best = torch.zeros_like(best)
        left_best = left_best.scatter_reduce(
            0, data.edge_index[0], torch.where(pruned.kept, w, 0.0), "amax"
        )
        assert torch.equal(best, left_best)
        assert not (h < 0.3)[pruned.kept].all()
        assert (h[~pruned.kept] < 0.3).all()
        GraphStructure(pruned.data.edge_index, data.num_nodes)  # undirected still


def test_whatever_belongs_to_an_edge_goes_with_it():
    edge_index, _ = triangle_with_tail()
    more = {"edge_attr": torch.arange(16.0).view(8, 2), "edge_label": torch.arange(8)}
    data = Data(x=torch.eye(4), edge_index=edge_index, y=torch.arange(4), **more)
    data.edge_weight = torch.ones(8, dtype=torch.float64)
    pruned = prune_edges(data, both([0.9, 0.004, 0.8, 0.9]))
    stays = [0, 2, 3, 4, 6, 7]
    assert pruned.data.edge_label.tolist() == stays
    assert torch.equal(pruned.data.edge_attr, data.edge_attr[stays])
    assert pruned.data.edge_weight.shape == (6,)
    assert torch.equal(pruned.data.x, data.x)
    assert torch.equal(pruned.data.y, data.y)
    again = prune_edges(pruned.data, torch.full((6,), 0.9))
    assert again.data.num_edges == 6


@pytest.mark.parametrize("share", [0.01, 0.75])
def test_a_share_bounds_what_moves(share):
    """Also where all nodes lose alike, and where a hub loses much and its neighbours nothing."""
    rim = [(i, i + 1) for i in range(1, 200)]
    wheel = undirected([*((0, i + 1) for i in range(200)), *rim], 201)
    of_wheel = torch.cat(
        [torch.rand(200, generator=torch.Generator().manual_seed(0)), torch.ones(199)]
    )
    for data, h in [(graph(wheel), of_wheel.repeat(2)), *(faint_graph(seed) for seed in range(3))]:
        pruned = prune_edges(data, h, 0.5, max_share=share)
        assert pruned.num_dropped > 0
        for normalization, norm in (("sym", 2), ("rw", torch.inf)):
            before, after = (
                laplacian(data, h, kept, normalization)
                for kept in (torch.ones_like(pruned.kept), pruned.kept)
            )
            change = torch.linalg.matrix_norm(before - after, norm)
            assert 0 < change <= 2 * share + 1e-6
            for t in (0.1, 3.0):
                moved = torch.matrix_exp(-t * before) - torch.matrix_exp(-t * after)
                assert torch.linalg.matrix_norm(moved, norm) <= 2 * share * t + 1e-6


def laplacian(data, h, kept, normalization):
    weight = torch.ones_like(h) if data.edge_weight is None else data.edge_weight
    given = (data.edge_index[:, kept], (weight * h).double()[kept], data.num_nodes)
    return dense_laplacian(*given, normalization)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conductance": torch.ones(6, 0)}, "'conductance' to have a column"),
        ({"conductance": torch.tensor([1.0, 1, 1, 1, -0.1, -0.1])}, ">= 0 .got -0.1"),
        ({"max_share": 1.5}, r"'max_share' to lie in \(0, 1\]"),
        ({"data": Data(x=torch.ones(3, 1))}, "'data' to have 'edge_index'"),
    ],
)
def test_bad_arguments(change, message):
    given = {"data": graph(ring(3)), "conductance": torch.ones(6)} | change
    with pytest.raises(ValueError, match=message):
        prune_edges(**given)
