import numpy as np
import pytest
from scipy.sparse import csr_array

from jsem_pyg.kernels.candidates import numba_cpu


def graph(size, density, seed):
    rng = np.random.default_rng(seed)
    half = (rng.random((size, size)) * (rng.random((size, size)) < density)).astype(np.float32)
    return csr_array(half + half.T)


def dense(source, target, column, mass, candidate, bonus):
    """The definition, and which pairs have a score."""
    rows = np.arange(source.shape[0])[:, None]
    matched = np.zeros((source.shape[0], target.shape[0]))
    np.add.at(matched, (rows, column), np.maximum(mass, 0))
    total = source.toarray() @ matched @ target.toarray()
    np.add.at(total, (rows, candidate), bonus)
    return total


@pytest.mark.parametrize(
    ("sizes", "density"),
    [
        ((40, 40), 0.1),
        ((30, 50), 0.02),
        ((50, 30), 0.9),
        ((6, 200), 0.5),
        ((200, 6), 0.9),
        ((7, 3), 0.0),
        ((1, 1), 0.0),
    ],
)
def test_scores_are_those_of_the_products(sizes, density):
    rng = np.random.default_rng(1)
    source, target = (graph(size, density, seed) for seed, size in enumerate(sizes))
    count = min(3, sizes[1])
    column = np.stack([rng.permutation(sizes[1])[:count] for _ in range(sizes[0])]).astype(np.int32)
    candidate = np.roll(column, 1, 0)
    mass, bonus = (rng.random(column.shape).astype(np.float32) for _ in range(2))
    mass[::3] = 0
    mass[1::3, 0] = 0
    kept = 8
    found, value = numba_cpu.neighbor_scores(source, target, column, mass, candidate, bonus, kept)
    expected = dense(source, target, column, mass, candidate, bonus)
    assert found.shape == value.shape == (sizes[0], kept)
    assert (value[:, 1:] <= value[:, :-1]).all()
    for row in range(sizes[0]):
        there = found[row] >= 0
        assert np.array_equal(there, value[row] > -np.inf)
        assert len(set(found[row][there])) == there.sum()
        np.testing.assert_allclose(value[row][there], expected[row][found[row][there]], rtol=1e-5)
        best = np.sort(expected[row][expected[row] > 0])[::-1][:kept]
        np.testing.assert_allclose(value[row][: best.size], best, rtol=1e-5)


def test_the_largest_entries_of_a_product():
    rng = np.random.default_rng(0)
    left = csr_array((rng.random((20, 30)) * (rng.random((20, 30)) < 0.1)).astype(np.float32))
    right = csr_array((rng.standard_normal((30, 15))).astype(np.float32))
    offset = rng.standard_normal(15).astype(np.float32)
    offset[3] = -np.inf
    column, value = numba_cpu.top_products(left, right, offset, 5)
    expected = left.toarray() @ right.toarray() + offset
    for row in range(20):
        has_any = np.diff(left.indptr)[row] > 0
        best = np.argsort(-expected[row])[: 5 if has_any else 0]
        assert column[row].tolist() == [*best.tolist(), *[-1] * (5 - len(best))]
        np.testing.assert_allclose(value[row][: len(best)], expected[row][best], rtol=1e-4)
