import numpy as np
import pytest
from scipy.sparse import csr_array

from jsem_pyg.kernels.candidates import numba_cpu


def sparse(rng, rows, columns, density):
    kept = rng.random((rows, columns)) < density
    return csr_array((rng.random((rows, columns)) * kept).astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "density"),
    [
        ((40, 50, 40), 0.1),
        ((30, 30, 50), 0.02),
        ((50, 30, 30), 0.9),
        ((6, 6, 200), 0.5),
        ((200, 200, 6), 0.9),
        ((7, 3, 3), 0.0),
        ((1, 1, 1), 0.0),
    ],
)
@pytest.mark.parametrize("count", [0, 3])
def test_largest_entries_are_those_of_the_product(shape, density, count):
    rng = np.random.default_rng(1)
    (rows, middle, columns), kept = shape, 8
    left, right = sparse(rng, rows, middle, density), sparse(rng, middle, columns, density)
    offset = -rng.random(columns).astype(np.float32)
    offset[columns // 2 :][:1] = -np.inf
    count = min(count, columns)
    candidate = np.stack([rng.permutation(columns)[:count] for _ in range(rows)]).astype(np.int32)
    bonus = rng.random(candidate.shape).astype(np.float32)
    found, value = numba_cpu.top_products(left, right, offset, candidate, bonus, kept)
    expected = left.toarray() @ right.toarray() + offset
    has = (left != 0).toarray() @ (right != 0).toarray() > 0
    each = np.arange(rows)[:, None]
    expected[each, candidate] += bonus
    has[each, candidate] = True
    expected = np.where(has, expected, -np.inf)
    best = -np.sort(-expected, 1)[:, :kept]
    np.testing.assert_allclose(value[:, : best.shape[1]], best, rtol=1e-4, atol=1e-6)
    assert np.array_equal(found >= 0, value > -np.inf)
    for row in range(rows):
        there = found[row] >= 0
        assert len(set(found[row][there])) == there.sum()
        np.testing.assert_allclose(
            expected[row][found[row][there]], value[row][there], rtol=1e-4, atol=1e-6
        )


def test_largest_entries_of_a_matrix():
    score = np.random.default_rng(0).standard_normal((20, 15)).astype(np.float32)
    column, value = numba_cpu.largest(score, 5)
    assert np.array_equal(column, np.argsort(-score, 1)[:, :5])
    assert np.array_equal(value, -np.sort(-score, 1)[:, :5])
    column, value = numba_cpu.largest(score[:, :2], 5)
    assert (column[:, 2:] == -1).all()
    assert (value[:, 2:] == -np.inf).all()
