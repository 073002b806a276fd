import numpy as np
import pytest
import torch
from scipy.sparse import block_diag, csr_array

from jsem_pyg.transport import match_graphs
from jsem_pyg.transport.edges.moves import Assignment, Task, anneal, in_unit, kept_weight
from jsem_pyg.transport.edges.parts import best_parts, open_nodes


def random_matrix(draw, size, density, weighted):
    upper = np.triu(draw.random((size, size)) < density, 1)
    weight = draw.random((size, size)) if weighted else 1.0
    return csr_array((upper * weight) + (upper * weight).T)


def assigned(task, partner):
    return Assignment(partner, kept_weight(task, partner))


def task_of(source, target):
    nothing = np.zeros((source.shape[0], 1))
    return Task(
        in_unit(source), in_unit(target), nothing.astype(np.int32), nothing.astype(np.float32)
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_of_graphs_side_by_side_each_is_taken_from_the_better(seed, weighted):
    draw = np.random.default_rng(seed)
    sizes = [8, 1, 12, 2, 10]
    sides = [[random_matrix(draw, size, 0.4, weighted) for size in sizes] for _ in range(2)]
    source, target = (csr_array(block_diag(each)) for each in sides)
    task = task_of(source, target)
    starts = np.cumsum([0, *sizes[:-1]])
    drawn = [[draw.permutation(size) for size in sizes] for _ in range(2)]
    first, second = (
        np.concatenate([each + start for each, start in zip(some, starts, strict=True)])
        for some in drawn
    )
    found = best_parts(task, assigned(task, first), assigned(task, second))
    best = 0.0
    for start, size, *permutations in zip(starts, sizes, *drawn, strict=True):
        part = slice(start, start + size)
        one, other = (task[side][part, part].toarray() for side in (0, 1))
        best += max((one * other[p][:, p]).sum() for p in permutations)
    # More, where a part of one graph changes alone.
    assert found.kept >= best * (1 - 1e-5)
    assert sorted(found.partner) == list(range(sum(sizes)))


@pytest.mark.parametrize("more", [0, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_parts_that_change_alone_are_taken_alone(weighted, more):
    """Of swaps of distant pairs of nodes, those that gain are taken, and no others."""
    for seed in range(20):
        draw = np.random.default_rng(seed)
        source = random_matrix(draw, 60, 0.05, weighted)
        task = task_of(source, random_matrix(draw, 60 + more, 0.05, weighted))
        first = draw.permutation(60 + more)[:60]
        second = first.copy()
        changed = draw.permutation(60)[:12]
        second[changed] = second[np.roll(changed, 1)]
        if more:
            free = np.setdiff1d(np.arange(60 + more), first)
            second[changed[:3]] = free[:3]
        sides = assigned(task, first), assigned(task, second)
        found, turned = best_parts(task, *sides), best_parts(task, *sides[::-1])
        assert len(set(found.partner)) == 60
        assert ((found.partner == first) | (found.partner == second)).all()
        assert found.kept == pytest.approx(kept_weight(task, found.partner), rel=1e-6)
        assert found.kept >= max(each.kept for each in sides)
        assert found.kept == pytest.approx(turned.kept, rel=1e-5)


def test_mistakes_in_different_places_are_mended():
    mended = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        source = random_matrix(draw, 300, 0.01, False)
        task = task_of(source, source)
        pairs = draw.permutation(300)[:12].reshape(-1, 2)
        sides = [np.arange(300), np.arange(300)]
        for number, pair in enumerate(pairs):
            sides[number % 2][pair] = pair[::-1]
        found = best_parts(task, *(assigned(task, each) for each in sides))
        mended += found.kept == source.nnz
    assert mended > 10


def test_no_partner_is_given_twice():
    for seed in range(100):
        draw = np.random.default_rng(seed)
        task = task_of(random_matrix(draw, 8, 0.15, False), random_matrix(draw, 12, 0.15, False))
        sides = (assigned(task, draw.permutation(12)[:8]) for _ in range(2))
        assert len(set(best_parts(task, *sides).partner)) == 8


def test_a_free_partner_is_taken_alone():
    """Node 0 finds an edge at the free node 6, and node 1 would lose its own at the free node 7."""
    source = csr_array((np.ones(4), ([0, 2, 1, 3], [2, 0, 3, 1])), (4, 4))
    target = csr_array((np.ones(4), ([6, 2, 1, 3], [2, 6, 3, 1])), (8, 8))
    task = task_of(source, target)
    first, second = np.arange(4), np.array([6, 7, 2, 3])
    found = best_parts(task, assigned(task, first), assigned(task, second))
    assert found.partner.tolist() == [6, 1, 2, 3]


def test_who_takes_a_partner_drives_its_holder_away():
    """Node 1 finds an edge at the partner of node 0, which then loses its own."""
    source = csr_array((np.ones(4), ([1, 2, 0, 3], [2, 1, 3, 0])), (4, 4))
    target = csr_array((np.ones(4), ([0, 2, 0, 3], [2, 0, 3, 0])), (8, 8))
    task = task_of(source, target)
    sides = (assigned(task, np.array(each)) for each in ([0, 1, 2, 3], [7, 0, 2, 3]))
    assert best_parts(task, *sides).partner.tolist() == [0, 1, 2, 3]


def test_open_nodes_are_near_edges_that_are_not_kept():
    path = csr_array(np.eye(8, k=1) + np.eye(8, k=-1))
    target = path.copy().tolil()
    target[0, 1] = target[1, 0] = 0
    target[1, 3] = target[3, 1] = 1
    task = task_of(path, csr_array(target))
    partner = np.arange(8)
    # 1 has two edges on both sides, and one of them in common. 0 has none that could be kept.
    assert open_nodes(task, partner).tolist() == [0, 1, 2]
    believed = partner != 7
    assert open_nodes(task, partner, believed).tolist() == [0, 1, 2, 7]
    assert open_nodes(task_of(path, path), partner).tolist() == list(range(8))


def test_annealing_of_some_rows_leaves_the_others():
    draw = np.random.default_rng(0)
    task = task_of(*(random_matrix(draw, 40, 0.15, False) for _ in range(2)))
    start = assigned(task, draw.permutation(40))
    rows = np.arange(5, 20)
    found = anneal(task, start, rows=rows)
    changed = np.flatnonzero(found.partner != start.partner)
    assert len(changed) > 0
    assert set(found.partner) == set(range(40))
    # What is not annealed holds its partner against all but those that are likelier.
    assert np.isin(changed, rows).mean() > 0.5


def test_distant_parts_of_one_pair_are_both_found():
    """Two copies side by side, of which an assignment has one right each."""
    draw = np.random.default_rng(3)
    one = random_matrix(draw, 40, 0.1, False)
    both = csr_array(block_diag([one, one]))
    edge_index = torch.from_numpy(np.stack(both.tocoo().coords).astype(np.int64))
    task = task_of(both, both)
    right, wrong = np.arange(40), draw.permutation(40)
    first = assigned(task, np.concatenate([right, 40 + wrong]))
    second = assigned(task, np.concatenate([wrong, 40 + right]))
    found = best_parts(task, first, second)
    assert np.array_equal(found.partner, np.arange(80))
    assert match_graphs(edge_index, edge_index).cost == 0
