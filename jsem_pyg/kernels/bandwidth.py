"""The order of rows in which neighbours lie within a band."""

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .csr import CSR, RowOrder, given_order, scipy_indices

_log = logging.getLogger(__name__)

Array = NDArray[Any]


def bandwidth_order(csr: CSR) -> RowOrder:
    """Return the nodes in reverse Cuthill-McKee order: neighbours within a band.

    Source: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969.
    """
    if csr.base is not None:
        return csr.base.derived(bandwidth_order)
    if csr.num_slots == 0:
        return given_order(csr)
    ones, size = np.ones(csr.num_slots, np.int8), csr.num_rows
    adjacency = csr_array((ones, *scipy_indices(csr)), shape=(size, size))
    # The reversal comes as a view with a negative stride, which torch does not take, and which
    # NumPy calls contiguous where there is a single node: so a copy in any case.
    node = reverse_cuthill_mckee(adjacency, symmetric_mode=True).astype(np.int32, order="C")
    return row_order(node)


def row_order(node: Array) -> RowOrder:
    """Return an order of the nodes [N] with its inverse."""
    _log.info("Ordering %d nodes, so that neighbours lie close in memory.", node.size)
    place = np.empty_like(node)
    place[node] = np.arange(node.size, dtype=node.dtype)
    return RowOrder(torch.from_numpy(node), torch.from_numpy(place))
