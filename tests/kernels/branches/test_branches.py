"""The comparison of branches: compiled as by definition, and its sums as counted by hand."""

import numpy as np
import pytest
from kernels.branches import definition
from scipy.sparse import coo_array

from jsem_pyg.kernels.branches import numba_cpu
from jsem_pyg.kernels.branches.graph import Kinds, Pairs, Rates, read_neighbours


def graph(edges, size):
    row, column = np.array(edges, np.int64).reshape(-1, 2).T
    ends = np.concatenate([row, column]), np.concatenate([column, row])
    return coo_array((np.ones(2 * len(row)), ends), (size, size)).tocsr()


def pairs_of(source, target, key):
    row, column = np.divmod(key, len(target.indptr) - 1)
    width = np.diff(source.indptr)[row] * np.diff(target.indptr)[column]
    indptr = np.searchsorted(row, np.arange(len(source.indptr)))
    return Pairs(indptr, column, np.concatenate([[0], np.cumsum(width)]))


PATH = [(0, 1), (1, 2), (2, 3)]
STAR = [(0, leaf) for leaf in range(1, 9)]
HUB = [*STAR[:6], (7, 8)]  # one neighbour more than are matched exactly
TREE = [(0, 1), (0, 2), (2, 3), (2, 4), (4, 5), (5, 0)]
RATES = Rates(0.1, 0.2, 0.7, 1.3)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PATH, TREE),
        (STAR, STAR),
        (STAR, PATH),
        (TREE, STAR),
        (STAR, STAR[:7]),
        (HUB, STAR),
        ([], PATH),
        ([], []),
    ],
)
@pytest.mark.parametrize("share", [1.0, 0.6])
def test_compiled_is_as_defined(first, second, share):
    draw = np.random.default_rng(0)
    source, target = (read_neighbours(graph(each, 9)) for each in (first, second))
    pairs = pairs_of(source, target, np.flatnonzero(draw.random(81) < share))
    message = draw.random(pairs.offset[-1]).astype(np.float32)
    belief = np.exp(8 * draw.normal(size=len(pairs.node)))
    arguments = source, target, pairs, message, belief, RATES
    for found, expected in zip(
        numba_cpu.sweep(*arguments), definition.sweep(*arguments), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_compiled_comparison_of_lists_is_as_defined():
    draw = np.random.default_rng(0)
    known = np.exp(6 * draw.normal(size=(4, 5))).astype(np.float32)
    known[0, 0] = 1e30  # certain
    sides = [
        Kinds(np.concatenate([[0], np.cumsum(width)]), draw.integers(count, size=sum(width)))
        for width, count in (([0, 1, 3, 7, 2], 4), ([2, 0, 8, 1], 5))
    ]
    found = numba_cpu.compare(*sides, known, RATES)
    np.testing.assert_allclose(found, definition.compare(*sides, known, RATES), rtol=2e-5)
    none = Kinds(np.zeros(1, np.int64), np.zeros(0, np.int64))
    for backend in (definition, numba_cpu):
        assert backend.compare(none, sides[1], known, RATES).shape == (0, 4)


@pytest.mark.parametrize("backend", [definition, numba_cpu])
def test_all_partial_matchings_are_summed(backend):
    # Two nodes of two and three neighbours: one way without a match, six of one, six of two.
    source, target = graph(STAR[:2], 9), graph(STAR[:3], 9)
    sides = read_neighbours(source), read_neighbours(target)
    pairs = pairs_of(*sides, np.arange(81))
    message = np.ones(pairs.offset[-1], np.float32)
    score, following = backend.sweep(*sides, pairs, message, np.ones(81), RATES)
    s, t, w, b = RATES
    ways = [s**2 * t**3, 6 * w * s * t**2, 6 * w**2 * t]
    assert score[0] == pytest.approx(b * sum(ways))
    assert following[:6] == pytest.approx(b * (s * t**2 + 2 * w * t) / score[0])
    assert score[80] == pytest.approx(b)  # neither has a neighbour


def test_an_edge_names_the_place_of_its_other_end():
    neighbours = read_neighbours(graph(TREE, 6))
    row = np.repeat(np.arange(6), np.diff(neighbours.indptr))
    back = neighbours.indptr[neighbours.node] + neighbours.back
    np.testing.assert_array_equal(neighbours.node[back], row)
