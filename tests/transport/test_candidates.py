import logging

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array, csr_array
from scipy.spatial import cKDTree
from torch_geometric.data import Data

from jsem_pyg.transport import Plan, match_graphs
from jsem_pyg.transport.edges import candidates, nearest, search
from jsem_pyg.transport.edges import matching as matching_module
from jsem_pyg.transport.edges.candidates import search_candidates
from jsem_pyg.transport.edges.confidence import edge_confidence
from jsem_pyg.transport.edges.features import both_features, local_features, local_profiles
from jsem_pyg.transport.edges.moves import assignment_task
from jsem_pyg.transport.edges.nearest import find_nearest
from jsem_pyg.transport.factored.profiles import Comparable


def both_ways(edges, size):
    entries = coo_array((np.ones(len(edges)), edges.T), (size, size))
    matrix = (entries + entries.T).tocsr()
    matrix.data[:] = 1
    return matrix


def neighbors(size, seed=0, k=8):
    """Edges [E, 2] of a neighbour graph of points in a cube."""
    points = np.random.default_rng(seed).random((size, 3))
    near = cKDTree(points).query(points, k + 1)[1][:, 1:]
    matrix = both_ways(np.stack([np.repeat(np.arange(size), k), near.reshape(-1)], 1), size)
    row, column = matrix.tocoo().coords
    return np.stack([row, column], 1)[row < column]


def noisy_pair(size, seed=0, part=0.05):
    """A graph, a renamed copy with some edges changed, and the new names."""
    edges, rng = neighbors(size, seed), np.random.default_rng(seed + 1)
    count = int(part * len(edges))
    kept = edges[rng.permutation(len(edges))[count:]]
    added = rng.integers(0, size, (count, 2))
    added = added[added[:, 0] != added[:, 1]]
    name = rng.permutation(size)
    target = both_ways(name[np.concatenate([kept, added])], size)
    return both_ways(edges, size), target, name


def as_data(matrix):
    row, column = matrix.tocoo().coords
    index = torch.from_numpy(np.stack([row, column]).astype(np.int64))
    return Data(edge_index=index, num_nodes=matrix.shape[0])


def candidate_stages(source, target, max_iter):
    task = assignment_task(source, target, local_features(source, target), 0)
    return search_candidates(task, max_iter)


def test_a_changed_copy_is_found():
    source, target, name = noisy_pair(600)
    stages = candidate_stages(source, target, 100)
    steps = int(stages[0][0].removeprefix("109 candidates, ").removesuffix(" steps"))
    assert 2 < steps < 30  # as long as they help
    assert (stages[-1][1] == name).mean() > 0.95
    again = candidate_stages(source, target, 100)
    assert np.array_equal(stages[-1][1], again[-1][1])


def test_large_graphs_go_this_way_and_it_is_told(monkeypatch, caplog):
    source, target, name = noisy_pair(300)
    monkeypatch.setattr(search, "_LARGE", 1000)
    with caplog.at_level(logging.INFO, "jsem_pyg"):
        plan = match_graphs(as_data(source), as_data(target))
    assert "stays with candidates between 300 x 300 nodes" in caplog.text
    assert plan.history[0].stage.startswith("218 candidates, ")
    partner = plan.argmax().numpy()
    assert np.array_equal(np.sort(partner), np.arange(300))
    assert (partner == name).mean() > 0.9
    moved = target[partner][:, partner]
    assert plan.cost == pytest.approx(float(((source - moved).power(2)).sum()) / 300**2)


def test_the_cost_is_that_of_the_last_stage_also_if_it_is_not_the_least(monkeypatch):
    source = neighbors(30)
    matrix, identity = both_ways(source, 30), np.arange(30)
    target = matrix[::-1][:, ::-1].tocsr()
    stages = [("right", identity[::-1].copy()), ("wrong", identity)]
    monkeypatch.setattr(search, "_LARGE", 100)
    monkeypatch.setattr(matching_module, "find_isomorphism", lambda *_: None)
    monkeypatch.setattr(search, "search_candidates", lambda *_: stages)
    plan = match_graphs(as_data(matrix), as_data(target))
    expected = float((matrix - target).power(2).sum()) / 30**2
    assert plan.cost == plan.history[1].cost == pytest.approx(expected)
    assert plan.history[0].cost == 0


def test_sides_of_different_sizes_leave_nodes_alone(monkeypatch):
    source, target, name = noisy_pair(300)
    monkeypatch.setattr(matching_module, "_SHARED", 1000)
    gone = np.argsort(name)[280:]  # which the target lacks
    smaller = target[:280][:, :280]
    for plan in (
        match_graphs(as_data(source), as_data(smaller)),
        match_graphs(as_data(smaller), as_data(source)).transposed(),
    ):
        partner = plan.argmax().numpy()
        assert (partner < 0).sum() == 20
        matched = partner[partner >= 0]
        assert np.array_equal(np.sort(matched), np.arange(280))
        there = np.setdiff1d(np.arange(300), gone)
        assert (partner[there] == name[there]).mean() > 0.8
        assert float(plan.marginals()[0].sum()) == pytest.approx(1)


def test_among_many_nodes_the_nearest_are_sought_in_cells(monkeypatch):
    source, target, _ = noisy_pair(300)
    features = local_features(source, target)
    exact, _ = find_nearest(features, 0)
    monkeypatch.setattr(nearest, "_EXACT", 100)
    column, _ = find_nearest(features, 0)
    assert np.mean([np.isin(*each).mean() for each in zip(exact, column, strict=True)]) > 0.9
    monkeypatch.setattr(nearest, "_PROBES", 1)
    column, likeness = find_nearest(features, 0)  # more than there are in a cell
    assert column.min() >= 0
    repeats = [set(row[value > 0]) for row, value in zip(column, likeness, strict=True)]
    assert any(len(set(row)) < 30 for row in column)
    assert all(
        len(alike) == (value > 0).sum() for alike, value in zip(repeats, likeness, strict=True)
    )


def test_the_nearest_are_ordered_by_likeness_and_then_by_number():
    features = Comparable(torch.zeros(1, 2), torch.tensor([[2.0, 0], [0, 0], [1e-4, 0], [0, 1]]))
    column, likeness = find_nearest(features, 0)
    assert column.tolist() == [[1, 2, 0, 3]]  # the second and third are equal but for rounding
    np.testing.assert_allclose(likeness, [[0.1, 0.1, 0.0, 0.0]], atol=1e-3)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_graphs_without_edges_get_some_assignment(size):
    nothing = csr_array((size, size))
    partner = candidate_stages(nothing, nothing, 3)[-1][1]
    assert np.array_equal(np.sort(partner), np.arange(size))
    assert np.isfinite(local_profiles(nothing)).all()


def test_profiles_do_not_depend_on_names():
    source = neighbors(80)
    name = np.random.default_rng(3).permutation(80)
    first = local_profiles(both_ways(source, 80))
    second = local_profiles(both_ways(name[source], 80))
    np.testing.assert_allclose(second[name], first, atol=2e-4)


def test_profiles_are_means_and_deviations_over_neighbours():
    matrix = both_ways(neighbors(40, k=3), 41)  # 40 is isolated
    found = local_profiles(matrix)
    assert found.shape == (41, 117)
    own, adjacency = found[:, :9].astype(float), matrix.toarray()
    share = adjacency / np.maximum(adjacency.sum(1, keepdims=True), 1)
    mean = share @ own
    spread = [share[i] @ (own - mean[i]) ** 2 for i in range(41)]
    np.testing.assert_allclose(found[:, 9:18], mean, atol=1e-5)
    np.testing.assert_allclose(found[:, 18:27] ** 2, spread, atol=2e-5)
    np.testing.assert_allclose(found[:, 27:36], share @ mean, atol=1e-5)


def test_both_features_count_as_much_in_the_mean_distance():
    draw = torch.Generator().manual_seed(0)
    first, second = (
        Comparable(*(torch.randn(n, 3, generator=draw) * scale + scale for n in (7, 9)))
        for scale in (1.0, 20.0)
    )
    both = both_features(first, second)
    parts = [torch.cdist(*(each[:, part] for each in both)) for part in (slice(3), slice(3, 6))]
    one, other = (each.square().mean() for each in parts)
    torch.testing.assert_close(one, other)
    torch.testing.assert_close(both.source[:, 3:], second.source)


def test_the_last_candidates_are_more(monkeypatch):
    widths, take = [], candidates.greedy_assignment
    monkeypatch.setattr(
        candidates,
        "greedy_assignment",
        lambda column, *given: (widths.append(column.shape[1]), take(column, *given))[1],
    )
    matrix = both_ways(neighbors(60), 60)
    candidate_stages(matrix, matrix, 3)
    assert set(widths) == {candidates._LAST_KEPT}


def test_annealing_goes_on_as_long_as_it_gains(monkeypatch):
    """Five gains of a hundredth, then none: four more, one for each share that is believed."""
    rounds, everywhere = [], []

    def anneal(task, best, believed=None, rows=None):
        rounds.append(believed)
        everywhere.append(rows is None)
        return best._replace(kept=best.kept * 1.01) if len(rounds) <= 5 else best

    monkeypatch.setattr(search, "anneal", anneal)
    for name in ("percolate", "swap"):
        monkeypatch.setattr(search, name, lambda task, start: start)
    source, target, _ = noisy_pair(60, part=0.3)
    monkeypatch.setattr(search, "_SMALL", 0)
    monkeypatch.setattr(search, "_is_chance", lambda *_: False)  # as it looks without moves
    found = search.search_assignment(source, target, 100, 0)
    assert [stage for stage, _ in found.stages].count("annealing") == len(rounds) == 9
    assert [each is None for each in rounds] == ([True] + [False] * 3) * 2 + [True]
    assert everywhere == ([False] * 3 + [True]) * 2 + [False]
    confidence = edge_confidence(source, target, found.partner)
    for each, least in zip(rounds[1:4], (0.5, 0.3, 0.7), strict=True):
        assert np.array_equal(each, confidence >= least)


def test_the_better_of_two_starts_from_heat_goes_on(monkeypatch):
    """Of dense graphs with weights, the nodes most alike are a better start than soft ones."""
    source, target, _ = noisy_pair(60, part=0.3)
    likely, soft = np.arange(60)[::-1].copy(), np.roll(np.arange(60), 7)
    for name in ("percolate", "swap"):
        monkeypatch.setattr(search, name, lambda task, each: each)
    monkeypatch.setattr(search, "_is_chance", lambda *_: False)  # as it looks without moves
    for kept, better in (((0.5, 0.1), likely), ((0.1, 0.5), soft)):
        for name, each, value in zip(("greedy", "soft_start"), (likely, soft), kept, strict=True):
            found = search.Assignment(each, value)
            monkeypatch.setattr(search, name, lambda task, found=found: found)
        stages = search.search_assignment(source, target, 1, 0).stages
        assert np.array_equal(dict(stages)["heat"], better)


def test_a_plan_of_many_nodes_needs_no_table():
    size = 200_000  # of which a table would have 4e10 entries
    scores = matching_module.AssignmentScores(
        torch.arange(size).roll(1), torch.full((size,), -17.6), size
    )
    plan = Plan(scores, 0.0)
    y = torch.arange(float(size))[:, None]
    assert plan.argmax()[0] == size - 1
    assert plan.topk(2)._nnz() == size
    torch.testing.assert_close(plan.apply(y)[1:], y[:-1])
    assert float(plan.perplexity().sum()) == size
    torch.testing.assert_close(plan.marginals()[1], plan.marginals()[0])
