import networkx as nx
import numpy as np
import pytest
import torch
from transport.problems import permutation, random_graph

from jsem_pyg.transport import AdjacencyCost, match_graphs


def sides_of(edge_index, first, second):
    """The subgraphs of two lists of nodes, renamed by their places, and the true partners."""
    costs = []
    for nodes in (first, second):
        place = torch.full((int(edge_index.max()) + 1,), -1)
        place[nodes] = torch.arange(len(nodes))
        edges = place[edge_index]
        costs.append(AdjacencyCost(edges[:, (edges >= 0).all(0)], num_nodes=len(nodes)))
    return *costs, place[first]


def planted(seed, both=200, alone=(30, 40)):
    """A random graph of which both sides hold 200 nodes, one has 30 more and the other 40."""
    edge_index = random_graph(both + sum(alone), mean_degree=10, seed=seed)
    order = permutation(both + sum(alone), seed)
    common, first, second = order.split([both, *alone])
    second = torch.cat([common, second])[permutation(both + alone[1], seed)]
    return sides_of(edge_index, torch.cat([common, first]), second)


@pytest.mark.parametrize("seed", range(2))
def test_strangers_stay_alone_and_others_find_their_partners(seed):
    source, target, truth = planted(seed)
    plan = match_graphs(source, target, strangers=True)
    partner = plan.argmax()
    found = partner >= 0
    assert (partner[found] == truth[found]).double().mean() >= 0.95
    assert (partner == truth)[truth >= 0].double().mean() >= 0.85
    assert len(partner[found].unique()) == found.sum()
    assert ((plan.confidence > 0) == found).all()
    back = match_graphs(target, source, strangers=True).argmax()
    assert (back[partner[found]] == found.nonzero()[:, 0]).double().mean() >= 0.95


@pytest.mark.parametrize("degree", [3, 12])
def test_of_unrelated_graphs_all_nodes_stay_alone(degree):
    sides = [AdjacencyCost(random_graph(200, degree, seed=each), num_nodes=200) for each in (0, 1)]
    plan = match_graphs(*sides, strangers=True)
    assert (plan.argmax() == -1).all()
    assert plan.cost == 0
    assert (plan.confidence == 0).all()
    assert float(plan.apply(torch.ones(200, 1)).abs().sum()) == 0


def test_small_graphs_find_partners_and_none_without_edges():
    source, target, truth = planted(0, both=48, alone=(12, 12))
    partner = match_graphs(source, target, strangers=True).argmax()
    assert (partner == truth)[truth >= 0].double().mean() >= 0.85
    assert (partner == truth)[partner >= 0].double().mean() >= 0.95
    empty = AdjacencyCost(torch.empty(2, 0, dtype=torch.int64), num_nodes=3)
    with np.errstate(divide="raise"):
        assert (match_graphs(source, empty, strangers=True).argmax() == -1).all()


def test_confidence_is_the_share_of_right_partners_among_near_twins():
    """Nodes copy the neighbours of others, so that many have nearly the same ones."""
    edges = torch.tensor(list(nx.duplication_divergence_graph(360, 0.5, seed=10).edges)).T
    common, first, second = permutation(360, 0).split([290, 35, 35])
    sides = torch.cat([common, first]), torch.cat([common, second])[permutation(325, 1)]
    source, target, truth = sides_of(torch.cat([edges, edges.flip(0)], 1), *sides)
    plan = match_graphs(source, target, strangers=True)
    found = plan.argmax() >= 0
    right = (plan.argmax() == truth)[found].double().mean()
    assert found.double().mean() > 0.4
    assert float(right) == pytest.approx(float(plan.confidence[found].mean()), abs=0.04)


def test_a_renamed_copy_has_no_strangers():
    edge_index = random_graph(80, 6, seed=3)
    order = permutation(80)
    plan = match_graphs(
        AdjacencyCost(edge_index, num_nodes=80),
        AdjacencyCost(order[edge_index], num_nodes=80),
        strangers=True,
    )
    assert plan.cost == 0
    assert (plan.argmax() >= 0).all()


def test_what_strangers_refuse():
    edge_index = random_graph(20, 6, seed=3)
    with pytest.raises(ValueError, match="'strangers' to stand without 'known_pairs'"):
        match_graphs(edge_index, edge_index, known_pairs=torch.tensor([[0], [0]]), strangers=True)
