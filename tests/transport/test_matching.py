import logging

import numpy as np
import pytest
import tiny_graphs
import torch
from scipy.optimize import quadratic_assignment
from torch_geometric.data import Data
from transport.problems import gw_cost, random_graph

from jsem_pyg.transport import AdjacencyCost, match_graphs
from jsem_pyg.transport.match import search


def neighbour_graph(num_nodes, k=8, seed=0):
    points = torch.rand(num_nodes, 3, generator=torch.Generator().manual_seed(seed))
    near = torch.cdist(points, points).topk(k + 1, largest=False).indices[:, 1:]
    rows = torch.arange(num_nodes).repeat_interleave(k)
    edges = torch.stack([rows, near.flatten()])
    return torch.cat([edges, edges.flip(0)], 1).unique(dim=1)


def renamed(edge_index, num_nodes, seed=1):
    order = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(seed))
    return order[edge_index], order


def changed(edge_index, num_nodes, part, seed=2):
    """A part of the edges removed, and as many random ones added."""
    generator = torch.Generator().manual_seed(seed)
    upper = edge_index[:, edge_index[0] < edge_index[1]]
    count = int(part * upper.size(1))
    kept = upper[:, torch.randperm(upper.size(1), generator=generator)[count:]]
    new = torch.randint(num_nodes, (2, 2 * count), generator=generator)
    new = new[:, new[0] != new[1]][:, :count]
    edges = torch.cat([kept, new], 1)
    return torch.cat([edges, edges.flip(0)], 1).unique(dim=1)


@pytest.mark.parametrize("make", [random_graph, neighbour_graph])
def test_a_renamed_graph_is_found_exactly(make):
    edge_index = make(120)
    other, order = renamed(edge_index, 120)
    data = Data(edge_index=other, num_nodes=120)
    plan = match_graphs(AdjacencyCost(edge_index, num_nodes=120), data)
    assert plan.cost == 0
    # Except nodes that have the same neighbours.
    assert (plan.argmax() == order).double().mean() > 0.95


def grid(height, width):
    node = torch.arange(height * width).view(height, width)
    edges = torch.cat(
        [torch.stack([node[:, :-1], node[:, 1:]]).flatten(1),
         torch.stack([node[:-1], node[1:]]).flatten(1)], 1
    )  # fmt: skip
    return torch.cat([edges, edges.flip(0)], 1)


def ring(size):
    return tiny_graphs.ring(size)[0]


SYMMETRIC = {
    "cycle of 20": ring(20),
    "path of 51": grid(1, 51),
    "star": tiny_graphs.star(12)[0],
    "square grid": grid(8, 8),
    "two cycles": torch.cat([ring(12), ring(15) + 12], 1),
    "short cycles and a long one": torch.cat([ring(5), ring(6) + 5, ring(500) + 11], 1),
    "ladder": torch.cat([ring(9), ring(9) + 9, grid(2, 9)], 1).unique(dim=1),
}


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_renamed_symmetric_graph_is_found_exactly(name, weighted):
    edge_index = SYMMETRIC[name]
    size = int(edge_index.max()) + 1
    weight = 1.0 + edge_index.sum(0) % 2 if weighted else None
    for seed in range(2):
        other, _ = renamed(edge_index, size, seed)
        first, second = AdjacencyCost(edge_index, weight), AdjacencyCost(other, weight)
        plan = match_graphs(first, second)
        assert plan.cost == 0
        partner = plan.argmax()
        assert torch.equal(second.dense()[partner][:, partner], first.dense())


def test_graphs_of_the_same_degrees_are_not_taken_for_copies():
    """Colour refinement alone cannot tell one cycle of six nodes from two of three."""
    plan = match_graphs(ring(6), torch.cat([ring(3), ring(3) + 3], 1))
    assert plan.cost > 0.05
    assert plan.dense().isfinite().all()


@pytest.mark.parametrize("make", [random_graph, neighbour_graph])
def test_copies_with_a_tenth_of_their_edges_changed_are_found(make):
    right = []
    for seed in range(3):
        edge_index = make(150, seed=seed)
        other, order = renamed(changed(edge_index, 150, 0.1), 150)
        plan = match_graphs(Data(edge_index=edge_index, num_nodes=150), other)
        truth = AdjacencyCost(edge_index).dense() - AdjacencyCost(other).dense()[order][:, order]
        assert plan.cost <= float(truth.square().sum()) / 150**2 * (1 + 1e-6)
        assert plan.cost == min(step.cost for step in plan.history)
        right.append((plan.argmax() == order).double().mean())
    # Where edges are missing, other partners are as good as the true one: draws differ.
    assert torch.stack(right).mean() > 0.95
    assert min(right) > 0.9


def test_renaming_either_side_renames_the_plan():
    source, target = random_graph(60), changed(random_graph(60), 60, 0.1)
    plan = match_graphs(source, target).dense()
    other, order = renamed(target, 60)
    torch.testing.assert_close(match_graphs(source, other).dense()[:, order], plan)
    other, order = renamed(source, 60)
    torch.testing.assert_close(match_graphs(other, target).dense()[order], plan)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [20, 16])
def test_the_cost_is_that_of_the_dense_formula(dtype, size):
    edge_index = random_graph(20, 5)
    weight = torch.rand(20, 20, generator=torch.Generator().manual_seed(3), dtype=dtype)
    weight = (weight + weight.T)[edge_index[0], edge_index[1]]
    first = AdjacencyCost(edge_index, 7 * weight, num_nodes=20)
    second = AdjacencyCost(random_graph(size, 5, seed=6), num_nodes=size)
    for plan, sides in (
        (match_graphs(first, second), (first, second)),
        (match_graphs(second, first), (second, first)),
    ):
        assert plan.dense().dtype == dtype
        assert plan.cost == pytest.approx(gw_cost(*sides, plan), rel=1e-4)
        assert plan.cost == plan.history[-1].cost
        rows, columns = plan.marginals()
        for mass in (rows, columns):
            expected = torch.full((size,), 1 / size, dtype=torch.float64)
            torch.testing.assert_close(mass[mass > 0], expected, rtol=1e-4, atol=1e-7)


def test_of_sides_that_differ_in_size_nodes_stay_alone():
    edge_index = neighbour_graph(120)
    inside = (edge_index < 110).all(0)
    other, order = renamed(changed(edge_index, 120, 0.05), 120)
    part = AdjacencyCost(edge_index[:, inside], num_nodes=110)
    whole = AdjacencyCost(other, num_nodes=120)
    for plan in (match_graphs(part, whole), match_graphs(whole, part).transposed()):
        partner = plan.argmax()
        assert partner.unique().numel() == 110
        assert (partner == order[:110]).double().mean() > 0.8
        assert float(plan.marginals()[0].sum()) == pytest.approx(1, abs=1e-6)
        assert int((plan.transposed().argmax() < 0).sum()) == 10
        confidence = plan.transposed().confidence
        assert not bool(confidence[plan.transposed().argmax() < 0].any())


@pytest.mark.parametrize("target_size", [1, 4, 6])
@pytest.mark.parametrize("name", ["no edges", "one node", "isolated", "star", "repeated"])
def test_awkward_graphs_have_finite_plans(name, target_size):
    edge_index, num_nodes = {
        "no edges": (torch.empty(2, 0, dtype=torch.int64), 4),
        "one node": (torch.empty(2, 0, dtype=torch.int64), 1),
        "isolated": (torch.tensor([[0, 1], [1, 0]]), 4),
        "star": tiny_graphs.star(3),
        "repeated": (torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]), 4),
    }[name]
    source = AdjacencyCost(edge_index, num_nodes=num_nodes)
    pairs = {1: torch.empty(2, 0, dtype=torch.int64), 4: ring(4)}
    target = AdjacencyCost(pairs.get(target_size, ring(6)), num_nodes=target_size)
    for first, second in ((source, target), (target, source), (source, source)):
        plan = match_graphs(first, second)
        assert plan.cost == pytest.approx(gw_cost(first, second, plan), abs=1e-6)
        assert float(plan.dense().sum()) == pytest.approx(1)
        if first is second:
            assert plan.cost == 0


def test_weights_of_any_unit_give_the_same_plan_and_others_are_refused():
    edge_index = random_graph(40)
    other, _ = renamed(changed(edge_index, 40, 0.1), 40)
    plan = match_graphs(edge_index, other)
    for factor in (1e-9, 1e9):
        scaled = match_graphs(
            *(AdjacencyCost(e, torch.full((e.size(1),), factor)) for e in (edge_index, other))
        )
        assert torch.equal(scaled.argmax(), plan.argmax())
        assert scaled.cost == pytest.approx(plan.cost * factor**2, rel=1e-5)
    tiny = AdjacencyCost(edge_index, torch.full((edge_index.size(1),), 1e-14))
    with pytest.raises(ValueError, match="'target' to have a largest cost from 1e-12 to 1e.12"):
        match_graphs(edge_index, tiny)


def test_large_graphs_stay_with_candidates_and_say_so(monkeypatch, caplog):
    monkeypatch.setattr(search, "MOST_PAIRS", 1000)
    edge_index = neighbour_graph(300)
    other, order = renamed(changed(edge_index, 300, 0.05), 300)
    with caplog.at_level(logging.INFO, "jsem_pyg"):
        plan = match_graphs(edge_index, other)
    assert "stays with candidates between 300 x 300 nodes" in caplog.text
    assert plan.history[0].stage.startswith("218 candidates, ")
    assert (plan.argmax() == order).double().mean() > 0.9
    assert torch.equal(plan.argmax().sort().values, torch.arange(300))
    again = match_graphs(edge_index, other)
    assert torch.equal(again.argmax(), plan.argmax())


@pytest.mark.parametrize(("size", "density"), [(60, 0.1), (100, 0.3)])
def test_unrelated_graphs_keep_no_fewer_edges_than_faq(size, density):
    sides = [AdjacencyCost(random_graph(size, size * density, s), num_nodes=size) for s in (0, 1)]
    first, second = (each.dense().numpy() for each in sides)
    faq = quadratic_assignment(first, second, method="faq", options={"maximize": True}).fun
    plan = match_graphs(*sides)
    partner = plan.argmax().numpy()
    assert (first * second[partner][:, partner]).sum() >= 0.98 * faq


@pytest.mark.parametrize("seed", [0, 1])
def test_a_search_goes_on_where_the_first_candidates_are_wrong(seed):
    """Four blocks without a third of their edges: candidates alone find hardly anybody."""
    draw = np.random.default_rng(seed)
    block = np.arange(120) // 30
    chance = np.where(block[:, None] == block, 0.14, 0.02)
    once = torch.from_numpy(np.argwhere(np.triu(draw.random((120, 120)) < chance, 1)).T)
    kept = once[:, torch.from_numpy(draw.random(once.size(1)) < 0.7)]
    name = torch.from_numpy(draw.permutation(120))
    source, target = (torch.cat([each, each.flip(0)], 1) for each in (once, name[kept]))
    plan = match_graphs(
        Data(edge_index=source, num_nodes=120), Data(edge_index=target, num_nodes=120)
    )
    assert (plan.argmax() == name).double().mean() > 0.9


def test_what_is_refused():
    edge_index, _ = tiny_graphs.ring(4)
    with pytest.raises(ValueError, match="'source' to have at least one node"):
        match_graphs(torch.empty(2, 0, dtype=torch.int64), edge_index)
    with pytest.raises(ValueError, match="'max_iter' to be a positive integer"):
        match_graphs(edge_index, edge_index, max_iter=0)


@pytest.mark.ci
def test_full_weighted_graphs_find_their_copies_with_noise():
    """Of 400 nodes, a quarter found theirs by the softest start alone."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 5))
    other, name = x + 0.1 * rng.normal(size=x.shape), rng.permutation(400)
    costs = []
    for place in (x, other[name]):
        near = np.exp(-((place[:, None] - place[None]) ** 2).sum(2) / 4)
        np.fill_diagonal(near, 0)
        edges = torch.from_numpy(np.stack(np.nonzero(near)))
        costs.append(AdjacencyCost(edges, torch.from_numpy(near[near > 0])))
    assert np.array_equal(match_graphs(*costs).argmax().numpy(), np.argsort(name))


@pytest.mark.parametrize("kind", ["neighbours", "random"])
def test_features_that_say_nothing_do_not_lose_what_the_edges_find(kind):
    edges = neighbour_graph(120) if kind == "neighbours" else random_graph(120, 12)
    first = changed(edges, 120, 0.05)
    second, order = renamed(changed(edges, 120, 0.05, seed=3), 120)
    noise = np.random.default_rng(0).normal(size=(2, 120, 8))
    plan = match_graphs(first, second, features=tuple(noise))
    assert (plan.argmax() == order).float().mean() > 0.95
    assert plan.confidence.mean() > 0.9
    none = torch.empty(2, 0, dtype=torch.int64)
    assert torch.equal(match_graphs(first, second, known_pairs=none).argmax(), plan.argmax())
