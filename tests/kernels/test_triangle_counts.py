import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from jsem_pyg.kernels.triangles import reference, reverse_slots, square_counts, triangle_sums


def random_csr(seed, num_nodes, density):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((num_nodes, num_nodes)) < density, 1)
    adjacency = upper | upper.T
    matrix = csr_array(adjacency.astype(float))
    values = rng.random((num_nodes, num_nodes))
    values = values + values.T
    col = matrix.indices.astype(np.int64)
    row = np.repeat(np.arange(num_nodes), np.diff(matrix.indptr))
    return adjacency, values, matrix.indptr.astype(np.int64), row, col


@pytest.fixture(params=[1, 10, 1 << 21], ids=["chunk1", "chunk10", "one-chunk"])
def _chunk(request, monkeypatch):
    monkeypatch.setattr(reference, "_CHUNK_NEIGHBORS", request.param)


CASES = [(1, 0.0), (2, 1.0), (9, 0.5), (20, 0.2), (20, 0.7), (12, 1.0)]


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize(("num_nodes", "density"), CASES)
def test_triangle_sums_equal_a_loop_over_triangles(num_nodes, density):
    adjacency, values, rowptr, row, col = random_csr(0, num_nodes, density)
    count, total = np.zeros((num_nodes, num_nodes), int), np.zeros((num_nodes, num_nodes))
    for i, j, k in itertools.permutations(range(num_nodes), 3):
        if adjacency[i, j] and adjacency[i, k] and adjacency[j, k]:
            count[i, j] += 1
            total[i, j] += values[i, k] + values[j, k]
    got_count, got_total = triangle_sums(rowptr, col, values[row, col])
    np.testing.assert_array_equal(got_count, count[row, col])
    np.testing.assert_allclose(got_total, total[row, col], rtol=1e-12)


@pytest.mark.usefixtures("_chunk")
@pytest.mark.parametrize(("num_nodes", "density"), CASES)
def test_square_counts_equal_the_definition(num_nodes, density):
    _, _, rowptr, row, col = random_csr(1, num_nodes, density)
    near = [set(col[rowptr[i] : rowptr[i + 1]].tolist()) for i in range(num_nodes)]
    got_count, got_largest = square_counts(rowptr, col)
    for slot, (i, j) in enumerate(zip(row.tolist(), col.tolist(), strict=True)):
        c = [len((near[j] & near[k]) - near[i] - {i}) for k in near[i] - near[j] - {j}]
        if min(len(near[i]), len(near[j])) == 1:
            c = []
        assert got_count[slot] == sum(value > 0 for value in c)
        assert got_largest[slot] == max(c, default=0)


def test_reverse_slots():
    _, _, _, row, col = random_csr(2, 15, 0.4)
    reverse = reverse_slots(col)
    np.testing.assert_array_equal(row[reverse], col)
    np.testing.assert_array_equal(col[reverse], row)
