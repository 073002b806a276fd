"""Renamed copies: find the renaming if two weighted graphs are the same graph.

Nodes get colours, at first the sizes of their components. A node's new colour
depends on its own and on the weights and colours of its neighbours (colour refinement); two nodes
of different colours cannot be partners. If a colour has several nodes, as all of a cycle have, the
first ones of both sides are paired, and the colours are refined again. That is right if these nodes
are alike; between regular graphs they need not be, and nothing is found.

Source: McKay and Piperno, "Practical graph isomorphism, II", Journal of Symbolic Computation 60,
2014, section 2.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array
from scipy.sparse.csgraph import connected_components

from .assignment import pulled

Array = NDArray[Any]

MOST_REFINING = 1 << 26  # edges that all refinements visit
MARKED_ROUNDS = 16  # of refinements of marked graphs, which visit no more edges


def find_isomorphism(source: csr_array, target: csr_array) -> Array | None:
    """Find partners [N] of all nodes with which the graphs are equal, weights included.

    None if there is none, or if colours do not show it. Matrices are symmetric, without stored
    zeros.
    """
    if source.shape != target.shape or source.nnz != target.nnz:
        return None
    size = source.shape[0]
    (graph, colour), work = _coloured(block_diag([source, target], format="csr")), 0
    while work <= MOST_REFINING:
        colour, label, rounds = _refined(graph, colour)
        work += rounds * (graph.nnz + 2 * size)
        count, other = (np.bincount(each, minlength=label.max() + 1) for each in np.split(label, 2))
        if np.any(count != other):
            break
        partner = np.empty(size, np.int64)
        partner[label[:size].argsort(kind="stable")] = label[size:].argsort(kind="stable")
        if (source != pulled(target, partner)).nnz == 0:
            return partner
        if count.max() == 1:
            break
        rarest = np.where(count > 1, count, size + 1).argmin()
        for side in (slice(size), slice(size, None)):
            colour[side][np.flatnonzero(label[side] == rarest)[0]] ^= np.uint64(1)
    return None


def count_alike(graph: csr_array, known: Any = ()) -> Array:
    """Count the nodes [N] that a node cannot be told from, itself included, if some are known.

    Of nodes of one colour, each is marked, and colours are refined again: marked graphs of nodes
    that are not alike differ. In large graphs, all nodes of one colour count.
    """
    edges, colour = _coloured(graph)
    colour[np.asarray(known, int)] = np.arange(len(known)) + len(colour) + 1
    colour, label, _ = _refined(edges, colour)
    several = np.flatnonzero(np.bincount(label)[label] > 1)
    if several.size * MARKED_ROUNDS * (graph.nnz + label.size) <= MOST_REFINING:
        marked = colour[:, None] ^ (np.arange(len(colour))[:, None] == several).astype(np.uint64)
        for _ in range(MARKED_ROUNDS):
            marked = _next_colours(edges, marked)
        colour[several] = _mixed(marked).sum(0)
        label = np.unique(colour, return_inverse=True)[1]
    return np.bincount(label)[label]


def _coloured(graph: csr_array) -> tuple[csr_array, Array]:
    """Make colours of weights, and of the sizes of components: [N, N] and [N]."""
    code = _mixed(graph.data.astype(np.float64).view(np.uint64)) | np.uint64(1)
    _, part = connected_components(graph, directed=False)
    colour = np.bincount(part, minlength=1)[part].astype(np.uint64)
    return csr_array((code, graph.indices, graph.indptr), graph.shape), colour


def _refined(graph: csr_array, colour: Array) -> tuple[Array, Array, int]:
    """Split colours [N] by those of neighbours until nothing changes: also as numbers; rounds."""
    found, rounds = 0, 0
    while True:
        values, label = np.unique(colour, return_inverse=True)
        rounds += 1
        if values.size in (found, label.size):
            return colour, label, rounds
        found, colour = values.size, _next_colours(graph, colour)


def _next_colours(graph: csr_array, colour: Array) -> Array:
    """Join the colours of a node and of its neighbours, modulo 2^64: equal ones stay equal."""
    own = _mixed(colour)
    return own * np.uint64(3) + graph @ own


def _mixed(colour: Array) -> Array:
    """Scatter 64-bit numbers: sums of them differ if their terms do (SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        colour = (colour ^ (colour >> np.uint64(shift))) * np.uint64(factor)
    return colour
