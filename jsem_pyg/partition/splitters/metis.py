"""Multilevel bisection by METIS: few edges are cut."""

import numpy as np

from .block import Array, Block, cut

# METIS counts weights in 32 bits.
_TOTAL_WEIGHT = 1 << 30


def split(block: Block, share: float) -> Array:
    """See :data:`.block.Splitter`.

    Source: Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
    graphs", SIAM Journal on Scientific Computing 20 (1998).
    """
    import pymetis

    size, adjacency = block.cost.size, block.adjacency
    in_sequence = cut(np.arange(size), block.cost, share)
    if adjacency.nnz == 0:
        return in_sequence
    scale = _TOTAL_WEIGHT / block.cost.sum()
    index = pymetis.zero_copy_dtype()
    _, part = pymetis.part_graph(
        2,
        pymetis.CSRAdjacency(adjacency.indptr.astype(index), adjacency.indices.astype(index)),
        vweights=np.maximum(np.rint(block.cost * scale), 1).astype(index),
        tpwgts=[share, 1 - share],
        recursive=True,
        options=pymetis.Options(seed=0),
    )
    first = np.asarray(part) == 0
    # In a block of a few nodes METIS may leave a side empty.
    return first if 0 < np.count_nonzero(first) < size else in_sequence
