"""Input of the comparison of branches: two graphs, and pairs of their nodes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[Any]

EXACT = 5  # neighbours of the side that has fewer, up to which all matchings are summed
CERTAIN = 1e10  # the largest likelihood ratio that a neighbour adds
LEAST = 1e-280  # of a score
SMALLEST = 1e-37  # of one in float32


class Neighbours(NamedTuple):
    """The neighbours of each node, sorted."""

    indptr: Array  # [N + 1] int64
    node: Array  # [E] int64
    back: Array  # [E] int64, where the edge's other end has this node among its neighbours


class Pairs(NamedTuple):
    """Pairs of nodes, sorted by the first, then the second."""

    indptr: Array  # [N + 1] int64
    node: Array  # [M] int64, the second
    offset: Array  # [M + 1] int64, where the messages of each pair begin


class Kinds(NamedTuple):
    """Lists of kinds of branches: of the branches at a node, or behind an edge."""

    indptr: Array  # [L + 1] int64
    kind: Array  # [M] int64


class Rates(NamedTuple):
    """Probabilities that edges of a true pair differ."""

    source: float  # chance that an edge of the source is missing in the target
    target: float  # and the other way round
    match: float  # likelihood ratio of one matched neighbour, before its own surroundings
    base: float  # and of having none at all


def read_neighbours(matrix: csr_array) -> Neighbours:
    """Read the neighbours of a symmetric matrix [N, N]."""
    matrix = matrix.sorted_indices()
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    place = np.arange(len(row)) - matrix.indptr[row]
    reverse = np.lexsort((row, matrix.indices))
    indptr, node = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    return Neighbours(indptr, node, place[reverse])
