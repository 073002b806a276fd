from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from jsem_pyg.training.label_spread import (
    FOLDS,
    SHARPNESS,
    Chosen,
    average_ways,
    choose_way,
    fill_sizes,
    mean_cut,
    read_sizes,
    walk,
    ways_to_spread,
)
from jsem_pyg.training.training_graph import TrainingGraph


def a_graph():
    """A path of six nodes with weights, and a pair of nodes that no label reaches."""
    edge = torch.tensor([[0, 1, 2, 3, 4, 6], [1, 2, 3, 4, 5, 7]])
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 1.0]).repeat(2)
    return TrainingGraph(torch.arange(8.0)[:, None], torch.cat([edge, edge.flip(0)], 1), weight)


def kernel_of(graph, restart):
    """Visits of walks from a node to others, by their degree, dense."""
    w = np.zeros((8, 8))
    w[graph.edge_index[0], graph.edge_index[1]] = graph.edge_weight
    degree = w.sum(1)
    visits = restart * np.linalg.inv(np.eye(8) - (1 - restart) * w / degree)
    return visits / degree[:, None] * degree.sum()


@pytest.mark.parametrize("restart", [0.3, 0.003])
def test_harmonic_functions_are_as_dense_algebra_says(restart):
    """Labels are given, other nodes means of their neighbours times one minus the restart."""
    graph, labels = a_graph(), torch.tensor([0, 0, -1, -1, -1, 1, -1, -1])
    scores = walk(graph.structure, graph.edge_weight, restart, True, labels)
    values = scores.exp() - 1e-6
    values = values / values.amax(0)
    known = labels >= 0
    torch.testing.assert_close(values[known], nn.functional.one_hot(labels[known]).double())
    w = torch.zeros(8, 8).double()
    w[graph.edge_index[0], graph.edge_index[1]] = graph.edge_weight.double()
    mean = (1 - restart) * w @ values / w.sum(1, keepdim=True)
    torch.testing.assert_close(values[~known], mean[~known])
    torch.testing.assert_close(scores.exp().mean(0), torch.full((2,), 1 + 1e-6).double())


def test_of_many_labels_parts_have_the_value_of_their_class_in_the_mean():
    graph, labels = a_graph(), torch.tensor([0, 0, 0, 0, 0, 1, -1, 0])
    values = walk(graph.structure, graph.edge_weight, 0.03, True, labels).exp() - 1e-6
    kernel = kernel_of(graph, 0.03)
    part = np.eye(8)[[0, 1, 2, 3, 5]] + 0
    part[0, [0, 4]] = part[1, [1, 7]] = 0.5  # the fifth and sixth label join the first and second
    expected = kernel @ part.T @ np.linalg.solve(part @ kernel @ part.T, np.eye(2)[[0, 0, 0, 0, 1]])
    expected = expected.clip(0)
    np.testing.assert_allclose(values, expected / expected.mean(0), atol=1e-6)


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
    assert chosen.losses.mean() < 0.01
    assert len(seen) == FOLDS
    assert torch.equal(torch.stack(seen).sum(0), (labels >= 0).long())  # each is held out once
    # As sharp as 16 labels without an error allow, no sharper.
    assert 0.9 < float(chosen.probabilities(labels).amax(1).min()) < 1 - 1e-3
    halves = [lambda known, of=of: truth * (torch.arange(18)[:, None] % 2 == of) for of in (0, 1)]
    assert torch.equal(
        average_ways(halves, labels, 0).probabilities(labels).argmax(1), truth.argmax(1)
    )
    assert average_ways([*halves, lambda known: truth], labels, 0).losses.max() < 0.1


def test_nothing_is_claimed_where_nothing_can_be_held_out():
    seen = []

    def way(known):
        seen.append(known[0])
        return torch.zeros(4, 2)

    chosen = choose_way([way, way], torch.tensor([0, -1, 1, -1]), 0)
    assert chosen.way is way
    assert SHARPNESS[int(chosen.shares.argmax())] == chosen.shares.max() == 1
    assert len(chosen.losses) == len(seen) == 0
    choose_way([way], torch.tensor([0, 1, 1, -1]), 0)
    assert seen == [0, 0]  # the only label of a class is always there


def test_a_walk_is_the_cosine_to_the_mean_of_a_class():
    """Dense, from labels to other labels of the class; of a class with one, as the others are."""
    graph, labels = a_graph(), torch.tensor([0, 0, 1, 1, 1, 2, -1, -1])
    kernel = kernel_of(graph, 0.03)
    mean = np.stack([kernel[:, labels == c].mean(1) for c in range(3)], 1)
    own = [kernel[0, 1], (kernel[2, 3] + kernel[2, 4] + kernel[3, 4]) / 3]
    own.append((own[0] * own[1]) ** 0.5)
    scores = walk(graph.structure, graph.edge_weight, 0.03, False, labels)
    expected = np.log(mean / np.sqrt(own))[:6]
    np.testing.assert_allclose(scores[:6], expected, rtol=1e-5, atol=1e-5)


def test_one_standard_error_is_asked_for():
    way = torch.zeros_like
    low, high = torch.tensor([0.0, 0.1, 0.2]), torch.tensor([0.5, 0.8, 0.6])
    assert Chosen(way, 1.0, low).beats(high)
    assert not Chosen(way, 1.0, high).beats(low)
    assert not Chosen(way, 1.0, low).beats(torch.tensor([0.9, 0.1, 0.1]))
    assert not Chosen(way, 1.0, low[:0]).beats(low[:0])


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


def test_a_unit_of_weights_changes_no_way():
    graph, labels = a_graph(), torch.tensor([0, 0, 1, 1, -1, -1, -1, -1])
    other = replace(graph, edge_weight=1e6 * graph.edge_weight)
    both = (ways_to_spread(each, [1.0], seed=0)[1] for each in (graph, other))
    for way, same in zip(*both, strict=True):
        torch.testing.assert_close(way(labels), same(labels), atol=1e-4, rtol=1e-4)


def test_repeats_and_rounding_of_weights_change_no_way():
    """An edge given twice is one of the sum; directions may differ as far as checks allow."""
    graph, labels = a_graph(), torch.tensor([0, -1, -1, -1, 1, -1, -1, -1])
    first, weight = graph.edge_index[:, [0, 6]], graph.edge_weight.clone()
    weight[[0, 6]] *= 0.5
    repeated = torch.cat([graph.edge_index, first], 1), torch.cat([weight, weight[[0, 6]]])
    rounded = graph.edge_weight * torch.tensor([1 + 4e-5, 1 - 4e-5]).repeat_interleave(6)
    others = [
        replace(graph, edge_index=repeated[0], edge_weight=repeated[1]),
        replace(graph, edge_weight=rounded),
    ]
    for other in others:
        both = (ways_to_spread(each, [1.0], seed=0)[1] for each in (graph, other))
        for way, same in zip(*both, strict=True):
            torch.testing.assert_close(way(labels), same(labels), atol=1e-3, rtol=1e-3)


def test_sizes_that_are_given_are_those_of_the_result():
    """A path of thirty nodes, and a pair that no label reaches: it does not count."""
    path = torch.arange(29)
    edge = torch.cat([torch.stack([path, path + 1]), torch.tensor([[30], [31]])], 1)
    graph = TrainingGraph(torch.zeros(32, 1), torch.cat([edge, edge.flip(0)], 1))
    labels = torch.full((32,), -1)
    labels[[0, 29]] = torch.tensor([0, 1])
    weight = torch.ones(60).double()
    start = walk(graph.structure, weight, 0.03, True, labels).softmax(1)
    for many in (6, 15, 24):
        sizes = read_sizes([many, 30 - many], 2)
        p = fill_sizes(graph.structure, weight, start, labels, sizes, slice(None))
        torch.testing.assert_close(p[:30].mean(0), sizes, atol=0.02, rtol=0)
        assert abs(int((p[:30].argmax(1) == 0).sum()) - many) <= 1
    assert read_sizes(None, 2) is None
    for wrong in ([1, 0], [1, 2, 3], [float("nan"), 1], 3):
        with pytest.raises(ValueError, match="'class_sizes' to hold a positive number for each"):
            read_sizes(wrong, 2)
