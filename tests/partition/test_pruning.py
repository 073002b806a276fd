import pytest
import torch
from partition.pruning_cases import faint_graph, pairs
from tiny_graphs import empty, ring, star, triangle_with_tail, two_parts, undirected
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.partition import perturbation_bound, prune_edges
from jsem_pyg.partition.spare_edges import closed_slots


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


def test_the_threshold_itself_is_not_below():
    h = both([0.5, 0.01, 0.5])
    assert prune_edges(graph(ring(3)), h, 0.01).num_dropped == 0
    assert prune_edges(graph(ring(3)), h, 0.011, max_share=1).num_dropped == 2


def test_one_open_direction_keeps_both():
    h = both([0.9, 0.9, 0.001])
    h[2] = 0.5
    assert prune_edges(graph(ring(3)), h, 0.01, max_share=1.0).num_dropped == 0


def test_an_edge_with_an_open_direction_is_not_closed():
    structure = GraphStructure(ring(3)[0], 3)
    h = torch.tensor([0.9, 0.001, 0.001, 0.9, 0.9, 0.001])
    is_closed = structure.to_edges(closed_slots(structure, [h], 0.01))
    assert is_closed.tolist() == [False, False, True] * 2


def test_one_open_layer_keeps_an_edge():
    closed, other = both([0.9, 0.9, 0.001]), both([0.9, 0.9, 0.6])
    dropped = [
        prune_edges(graph(ring(3)), torch.stack(each, 1), max_share=1.0).num_dropped
        for each in ([closed, closed], [closed, other])
    ]
    assert dropped == [2, 0]


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


def test_the_best_edge_is_told_by_weight_and_conductance():
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


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_node_loses_more_than_its_share_nor_its_best_edge(share, dtype):
    for seed in range(5):
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


def test_parallel_edges_go_together():
    # The edge between 0 and 1 is there twice, as columns 0, 1 and 6, 7.
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 0, 0, 1], [1, 0, 2, 1, 0, 2, 1, 0]])
    h = torch.tensor([0.001, 0.001, 0.9, 0.9, 0.9, 0.9, 0.002, 0.002])
    data = Data(edge_index=edge_index, num_nodes=3)
    assert prune_edges(data, h, max_share=1.0).num_dropped == 4
    h[6] = 0.9
    assert prune_edges(data, h, max_share=1.0).num_dropped == 0


def test_a_bridge_may_go_and_part_the_graph():
    edges = undirected([(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5), (2, 3)], 6)
    pruned = prune_edges(graph(edges), both([*[0.9] * 6, 0.001]))
    assert GraphStructure(pruned.data.edge_index, 6).num_components == 2


@pytest.mark.parametrize("tiny", [empty(), undirected([], 3), two_parts(), ring(3)])
def test_graphs_with_nothing_to_drop(tiny):
    edge_index, num_nodes = tiny
    data = Data(edge_index=edge_index, num_nodes=num_nodes)
    pruned = prune_edges(data, torch.full((edge_index.size(1),), 0.5))
    assert pruned.num_dropped == 0
    assert torch.equal(pruned.data.edge_index, edge_index)
    assert pruned.perturbation.rate == 0


def test_isolated_nodes_and_edges_without_weight():
    data = graph(undirected([(0, 1), (1, 2), (2, 0)], 5), edge_weight=both([0.0, 0.0, 1.0]))
    pruned = prune_edges(data, both([0.001, 0.001, 0.9]), max_share=1.0)
    # Node 1 has two edges without weight, of which one stays.
    assert pruned.num_dropped == 2
    assert pruned.perturbation.rate == 0


@pytest.mark.parametrize("form", ["int32", "strided", "transposed"])
def test_any_layout(form):
    data, h = faint_graph(0)
    expected = prune_edges(data, h, 0.3)
    if form == "int32":
        data.edge_index = data.edge_index.int()
    elif form == "strided":
        h = torch.stack([h, h], 1).flatten()[::2]
    else:
        data.edge_index = data.edge_index.t().contiguous().t()
    assert torch.equal(prune_edges(data, h, 0.3).kept, expected.kept)


def test_the_bound_holds_for_what_a_layer_computes():
    data, h = faint_graph(3, dtype=torch.float32)
    x = torch.randn(data.num_nodes, 7, generator=torch.Generator().manual_seed(0))
    pruned = prune_edges(data, h, 0.3, max_share=0.02)
    assert pruned.num_dropped > 20
    whole = heat_diffusion(x, data.edge_index, data.edge_weight * h, t=4.0)
    part = heat_diffusion(
        x, pruned.data.edge_index, pruned.data.edge_weight * h[pruned.kept], t=4.0
    )
    difference = (whole - part).norm(dim=0) / x.norm(dim=0)
    assert (difference > 1e-4).all()
    assert (difference < pruned.perturbation.at(4.0)).all()
    assert pruned.perturbation.at(4.0) <= 4 * 2 * 0.02


def test_the_bound_of_a_mask_is_that_of_the_pruning():
    data, h = faint_graph(1)
    pruned = prune_edges(data, h, 0.3, max_share=0.1)
    assert perturbation_bound(data, pruned.kept, h) == pruned.perturbation
    both_layers = perturbation_bound(data, pruned.kept, torch.stack([h, torch.ones_like(h)], 1))
    assert both_layers.rate == perturbation_bound(data, pruned.kept).rate > pruned.perturbation.rate


def test_a_mask_that_parts_an_edge_is_refused():
    data = graph(ring(3))
    kept = torch.ones(6, dtype=torch.bool)
    kept[0] = False
    with pytest.raises(ValueError, match=r"'kept' to be the same .* \(got 1 that stay"):
        perturbation_bound(data, kept)
    with pytest.raises(TypeError, match="'kept' to be a boolean tensor"):
        perturbation_bound(data, kept.int())
    with pytest.raises(ValueError, match=r"'kept' to have shape \[6\]"):
        perturbation_bound(data, kept[:5])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"data": [1]}, TypeError, "'data' to be a torch_geometric.data.Data"),
        ({"data": Data(x=torch.eye(3))}, ValueError, "'data' to have 'edge_index'"),
        ({"conductance": torch.ones(5)}, ValueError, "'conductance' to have shape"),
        ({"conductance": -torch.ones(6)}, ValueError, "'conductance' to be non-negative"),
        ({"conductance": torch.ones(6, 0)}, ValueError, "'conductance' to have a column"),
        ({"conductance": torch.full((6,), torch.nan)}, ValueError, "'conductance' to be finite"),
        ({"threshold": 0.0}, ValueError, "'threshold' to be positive"),
        ({"max_share": 0.0}, ValueError, r"'max_share' to lie in \(0, 1\]"),
        ({"max_share": 1.5}, ValueError, r"'max_share' to lie in \(0, 1\]"),
        ({"normalization": "left"}, ValueError, "'normalization'"),
        ({"self_loop": -1.0}, ValueError, "'self_loop' to be non-negative"),
    ],
)
def test_bad_arguments(change, error, message):
    given = {"data": graph(ring(3)), "conductance": torch.ones(6)} | change
    with pytest.raises(error, match=message):
        prune_edges(**given)
