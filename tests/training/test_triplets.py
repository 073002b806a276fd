from types import SimpleNamespace

import pytest
import torch
from torch_geometric.utils import to_undirected

from jsem_pyg.training import GraphTriplets, Triplets
from jsem_pyg.training.processes import SharedTask
from jsem_pyg.training.triplets import LabelTriplets, TripletLoss


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def star_with_tail():
    """Node 0 adjacent to all of 1..4; node 5 hangs on 4; node 6 is isolated."""
    return to_undirected(torch.tensor([[0, 0, 0, 0, 4], [1, 2, 3, 4, 5]])), 7


def random_graph(num_nodes=40):
    pairs = torch.randint(num_nodes - 3, (2, 120), generator=generator(3))  # three isolated at end
    return to_undirected(pairs), num_nodes  # some self-loops


def directed_edges_in_any_order():
    """Duplicates, self-loops, unsorted, int32."""
    edge_index = torch.tensor([[3, 0, 1, 1, 2, 2, 0], [2, 1, 0, 0, 3, 2, 0]], dtype=torch.int32)
    return edge_index, 5


AWKWARD = [star_with_tail, random_graph, directed_edges_in_any_order]


@pytest.mark.parametrize("graph", AWKWARD)
def test_positives_are_neighbours_and_negatives_are_not(graph):
    edge_index, num_nodes = graph()
    weight = torch.rand(edge_index.size(1), generator=generator()) + 1e-12
    anchor, positive, negative = GraphTriplets(edge_index, weight, num_nodes).sample(
        5000, generator()
    )
    adjacent = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    adjacent[edge_index[0].long(), edge_index[1].long()] = True
    adjacent.fill_diagonal_(False)

    assert anchor.dtype == positive.dtype == negative.dtype == torch.int64
    assert anchor.shape == positive.shape == negative.shape == (5000,)
    assert adjacent[anchor, positive].all()
    assert not adjacent[anchor, negative].any()
    assert (anchor != negative).all()
    assert (anchor != positive).all()
    # Each node that can be an anchor is one; isolated nodes can only be negatives.
    can_be = adjacent.any(1) & (adjacent.sum(1) < num_nodes - 1)
    assert torch.equal(torch.unique(anchor), can_be.nonzero().flatten())
    if num_nodes < 10:  # so few that 5000 draws meet every pair that is allowed
        free = ~adjacent & can_be.unsqueeze(1)
        free.fill_diagonal_(False)
        drawn = torch.zeros_like(free)
        drawn[anchor, negative] = True
        assert torch.equal(drawn, free)


def test_a_repeated_edge_weighs_twice():
    once, twice, far = [[0, 1], [1, 0]], [[0, 2, 0, 2], [2, 0, 2, 0]], [[3, 4], [4, 3]]
    edge_index = torch.cat([torch.tensor(part) for part in (once, twice, far)], dim=1)
    draws = GraphTriplets(edge_index, None, 5).sample(30_000, generator())
    second = (draws.positive[draws.anchor == 0] == 2).double().mean()
    assert second.item() == pytest.approx(2 / 3, abs=0.02)


def test_an_edge_of_weight_zero_gives_neither_positives_nor_negatives():
    edge_index = to_undirected(torch.tensor([[0, 0], [1, 2]]))
    weight = (edge_index.sum(0) == 1).float()  # 0-1 has weight one, 0-2 zero
    draws = GraphTriplets(edge_index, weight, 4).sample(500, generator())
    from_0 = draws.anchor == 0
    assert draws.positive[from_0].unique().tolist() == [1]
    assert draws.negative[from_0].unique().tolist() == [3]
    assert 2 not in draws.anchor


def test_anchors_are_uniform_positives_follow_the_weights_negatives_are_uniform():
    # Node 0 has neighbours 1, 2, 3 with weights 1 : 2 : 5; nodes 4, 5, 6 are far from it.
    edge_index = to_undirected(torch.tensor([[0, 0, 0, 4], [1, 2, 3, 5]]))
    values = {(0, 1): 1.0, (0, 2): 2.0, (0, 3): 5.0, (4, 5): 7.0}
    weight = torch.tensor([values[min(e), max(e)] for e in edge_index.t().tolist()])
    draws = GraphTriplets(edge_index, weight, 7).sample(60_000, generator())

    share = torch.bincount(draws.anchor, minlength=7) / 60_000
    torch.testing.assert_close(share, torch.tensor([1.0] * 6 + [0.0]) / 6, atol=0.01, rtol=0)
    from_0 = draws.anchor == 0
    share = torch.bincount(draws.positive[from_0], minlength=7) / from_0.sum()
    expected = torch.tensor([0.0, 1.0, 2.0, 5.0, 0.0, 0.0, 0.0]) / 8
    torch.testing.assert_close(share, expected, atol=0.02, rtol=0)
    share = torch.bincount(draws.negative[from_0], minlength=7) / from_0.sum()
    expected = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]) / 3
    torch.testing.assert_close(share, expected, atol=0.02, rtol=0)


@pytest.mark.parametrize("unit", [1e-199, 1e199])
def test_weights_at_the_ends_of_the_range_keep_their_proportions(unit):
    edge_index = to_undirected(torch.tensor([[0, 0, 1], [1, 2, 3]]))
    edge_index = torch.cat([edge_index, torch.zeros(2, 1, dtype=torch.int64)], dim=1)
    weight = torch.where(edge_index.sum(0) == 2, 0.5, 1.5).double() * unit
    weight[-1] = 1e200  # of a self-loop, which counts for nothing
    draws = GraphTriplets(edge_index, weight, 5).sample(20_000, generator())
    share = (draws.positive[draws.anchor == 0] == 1).double().mean()
    assert share == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize(
    ("edges", "num_nodes", "message"),
    [
        ([[], []], 4, "a neighbour"),
        ([[1, 2], [1, 2]], 4, "a neighbour"),  # self-loops only
        ([[0, 1], [1, 0]], 2, "non-neighbour"),
        ([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]], 3, "non-neighbour"),
        ([[0, 4], [4, 0]], 3, "node indices in"),
    ],
)
def test_graphs_without_triplets_are_refused(edges, num_nodes, message):
    with pytest.raises(ValueError, match=message):
        GraphTriplets(torch.tensor(edges, dtype=torch.int64), None, num_nodes)


def test_labels_decide_and_unknown_ones_are_left_out():
    y = torch.tensor([2, -1, 0, 2, 7, 0, 2, -1, 0, -1])
    anchor, positive, negative = LabelTriplets(y).sample(3000, generator())
    assert (y[anchor] == y[positive]).all()
    assert (anchor != positive).all()
    assert (y[anchor] != y[negative]).all()
    assert anchor.unique().tolist() == [0, 2, 3, 5, 6, 8]  # not 4, alone in its class
    assert positive.unique().tolist() == [0, 2, 3, 5, 6, 8]
    assert negative.unique().tolist() == [0, 2, 3, 4, 5, 6, 8]
    # Given anchor 0, the negative is uniform over classes 0 and 7 together.
    share = torch.bincount(negative[anchor == 0], minlength=10) / (anchor == 0).sum()
    expected = torch.tensor([0, 0, 1, 0, 1, 1, 0, 0, 1, 0]) / 4
    torch.testing.assert_close(share, expected, atol=0.08, rtol=0)


@pytest.mark.parametrize("y", [[0, 0, 0], [-1, -1, -1], [0, 1, 2]])
def test_labels_without_triplets_are_refused(y):
    with pytest.raises(ValueError, match="labelled nodes of two classes or more"):
        LabelTriplets(torch.tensor(y))


@pytest.mark.parametrize("scale", [1e-20, 1e15])
def test_the_loss_of_rows_of_any_length(scale):
    z = torch.randn(5, 3, generator=generator())
    triplets = Triplets(torch.tensor([0, 1]), torch.tensor([2, 3]), torch.tensor([4, 4]))
    torch.testing.assert_close(TripletLoss()(z * scale, triplets), TripletLoss()(z, triplets))


def test_the_shares_of_all_processes_add_up_to_the_loss():
    """Three processes that know all features: two have triplets of their own, and one has none."""
    graph = SimpleNamespace(reach=lambda rows: (SimpleNamespace(spread=lambda z: z), rows))
    z = torch.randn(9, 4, generator=generator(), requires_grad=True)
    draws = torch.randint(9, (3, 10), generator=generator(1))
    whole = TripletLoss()(z, Triplets(*draws))
    share = SharedTask(None, TripletLoss(), 10, 0, None, graph)
    shares = sum(share.loss(z, Triplets(*part)) for part in draws.split([7, 3, 0], dim=1))
    assert whole > 0
    torch.testing.assert_close(shares, whole)
    [expected], [got] = torch.autograd.grad(whole, [z]), torch.autograd.grad(shares, [z])
    torch.testing.assert_close(got, expected)
