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


def find_isomorphism(source: csr_array, target: csr_array) -> Array | None:
    """Find partners [N] of all nodes with which the graphs are equal, weights included.

    None if there is none, or if colours do not show it. Matrices are symmetric, without stored
    zeros.
    """
    if source.shape != target.shape or source.nnz != target.nnz:
        return None
    size = source.shape[0]
    both = block_diag([source, target], format="csr")
    weight, code = np.unique(both.data, return_inverse=True)
    generator = np.random.default_rng(0)
    code = _random(generator, weight.size)[code]
    graph = csr_array((code, both.indices, both.indptr), both.shape)
    _, part = connected_components(both, directed=False)
    colour, work = np.bincount(part)[part], 0
    while work <= MOST_REFINING:
        colour, count, rounds = _refined(graph, colour, generator)
        work += rounds * (graph.nnz + 2 * size)
        if count is None:
            break
        partner = np.empty(size, np.int64)
        partner[colour[:size].argsort(kind="stable")] = colour[size:].argsort(kind="stable")
        if (source != pulled(target, partner)).nnz == 0:
            return partner
        if count.max() == 1:
            break
        rarest = np.where(count > 1, count, size + 1).argmin()
        for side in (colour[:size], colour[size:]):
            side[np.flatnonzero(side == rarest)[0]] = colour.size
    return None


def _random(generator: np.random.Generator, count: int) -> Array:
    """Draw odd 64-bit numbers: their sums differ if the terms do."""
    return generator.integers(0, 1 << 63, count, np.uint64) * np.uint64(2) + np.uint64(1)


def _refined(
    graph: csr_array, colour: Array, generator: np.random.Generator
) -> tuple[Array, Array | None, int]:
    """Split colours [2 N] by the colours of neighbours until nothing changes.

    Returns the colours, the number of nodes of a side with each colour (None once the sides differ
    in them: they are no copies), and the rounds.
    """
    size = colour.size // 2
    found, rounds = 0, 0
    while True:
        values, colour = np.unique(colour, return_inverse=True)
        rounds += 1
        count, other = (np.bincount(side, minlength=values.size) for side in np.split(colour, 2))
        if np.any(count != other):
            return colour, None, rounds
        if values.size in (found, size):
            return colour, count, rounds
        found = values.size
        own = _random(generator, found)[colour]
        colour = own * np.uint64(3) + graph @ own  # modulo 2^64
