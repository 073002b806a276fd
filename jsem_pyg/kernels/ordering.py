"""Rows in an order in which neighbours come close after one another."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from .csr import CSR, index_dtype

Array = NDArray[Any]


def scipy_indices(csr: CSR) -> tuple[Array, Array]:
    """The columns and row pointers as SciPy's graph routines want them: both int32 if they fit.

    SciPy 1.11.1 and 1.11.2 find wrong components, silently, where the two differ in type.
    """
    narrow = np.int32 if index_dtype(csr.num_rows, csr.num_slots) == torch.int32 else np.int64
    return tuple(each.cpu().numpy().astype(narrow, copy=False) for each in (csr.col, csr.rowptr))  # type: ignore[return-value]


class RowOrder(NamedTuple):
    """An order of the rows of a symmetric pattern, and its inverse."""

    node: Tensor  # [N] the node that each place stands for
    place: Tensor  # [N] the place of each node


def bandwidth_order(csr: CSR) -> RowOrder:
    """The nodes of a symmetric pattern in reverse Cuthill-McKee order, int32 on the CPU.

    Rows that are gathered together are then often in a cache already. Take it by
    ``csr.derived(bandwidth_order)``, so that it is made once.

    Source: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969.
    """
    size = csr.num_rows
    node = np.arange(size, dtype=np.int32)
    if csr.num_slots:
        ones = np.ones(csr.num_slots, np.int8)
        matrix = csr_array((ones, *scipy_indices(csr)), shape=(size, size))
        # The reversal comes as a view with a negative stride, which torch does not take, and which
        # NumPy calls contiguous where there is a single node: so a copy, whatever it is.
        node = reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int32, order="C")
    place = np.empty(size, np.int32)
    place[node] = np.arange(size, dtype=np.int32)
    return RowOrder(torch.from_numpy(node), torch.from_numpy(place))
