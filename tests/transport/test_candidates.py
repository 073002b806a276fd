import logging

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array, csr_array
from scipy.spatial import cKDTree
from torch_geometric.data import Data

from jsem_pyg.transport import Plan, match_graphs
from jsem_pyg.transport.edges import candidates
from jsem_pyg.transport.edges import matching as matching_module
from jsem_pyg.transport.edges.candidates import find_candidates, search_candidates
from jsem_pyg.transport.edges.features import local_profiles


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


def test_a_changed_copy_is_found():
    source, target, name = noisy_pair(600)
    stages = search_candidates(source, target, 100, 0)
    steps = int(stages[0][0].removeprefix("30 candidates, ").removesuffix(" steps"))
    assert steps < 30  # as long as they help
    assert (stages[-1][1] == name).mean() > 0.95
    again = search_candidates(source, target, 100, 0)
    assert np.array_equal(stages[-1][1], again[-1][1])


def test_backends_agree():
    source, target, name = noisy_pair(150)
    right = [
        (search_candidates(source, target, 5, 0, backend)[-1][1] == name).mean()
        for backend in ("reference", "auto")
    ]
    assert right[0] == pytest.approx(right[1], abs=0.05)


def test_large_graphs_go_this_way_and_it_is_told(monkeypatch, caplog):
    source, target, name = noisy_pair(300)
    monkeypatch.setattr(matching_module, "DENSE_LIMIT", 1000)
    with caplog.at_level(logging.INFO, "jsem_pyg"):
        plan = match_graphs(as_data(source), as_data(target))
    assert "300 x 300 pairs of nodes are too many" in caplog.text
    assert plan.history[0].stage.startswith("30 candidates, ")
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
    monkeypatch.setattr(matching_module, "DENSE_LIMIT", 100)
    monkeypatch.setattr(matching_module, "find_isomorphism", lambda *_: None)
    monkeypatch.setattr(matching_module, "search_candidates", lambda *_: stages)
    plan = match_graphs(as_data(matrix), as_data(target))
    expected = float((matrix - target).power(2).sum()) / 30**2
    assert plan.cost == plan.history[1].cost == pytest.approx(expected)
    assert plan.history[0].cost == 0


def test_sides_of_different_sizes_leave_nodes_alone(monkeypatch):
    source, target, name = noisy_pair(300)
    monkeypatch.setattr(matching_module, "DENSE_LIMIT", 1000)
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


def test_among_many_nodes_candidates_are_sought_in_cells(monkeypatch):
    source, target, _ = noisy_pair(300)
    exact, _ = find_candidates(source, target, 30, 0)
    monkeypatch.setattr(candidates, "_EXACT", 100)
    column, _ = find_candidates(source, target, 30, 0)
    assert np.mean([np.isin(*each).mean() for each in zip(exact, column, strict=True)]) > 0.9
    monkeypatch.setattr(candidates, "_PROBES", 1)
    column, distance = find_candidates(source, target, 30, 0)  # more than there are in a cell
    lost = np.isinf(distance)
    assert lost[:, -1].any()
    assert not lost[:, 0].any()
    assert (column == column[:, :1])[lost].all()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_graphs_without_edges_get_some_assignment(size):
    nothing = csr_array((size, size))
    partner = search_candidates(nothing, nothing, 3, 0)[-1][1]
    assert np.array_equal(np.sort(partner), np.arange(size))
    assert np.isfinite(local_profiles(nothing)).all()


def test_profiles_do_not_depend_on_names():
    source = neighbors(80)
    name = np.random.default_rng(3).permutation(80)
    first = local_profiles(both_ways(source, 80))
    second = local_profiles(both_ways(name[source], 80))
    np.testing.assert_allclose(second[name], first, atol=2e-4)


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
