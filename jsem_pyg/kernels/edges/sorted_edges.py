"""A sorted list of edges: what every backend returns."""

from typing import NamedTuple

from torch import Tensor

from ..csr import CSR


class SortedEdges(NamedTuple):
    """An undirected graph without self-loops, both directions of every edge, as a pattern.

    Index tensors are int32 if that is wide enough.
    """

    csr: CSR  # a slot for every distinct directed edge
    reverse: Tensor  # [nnz] the slot of (j, i) for the slot of (i, j)
    # [E] the edge of the list in each slot; None: they are in order, or some slot has several
    order: Tensor | None
    # [E] the slot of each edge of the list, if some slot has several; else None
    slot: Tensor | None
