import numpy as np
import pytest
import tiny_graphs
import torch
from torch_geometric.data import Data

from jsem_pyg.transport import AdjacencyCost, match_graphs
from jsem_pyg.transport.edges import matching as matching_module


def random_graph(num_nodes, mean_degree=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(num_nodes, num_nodes, generator=generator)
    upper = (draws < mean_degree / num_nodes).triu(1)
    return (upper | upper.T).nonzero().T


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


def dense_cost(first, second, plan):
    """The sum over all pairs of pairs, written out."""
    a, b, t = first.dense().double(), second.dense().double(), plan.dense().double()
    difference = (a[:, None, :, None] - b[None, :, None, :]).square()
    return float(torch.einsum("ijkl,ij,kl->", difference, t, t))


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


def cycle(size):
    node = torch.arange(size)
    edges = torch.stack([node, node.roll(1)])
    return torch.cat([edges, edges.flip(0)], 1)


SYMMETRIC = {
    "cycle of 20": cycle(20),
    "cycle of 51": cycle(51),
    "path of 20": grid(1, 20),
    "path of 51": grid(1, 51),
    "star": tiny_graphs.star(12)[0],
    "grid": grid(5, 6),
    "square grid": grid(8, 8),
    "two cycles": torch.cat([cycle(12), cycle(15) + 12], 1),
    "short cycles and a long one": torch.cat([cycle(5), cycle(6) + 5, cycle(500) + 11], 1),
    "ladder": torch.cat([cycle(9), cycle(9) + 9, grid(2, 9)], 1).unique(dim=1),
}


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_renamed_symmetric_graph_is_found_exactly(name, weighted):
    edge_index = SYMMETRIC[name]
    size = int(edge_index.max()) + 1
    weight = 1.0 + edge_index.sum(0) % 2 if weighted else None
    for seed in range(3):
        other, _ = renamed(edge_index, size, seed)
        first, second = AdjacencyCost(edge_index, weight), AdjacencyCost(other, weight)
        plan = match_graphs(first, second)
        assert plan.cost == 0
        partner = plan.argmax()
        assert torch.equal(second.dense()[partner][:, partner], first.dense())


def test_graphs_of_the_same_degrees_are_not_taken_for_copies():
    """Colour refinement alone cannot tell one cycle of six nodes from two of three."""
    plan = match_graphs(cycle(6), torch.cat([cycle(3), cycle(3) + 3], 1))
    assert plan.cost > 0.05
    assert plan.dense().isfinite().all()


@pytest.mark.parametrize("make", [random_graph, neighbour_graph])
def test_copies_with_a_tenth_of_their_edges_changed_are_found(make):
    right = []
    for seed in range(6):
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
def test_the_cost_is_that_of_the_dense_formula(dtype):
    edge_index = random_graph(20, 5)
    weight = torch.rand(20, 20, generator=torch.Generator().manual_seed(3), dtype=dtype)
    weight = (weight + weight.T)[edge_index[0], edge_index[1]]
    first = AdjacencyCost(edge_index, 7 * weight, num_nodes=20)
    p = torch.rand(20, generator=torch.Generator().manual_seed(4), dtype=dtype)
    sizes = {"same size": 20, "masses": 20, "smaller": 16}
    for name, size in sizes.items():
        second = AdjacencyCost(random_graph(size, 5, seed=6), num_nodes=size)
        plan = match_graphs(first, second, p=p if name == "masses" else None)
        assert plan.dense().dtype == dtype
        assert plan.cost == pytest.approx(dense_cost(first, second, plan), rel=1e-4)
        source, target = plan.marginals()
        expected = p.double() / p.sum() if name == "masses" else torch.full((20,), 1 / 20)
        torch.testing.assert_close(source, expected.double(), rtol=1e-4, atol=1e-7)
        expected = torch.full((size,), 1 / size, dtype=torch.float64)
        torch.testing.assert_close(target, expected, rtol=1e-4, atol=1e-7)


def test_masses_go_with_their_nodes():
    edge_index = random_graph(60)
    other, order = renamed(changed(edge_index, 60, 0.05), 60)
    p = 0.5 + torch.rand(60, generator=torch.Generator().manual_seed(0))
    q = torch.empty(60).index_copy(0, order, p)
    plan = match_graphs(edge_index, other, p=10 * p, q=q)
    assert (plan.argmax() == order).double().mean() > 0.95
    assert plan.converged


@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_a_copy_is_found_exactly_whatever_its_masses(scale):
    """Only graphs of equal masses were: others had a dense plan, at a cost near zero."""
    edge_index = cycle(12)
    p = torch.tensor([1.0, 2.0, 1.0, 3.0]).repeat(3).double()
    for seed in range(3):
        other, order = renamed(edge_index, 12, seed)
        q = torch.empty(12, dtype=torch.float64).index_copy(0, order, scale * p)
        plan = match_graphs(edge_index, other, p=p, q=q)
        partner = plan.argmax()
        assert plan.cost == 0
        assert torch.equal(q[partner], scale * p)
        for found, mass in zip(plan.marginals(), (p, q), strict=True):
            torch.testing.assert_close(found, mass / mass.sum(), rtol=1e-6, atol=0)


def test_masses_that_no_renaming_keeps_are_kept_by_the_plan():
    p = torch.tensor([1.0, 2.0, 1.0, 3.0]).repeat(3)
    plan = match_graphs(cycle(12), cycle(12), p=p, q=p.sort().values)
    torch.testing.assert_close(plan.marginals()[1].float(), p.sort().values / p.sum())
    assert plan.cost > 0


def test_a_part_of_a_graph_is_found_in_it():
    edge_index = neighbour_graph(80)
    inside = (edge_index < 70).all(0)
    other, order = renamed(edge_index, 80)
    part = AdjacencyCost(edge_index[:, inside], num_nodes=70)
    plan = match_graphs(part, AdjacencyCost(other, num_nodes=80))
    assert (plan.argmax() == order[:70]).double().mean() > 0.7


def test_nodes_without_mass_are_left_out_with_their_edges():
    edge_index = random_graph(50)
    other, order = renamed(edge_index, 50)
    p = (torch.arange(50) >= 10).float()
    q = torch.empty(50).index_copy(0, order, p)
    plan = match_graphs(edge_index, other, p=p, q=q)
    partner = plan.argmax()
    assert plan.cost == 0
    assert (partner[:10] == -1).all()
    assert (partner[10:] == order[10:]).double().mean() > 0.9
    assert torch.equal(plan.marginals()[0] > 0, p > 0)


@pytest.mark.parametrize("target_size", [1, 4, 6])
@pytest.mark.parametrize("name", ["no edges", "one node", "isolated", "ring", "star", "repeated"])
def test_awkward_graphs_have_finite_plans(name, target_size):
    edge_index, num_nodes = {
        "no edges": (torch.empty(2, 0, dtype=torch.int64), 4),
        "one node": (torch.empty(2, 0, dtype=torch.int64), 1),
        "isolated": (torch.tensor([[0, 1], [1, 0]]), 4),
        "ring": tiny_graphs.ring(6),
        "star": tiny_graphs.star(3),
        "repeated": (torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]), 4),
    }[name]
    source = AdjacencyCost(edge_index, num_nodes=num_nodes)
    pairs = {1: torch.empty(2, 0, dtype=torch.int64), 4: tiny_graphs.ring(4)[0]}
    target = AdjacencyCost(pairs.get(target_size, tiny_graphs.ring(6)[0]), num_nodes=target_size)
    for first, second in ((source, target), (target, source), (source, source)):
        plan = match_graphs(first, second)
        dense = plan.dense()
        assert dense.isfinite().all()
        assert plan.cost == pytest.approx(dense_cost(first, second, plan), abs=1e-6)
        torch.testing.assert_close(dense.sum(1), torch.full_like(dense[:, 0], 1 / len(dense)))
        if first is second:
            assert plan.cost < 1e-6


def test_weights_of_any_size_give_the_same_plan():
    edge_index = random_graph(40)
    other, _ = renamed(changed(edge_index, 40, 0.1), 40)
    sources, targets = (torch.ones(each.size(1)) for each in (edge_index, other))
    plan = match_graphs(edge_index, other)
    for factor in (1e-15, 1e15):
        first, second = (
            AdjacencyCost(edge_index, sources * factor),
            AdjacencyCost(other, targets * factor),
        )
        scaled = match_graphs(first, second)
        assert torch.equal(scaled.argmax(), plan.argmax())
        assert scaled.cost == pytest.approx(plan.cost * factor**2, rel=1e-5)
        for step, before in zip(scaled.history, plan.history, strict=True):
            assert step.cost == pytest.approx(before.cost * factor**2, rel=1e-5)


def test_random_numbers_are_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = match_graphs(random_graph(30), random_graph(30, seed=1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(
        match_graphs(random_graph(30), random_graph(30, seed=1)).dense(), first.dense()
    )


def test_an_unfinished_descent_says_so(caplog):
    plan = match_graphs(random_graph(30), random_graph(20), max_iter=1)
    assert not plan.converged
    assert "stopped after max_iter = 1 steps" in caplog.text
    torch.testing.assert_close(plan.marginals()[0], torch.full((30,), 1 / 30).double())


def test_what_is_refused(monkeypatch):
    edge_index, _ = tiny_graphs.ring(4)
    with pytest.raises(ValueError, match="'source' to have at least one node"):
        match_graphs(torch.empty(2, 0, dtype=torch.int64), edge_index)
    with pytest.raises(ValueError, match=r"'p' to have shape \[4\], one entry for each node"):
        match_graphs(edge_index, edge_index, p=torch.ones(5))
    for bad in (torch.tensor([1.0, 1, 1, -1]), torch.zeros(4)):
        with pytest.raises(ValueError, match="'q' to (be non-negative|have mass)"):
            match_graphs(edge_index, edge_index, q=bad)
    with pytest.raises(ValueError, match="'p' to be finite"):
        match_graphs(edge_index, edge_index, p=torch.full((4,), torch.nan))
    with pytest.raises(ValueError, match="'max_iter' to be a positive integer"):
        match_graphs(edge_index, edge_index, max_iter=0)
    monkeypatch.setattr(matching_module, "DENSE_LIMIT", 15)
    other = cycle(5)
    with pytest.raises(ValueError, match="equal masses between 5 x 4 nodes, more than 15 pairs"):
        match_graphs(other, edge_index, p=torch.tensor([1.0, 2, 1, 1, 1]))


@pytest.mark.parametrize("weight", [1e200, 1e-200])
def test_weights_whose_squares_are_out_of_range_are_refused(weight):
    """The cost of graphs that differ was zero, or an OverflowError."""
    path, edge = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([[0, 1], [1, 0]])
    weights = torch.full((4,), weight, dtype=torch.float64)
    first, second = AdjacencyCost(path, weights), AdjacencyCost(edge, weights[:2], num_nodes=3)
    with pytest.raises(ValueError, match="edge weights of a size whose squares torch.float64"):
        match_graphs(first, second)


def test_a_default_of_double_precision_changes_nothing():
    edges = torch.tensor([[0, 1, 2, 2, 3], [1, 2, 0, 3, 4]])
    edges = torch.cat([edges, edges.flip(0)], 1)
    sides = AdjacencyCost(edges, torch.ones(10)), AdjacencyCost(edges[:, [0, 1, 3, 5, 6, 8]])
    for p in (None, torch.arange(1.0, 6.0)):
        expected = match_graphs(*sides, p=p)
        torch.set_default_dtype(torch.float64)
        try:
            plan = match_graphs(*sides, p=p)
            confidence = plan.confidence
        finally:
            torch.set_default_dtype(torch.float32)
        torch.testing.assert_close(plan.dense(), expected.dense())
        torch.testing.assert_close(confidence, expected.confidence)


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
