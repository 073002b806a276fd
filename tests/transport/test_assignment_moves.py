import itertools

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from jsem_pyg.transport.edges import moves as assignment_moves
from jsem_pyg.transport.edges.moves import (
    Assignment,
    Soft,
    Task,
    anneal,
    assignment_task,
    balanced,
    balancing,
    filled,
    greedy_assignment,
    in_unit,
    kept_weight,
    matched_difference,
    percolate,
    pulled,
    soft_start,
    swap,
    swap_gains,
)
from jsem_pyg.transport.factored.profiles import Comparable


def random_matrix(size, seed, density=0.2, weighted=True):
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.random((size, size)) < density, 1)
    weight = np.triu(generator.random((size, size)), 1) if weighted else 1.0
    return csr_array((upper * weight) + (upper * weight).T)


def task_of(source, target, known=None):
    """A task in which only the pairs of `known` look alike, -1 for none."""
    known = np.full(source.shape[0], -1) if known is None else known
    bonus = np.where(known < 0, 0, 0.1)[:, None].astype(np.float32)
    candidate = np.maximum(known, 0)[:, None].astype(np.int32)
    return Task(in_unit(source), in_unit(target), candidate, bonus)


def likeliest(task):
    partner = greedy_assignment(task.candidate, task.bonus, task.target.shape[0])
    partner = filled(partner, task.target.shape[0])
    return Assignment(partner, kept_weight(task, partner))


@pytest.fixture
def task():
    source = random_matrix(30, 0)
    target = random_matrix(30, 1)
    features = torch.rand(2, 30, 4, generator=torch.Generator().manual_seed(2))
    return assignment_task(source, target, Comparable(*features), 0)


def test_kept_weight_is_the_sum_over_edges(task):
    partner = np.random.default_rng(3).permutation(30)
    source, target = task.source.toarray(), task.target.toarray()
    expected = (source * target[partner][:, partner]).sum()
    assert kept_weight(task, partner) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(pulled(task.target, partner).toarray(), target[partner][:, partner])


def test_weights_are_in_units_of_their_root_mean_square(task):
    for matrix in (task.source, task.target):
        assert np.mean(matrix.data.astype(float) ** 2) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(("products", "full"), [(1 << 24, 1e9), (1 << 24, 1e-9), (40, 1e-9)])
@pytest.mark.parametrize("rows", [np.arange(30), np.array([3, 4, 20])])
def test_gains_of_swaps_are_those_of_every_swap(task, rows, products, full, monkeypatch):
    """By dense matrices, by sparse ones, and by a few rows at a time."""
    monkeypatch.setattr(assignment_moves, "_SWAPPED", products)
    monkeypatch.setattr(assignment_moves, "_FULL", full)
    partner = np.random.default_rng(4).permutation(30)
    first, second, gain = swap_gains(task.source, pulled(task.target, partner), rows)
    assert len(gain) > 10
    found = dict(zip(zip(first.tolist(), second.tolist(), strict=True), gain, strict=True))
    before = kept_weight(task, partner)
    for i, k in itertools.combinations(range(30), 2):
        swapped = partner.copy()
        swapped[[i, k]] = partner[[k, i]]
        after = kept_weight(task, swapped)
        if i in rows or k in rows:
            # Nodes without a matched neighbour in common are not looked at: they lose.
            assert max(0, (after - before) / 2) == pytest.approx(found.pop((i, k), 0), abs=1e-4)
    assert not found


def test_swaps_leave_nothing_that_a_swap_could_gain(task):
    start = Assignment(np.arange(30), kept_weight(task, np.arange(30)))
    found = swap(task, start)
    assert found.kept > start.kept
    for i in range(30):
        for k in range(i):
            swapped = found.partner.copy()
            swapped[[i, k]] = found.partner[[k, i]]
            assert kept_weight(task, swapped) < found.kept + 1e-3


@pytest.mark.parametrize("seed", range(40))
def test_swaps_of_one_sweep_do_not_undo_each_other(seed):
    task = task_of(random_matrix(30, seed), random_matrix(30, seed + 1000))
    start = Assignment(np.arange(30), kept_weight(task, np.arange(30)))
    assert swap(task, start, max_sweeps=1).kept > start.kept


def test_moves_give_permutations_and_never_a_worse_one(task):
    start = likeliest(task)
    percolated = percolate(task, start)
    assert percolated.kept >= start.kept
    for found in (start, percolated, soft_start(task), anneal(task, start)):
        assert np.array_equal(np.sort(found.partner), np.arange(30))
        assert found.kept == pytest.approx(kept_weight(task, found.partner))


def test_percolation_spreads_from_a_few_right_pairs():
    source = random_matrix(100, 0, density=0.1, weighted=False)
    hidden = np.random.default_rng(1).permutation(100)
    target = pulled(source, np.argsort(hidden))
    known = np.where(np.arange(100) < 25, hidden, -1)
    task = task_of(source, target, known)
    start = likeliest(task)
    assert 0.25 <= (start.partner == hidden).mean() < 0.5
    assert np.array_equal(percolate(task, start).partner, hidden)
    assert np.array_equal(soft_start(task).partner, hidden)


@pytest.mark.parametrize("sizes", [(12, 12), (9, 12)])
def test_the_assignment_is_the_best_of_all(sizes):
    from scipy.optimize import linear_sum_assignment

    generator = np.random.default_rng(0)
    score = generator.random(sizes) * 5
    task = task_of(*(csr_array((size, size)) for size in sizes))
    fallback = generator.permutation(12)[: sizes[0]]
    found = assignment_moves._assigned(task, csr_array(score), fallback).partner
    rows, columns = linear_sum_assignment(score, maximize=True)
    best = score[rows, columns].sum()
    assert best - 12 / assignment_moves._STEPS <= score[rows, found].sum() <= best
    assert len(set(found)) == sizes[0]


def test_the_fallback_fills_what_has_no_score():
    task = task_of(csr_array((3, 3)), csr_array((4, 4)))
    score = csr_array(([1.0], ([1], [2])), (3, 4))
    found = assignment_moves._assigned(task, score, np.array([3, 1, 0]))
    assert found.partner.tolist() == [3, 2, 0]


def test_columns_without_mass_do_not_count_as_pairs():
    """Where fewer pairs than columns are found, the rest repeat the first node, without mass."""
    task = task_of(csr_array((2, 2)), csr_array((3, 3)))
    column = np.array([[0, 1, 0], [0, 1, 2]], np.int32)
    mass = np.array([[0.6, 0.3, 0], [0.4, 0.3, 0]], np.float32)
    found = assignment_moves.harden(task, Soft(column, mass), np.array([1, 0]))
    assert found.partner.tolist() == [0, 1]


def test_small_graphs_give_every_pair_once():
    """Of twelve nodes, all pairs are fewer than a soft assignment keeps."""
    source = random_matrix(12, 3, density=0.4, weighted=False)
    hidden = np.random.default_rng(1).permutation(12)
    task = task_of(source, pulled(source, np.argsort(hidden)))
    right = Assignment(hidden, kept_weight(task, hidden))
    assert anneal(task, right).kept == pytest.approx(right.kept)


def test_the_mean_of_two_half_right_assignments_is_right():
    source = random_matrix(200, 0, density=0.05, weighted=False)
    hidden = np.random.default_rng(1).permutation(200)
    target = pulled(source, np.argsort(hidden))
    task = task_of(source, target)
    halves = []
    for half in (slice(0, 100), slice(100, 200)):
        partner = hidden.copy()
        partner[half] = np.roll(hidden[half], 1)
        halves.append(Assignment(partner, kept_weight(task, partner)))
    assert np.array_equal(anneal(task, *halves).partner, hidden)


def test_balancing_makes_sums_of_one():
    matrix = csr_array(np.random.default_rng(0).random((12, 12)) + 0.1)
    left, right = balancing(matrix, 1e-300, 1e-300)
    balanced = left[:, None] * matrix.toarray() * right
    np.testing.assert_allclose(balanced.sum(0), 1)
    np.testing.assert_allclose(balanced.sum(1), 1, rtol=1e-3)


def test_soft_rows_have_sums_of_one_and_columns_no_more():
    column = np.random.default_rng(0).integers(0, 12, (20, 5))
    soft = balanced(column, np.random.default_rng(1).random((20, 5)).astype(np.float32), 30)
    arrived = np.bincount(column.reshape(-1), soft.mass.reshape(-1), 30)
    assert arrived.max() < 1.0001
    alone = balanced(np.arange(20).reshape(4, 5), np.ones((4, 5), np.float32), 20, unmatched=5.0)
    np.testing.assert_allclose(alone.mass.sum(1), 0.5)


def test_balancing_never_overflows():
    value = np.array([[1.0, 1e-38], [1.0, 1e-38], [1.0, 1.0]], np.float32)
    soft = balanced(np.array([[0, 1], [0, 1], [0, 2]]), value, 3)
    assert np.isfinite(soft.mass).all()


def test_greedy_takes_the_largest_first():
    column = np.array([[0, 1], [0, 2], [1, 2]])
    value = np.array([[0.9, 0.8], [1.0, 0.1], [0.7, 0.0]])
    assert greedy_assignment(column, value, 3).tolist() == [1, 0, -1]
    assert greedy_assignment(column, -value, 3).tolist() == [-1, -1, -1]
    column, value = np.arange(80)[:, None] // 4, np.tile([[1.0], [3.0]], (40, 1))
    partner = greedy_assignment(column, value, 20)
    assert np.flatnonzero(partner >= 0).tolist() == [*range(1, 80, 4)]  # the first of equals


def test_differences_count_matched_nodes_only():
    path = csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    assert matched_difference(path, path, np.array([2, 1, 0])) == 0
    assert matched_difference(path, path, np.array([0, 2, -1])) == 2
