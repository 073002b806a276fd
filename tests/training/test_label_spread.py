import numpy as np
import pytest
import torch
from torch import nn

from jsem_pyg.training.label_spread import (
    FOLDS,
    Chosen,
    choose_way,
    mean_cut,
    walk,
    ways_to_spread,
)
from jsem_pyg.training.training_graph import TrainingGraph


def a_graph():
    """A path of six nodes with weights, and a pair of nodes that no label reaches."""
    edge = torch.tensor([[0, 1, 2, 3, 4, 6], [1, 2, 3, 4, 5, 7]])
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 1.0]).repeat(2)
    return TrainingGraph(torch.arange(8.0)[:, None], torch.cat([edge, edge.flip(0)], 1), weight)


@pytest.mark.parametrize("restart", [0.3, 0.003])
def test_walks_visit_as_dense_algebra_says(restart):
    graph, labels = a_graph(), torch.tensor([0, 0, -1, -1, -1, 1, -1, -1])
    w = np.zeros((8, 8))
    w[graph.edge_index[0], graph.edge_index[1]] = graph.edge_weight
    degree = w.sum(1)
    start = np.zeros((8, 2))
    start[[0, 1], 0], start[5, 1] = 0.5, 1
    visits = restart * np.linalg.inv(np.eye(8) - (1 - restart) * w @ np.diag(1 / degree)) @ start
    expected = np.log(visits / degree[:, None] * degree.sum() + 1e-6)
    np.testing.assert_allclose(walk(graph, restart, labels), expected, rtol=1e-6)


def test_the_way_of_the_lowest_loss_of_held_out_labels_is_chosen():
    labels = torch.arange(3).repeat(6)
    labels[-2:] = -1
    truth = nn.functional.one_hot(torch.arange(3).repeat(6)).double()
    seen = []

    def right(known):
        seen.append((labels >= 0) & (known < 0))
        return truth

    chosen = choose_way([lambda known: torch.zeros(18, 3), right, lambda known: -truth], labels, 0)
    assert chosen.way is right
    assert chosen.loss < 0.01
    assert len(seen) == FOLDS
    assert torch.equal(torch.stack(seen).sum(0), (labels >= 0).long())  # each is held out once
    # As sharp as 16 labels without an error allow, no sharper.
    assert 0.9 < float(chosen.probabilities(labels).amax(1).min()) < 1 - 1e-3


def test_nothing_is_claimed_where_nothing_can_be_held_out():
    def one(known):
        return torch.zeros(4, 2)

    chosen = choose_way([one, one], torch.tensor([0, -1, 1, -1]), 0)
    assert chosen == Chosen(one, 1.0, float("inf"))
    # The only label of a class is always there.
    kept = []
    choose_way(
        [lambda known: kept.append(known[0]) or torch.zeros(4, 2)], torch.tensor([0, 1, 1, -1]), 0
    )
    assert kept == [0, 0]


def test_classes_count_alike_in_the_cut():
    graph = a_graph()
    classes = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])
    assert mean_cut(graph, classes) == pytest.approx((0.5 / 6.5 + 0.5 / 8.5 + 0) / 3)


def test_ways_follow_the_edges_and_the_features():
    edge = torch.tensor([[0, 1, 3, 4, 6], [1, 2, 4, 5, 7]])
    x = torch.tensor([0.0, 0, 0, 9, 9, 9, 9, 9])[:, None]
    graph = TrainingGraph(x, torch.cat([edge, edge.flip(0)], 1))
    labels = torch.tensor([0, -1, -1, 1, -1, -1, -1, -1])
    t, ways = ways_to_spread(graph, [1.0, 2.0], seed=0)
    assert t in (1, 2)
    for way in ways:
        assert way(labels)[:6].argmax(1).tolist() == [0, 0, 0, 1, 1, 1]
    torch.testing.assert_close(ways[0](labels)[6:], torch.full((2, 2), 1e-6).double().log())
    assert ways[-1](labels)[6:].argmax(1).tolist() == [1, 1]
