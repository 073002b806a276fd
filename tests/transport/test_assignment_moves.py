import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from jsem_pyg.transport.edges import moves as assignment_moves
from jsem_pyg.transport.edges.moves import (
    Assignment,
    anneal,
    assignment_task,
    balancing,
    greedy,
    greedy_assignment,
    kept_weight,
    matched_difference,
    percolate,
    pulled,
    soft_start,
    swap,
    swap_gains,
)


def random_matrix(size, seed, density=0.2, weighted=True):
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.random((size, size)) < density, 1)
    weight = np.triu(generator.random((size, size)), 1) if weighted else 1.0
    return csr_array((upper * weight) + (upper * weight).T)


@pytest.fixture
def task():
    source = random_matrix(30, 0)
    target = random_matrix(30, 1)
    distance = torch.rand(30, 30, generator=torch.Generator().manual_seed(2))
    return assignment_task(source, target, distance, distance.shape)


def test_kept_weight_is_the_sum_over_edges(task):
    partner = np.random.default_rng(3).permutation(30)
    source, target = task.source.toarray(), task.target.toarray()
    expected = (source * target[partner][:, partner]).sum()
    assert kept_weight(task, partner) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(pulled(task.target, partner).toarray(), target[partner][:, partner])


def test_weights_are_in_units_of_their_root_mean_square(task):
    for matrix in (task.source, task.target):
        assert np.mean(matrix.data.astype(float) ** 2) == pytest.approx(1, rel=1e-5)


def test_gains_of_swaps_are_exact(task):
    partner = np.random.default_rng(4).permutation(30)
    first, second, gain = swap_gains(task.source, pulled(task.target, partner))
    assert len(gain) > 100
    before = kept_weight(task, partner)
    for i, k, expected in list(zip(first, second, gain, strict=True))[::29]:
        swapped = partner.copy()
        swapped[[i, k]] = partner[[k, i]]
        after = kept_weight(task, swapped)
        assert (after - before) / 2 == pytest.approx(0 if i == k else expected, abs=1e-4)


def test_swaps_leave_nothing_that_a_swap_could_gain(task):
    start = Assignment(np.arange(30), kept_weight(task, np.arange(30)))
    found = swap(task, start)
    assert found.kept > start.kept
    for i in range(30):
        for k in range(i):
            swapped = found.partner.copy()
            swapped[[i, k]] = found.partner[[k, i]]
            assert kept_weight(task, swapped) < found.kept + 1e-3


def test_moves_give_permutations_and_never_a_worse_one(task):
    start = greedy(task)
    percolated = percolate(task, start)
    assert percolated.kept >= start.kept
    for found in (start, percolated, soft_start(task), anneal(task, start)):
        assert np.array_equal(np.sort(found.partner), np.arange(30))
        assert found.kept == pytest.approx(kept_weight(task, found.partner))


def test_percolation_spreads_from_a_few_right_pairs():
    source = random_matrix(100, 0, density=0.1, weighted=False)
    hidden = np.random.default_rng(1).permutation(100)
    target = pulled(source, np.argsort(hidden))
    distance = torch.ones(100, 100)
    distance[np.arange(25), hidden[:25]] = 0
    task = assignment_task(source, target, distance, distance.shape)
    start = greedy(task)
    assert 0.25 <= (start.partner == hidden).mean() < 0.5
    assert np.array_equal(percolate(task, start).partner, hidden)
    assert np.array_equal(soft_start(task).partner, hidden)


@pytest.mark.parametrize("sizes", [(12, 12), (9, 12), (12, 7)])
def test_the_assignment_is_the_best_of_all(sizes):
    from scipy.optimize import linear_sum_assignment

    generator = np.random.default_rng(0)
    score = np.zeros((12, 12))
    score[: sizes[0], : sizes[1]] = generator.random(sizes) * 5
    empty = csr_array((12, 12))
    task = assignment_task(empty, empty, torch.zeros(12, 12), sizes)
    found = assignment_moves._assign(task, csr_array(score).tocoo(), generator.permutation(12))
    rows, columns = linear_sum_assignment(score, maximize=True)
    best = score[rows, columns].sum()
    assert best - 12 / assignment_moves._STEPS <= score[np.arange(12), found].sum() <= best
    assert np.array_equal(np.sort(found), np.arange(12))


def test_the_mean_of_two_half_right_assignments_is_right():
    source = random_matrix(200, 0, density=0.05, weighted=False)
    hidden = np.random.default_rng(1).permutation(200)
    target = pulled(source, np.argsort(hidden))
    task = assignment_task(source, target, torch.ones(200, 200), (200, 200))
    halves = []
    for half in (slice(0, 100), slice(100, 200)):
        partner = hidden.copy()
        partner[half] = np.roll(hidden[half], 1)
        halves.append(Assignment(partner, kept_weight(task, partner)))
    assert np.array_equal(anneal(task, *halves).partner, hidden)


def test_balancing_makes_sums_of_one():
    matrix = csr_array(np.random.default_rng(0).random((12, 12)) + 0.1)
    left, right = balancing(matrix, 1e-300)
    balanced = left[:, None] * matrix.toarray() * right
    np.testing.assert_allclose(balanced.sum(0), 1)
    np.testing.assert_allclose(balanced.sum(1), 1, rtol=1e-3)


def test_balancing_never_overflows():
    value = torch.tensor([[1.0, 1e-38], [1.0, 1e-38], [1.0, 1.0]])
    column = torch.tensor([[0, 1], [0, 1], [0, 2]])
    balanced = assignment_moves._balanced(value, column)
    assert np.isfinite(balanced.data).all()


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
