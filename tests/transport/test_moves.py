import itertools

import numpy as np
import pytest
import torch
from scipy.sparse import block_diag, csr_array

from jsem_pyg.transport.match import moves
from jsem_pyg.transport.match.assignment import (
    Assignment,
    Task,
    best_assignment,
    filled,
    greedy_partners,
    in_unit,
    kept_weight,
    make_task,
    pulled,
)
from jsem_pyg.transport.match.moves import best_parts, percolate, swap, swap_gains
from jsem_pyg.transport.match.soft import anneal, soft_start
from jsem_pyg.transport.profiles import Comparable


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


def assigned(task, partner):
    return Assignment(partner, kept_weight(task, partner))


def likeliest(task):
    partner = greedy_partners(task.candidate, task.bonus, task.target.shape[0])
    partner = filled(partner, task.target.shape[0])
    return Assignment(partner, kept_weight(task, partner))


@pytest.fixture
def task():
    source = random_matrix(30, 0)
    target = random_matrix(30, 1)
    features = torch.rand(2, 30, 4, generator=torch.Generator().manual_seed(2))
    return make_task(source, target, Comparable(*features), 0)


def test_kept_weight_is_the_sum_over_edges(task):
    partner = np.random.default_rng(3).permutation(30)
    source, target = task.source.toarray(), task.target.toarray()
    expected = (source * target[partner][:, partner]).sum()
    assert kept_weight(task, partner) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(pulled(task.target, partner).toarray(), target[partner][:, partner])


@pytest.mark.parametrize("changes", [{}, {"DENSE_SPEED": 10**9}, {"BLOCK": 40}])
@pytest.mark.parametrize("rows", [np.arange(30), np.array([3, 4, 20])])
def test_gains_of_swaps_are_those_of_every_swap(task, rows, changes, monkeypatch):
    """By sparse matrices, by dense ones, and by a few rows at a time."""
    for name, value in changes.items():
        monkeypatch.setattr(moves, name, value)
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
    found = best_assignment(task, csr_array(score), fallback).partner
    rows, columns = linear_sum_assignment(score, maximize=True)
    best = score[rows, columns].sum()
    assert best - 0.01 <= score[rows, found].sum() <= best
    assert len(set(found)) == sizes[0]


@pytest.mark.parametrize("seed", range(4))
def test_of_graphs_side_by_side_each_is_taken_from_the_better(seed):
    draw, sizes = np.random.default_rng(seed), [8, 1, 12, 2, 10]
    source, target = (
        csr_array(block_diag([random_matrix(n, 10 * seed + n + side, 0.4) for n in sizes]))
        for side in (0, 100)
    )
    task, starts = task_of(source, target), np.cumsum([0, *sizes[:-1]])
    drawn = [[draw.permutation(size) for size in sizes] for _ in range(2)]
    first, second = (
        assigned(
            task, np.concatenate([each + start for each, start in zip(some, starts, strict=True)])
        )
        for some in drawn
    )
    found = best_parts(task, first, second)
    best = 0.0
    for start, size, *permutations in zip(starts, sizes, *drawn, strict=True):
        part = slice(start, start + size)
        one, other = (task[side][part, part].toarray() for side in (0, 1))
        best += max((one * other[p][:, p]).sum() for p in permutations)
    assert found.kept >= best * (1 - 1e-5)  # more, if a part of one graph changes alone
    assert sorted(found.partner) == list(range(sum(sizes)))


@pytest.mark.parametrize("more", [0, 7])
def test_parts_that_change_alone_are_taken_alone(more):
    """Of swaps of distant pairs of nodes, those that gain are taken, and no others."""
    for seed in range(10):
        draw = np.random.default_rng(seed)
        task = task_of(random_matrix(60, seed, 0.05), random_matrix(60 + more, seed + 50, 0.05))
        first = draw.permutation(60 + more)[:60]
        second = first.copy()
        changed = draw.permutation(60)[:12]
        second[changed] = second[np.roll(changed, 1)]
        if more:
            second[changed[:3]] = np.setdiff1d(np.arange(60 + more), first)[:3]
        sides = assigned(task, first), assigned(task, second)
        found, turned = best_parts(task, *sides), best_parts(task, *sides[::-1])
        assert len(set(found.partner)) == 60
        assert ((found.partner == first) | (found.partner == second)).all()
        assert found.kept == pytest.approx(kept_weight(task, found.partner), rel=1e-6)
        assert found.kept >= max(each.kept for each in sides)
        assert found.kept == pytest.approx(turned.kept, rel=1e-5)


def test_who_takes_a_partner_drives_its_holder_away():
    """Node 1 finds an edge at the partner of node 0, which then loses its own."""
    source = csr_array((np.ones(4), ([1, 2, 0, 3], [2, 1, 3, 0])), (4, 4))
    target = csr_array((np.ones(4), ([0, 2, 0, 3], [2, 0, 3, 0])), (8, 8))
    task = task_of(source, target)
    sides = (assigned(task, np.array(each)) for each in ([0, 1, 2, 3], [7, 0, 2, 3]))
    assert best_parts(task, *sides).partner.tolist() == [0, 1, 2, 3]
