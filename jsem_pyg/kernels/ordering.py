"""Rows in an order in which neighbours come close after one another, where that pays.

A kernel gathers the rows of a node's neighbours. In an order in which these were gathered a short
while ago, for other nodes, they are in a cache still. Which order a call works in is decided here,
by what it gathers and by the pattern, not by what happened before: the same call gives the same
bits in any process.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from .csr import CSR, index_dtype
from .table import numba_obstacle

_log = logging.getLogger(__name__)

Array = NDArray[Any]

# A copy of the gathered rows that is no larger stays in the L2 cache of a core, in any order.
_CACHE_BYTES = 1 << 20

# Training is taken to go on for so many epochs.
_EPOCHS = 10

# Rows that a first-level cache holds, with what they gather.
_WINDOW = 1024
_MOST_WINDOWS = 16

# Nanoseconds of a core for a gathered row of 128 bytes that no row of the window has gathered
# before: in forward and in backward passes. From examples/benchmarks/ordering.py on an idle machine
# (AMD EPYC, 1 MB of L2), where they are 1.7 and 7.2 at 200,000 nodes, 4.6 and 10.6 at a million.
_FORWARD_NS, _BACKWARD_NS, _ROW_BYTES = 1.5, 8.0, 128
_LINE_BYTES = 64  # memory comes by lines
# A GPU moves about twenty times as many bytes a second. Not measured.
_GPU_SPEED = 20.0


class RowOrder(NamedTuple):
    """An order of the rows of a symmetric pattern, and its inverse; int32, on the CPU."""

    node: Tensor  # [N] the node that each place stands for
    place: Tensor  # [N] the place of each node


Ordering = Callable[[CSR], RowOrder]  # taken by `csr.derived(ordering)`, so that it runs once


class _Candidate(NamedTuple):
    """An ordering, and what is known of it: from the same benchmark."""

    ordering: Ordering
    name: str
    ns_of_slot: float  # to make it
    excess: float  # of the rows that need not be new to a window, those that still are


def choose_ordering(csr: CSR, row_bytes: int, ns_of_new: float) -> Ordering:
    """The order in which a call should work: the one that takes least time, made or not.

    Patterns whose rows are in a good order as they are keep it, and so do those whose rows fit a
    cache.

    Args:
        csr: a symmetric pattern.
        row_bytes: of a row, as it is gathered.
        ns_of_new: how many nanoseconds the call, or all calls that the order serves, lose on a
            slot whose row has to come from afar.
    """
    base = csr.base or csr
    cheapest = min(each.ns_of_slot for each in _CANDIDATES)
    fits = base.num_rows * row_bytes <= _CACHE_BYTES
    if fits or ns_of_new <= cheapest or base.num_slots == 0:
        return given_order
    given = base.derived(new_share)
    once = min(1.0, base.num_rows / base.num_slots)  # what no order spares: each row is new once
    best, least = _Candidate(given_order, "as given", 0.0, 1.0), ns_of_new * given
    for each in _CANDIDATES:
        share = min(once + each.excess * (1 - once), given)
        takes = each.ns_of_slot + ns_of_new * share
        if takes < least and (each.ordering is not nested_order or _has_numba()):
            best, least = each, takes
    if best.ordering is not given_order and not base.has_derived(best.ordering):
        _log.info(
            "Ordering the %d nodes of a graph (%s): as they stand, %.0f %% of the rows that "
            "neighbours ask for are new to a window of %d rows, and waiting for them would take "
            "longer than an order does.",
            base.num_rows, best.name, 100 * given, _WINDOW,
        )  # fmt: skip
    return best.ordering


def choose_for_series(csr: CSR, row_bytes: int, visits: int, trains: bool) -> Ordering:
    """The order for a Chebyshev series, or for ten epochs of training with it.

    Args:
        csr: a symmetric pattern.
        row_bytes: of a row of a tile.
        visits: terms times tiles: how often the series passes the whole pattern.
        trains: whether a backward pass follows.
    """
    ns = _FORWARD_NS + _BACKWARD_NS if trains else _FORWARD_NS
    ns *= visits * (_EPOCHS if trains else 1) * max(row_bytes, _LINE_BYTES) / _ROW_BYTES
    return choose_ordering(csr, row_bytes, ns if csr.col.device.type == "cpu" else ns / _GPU_SPEED)


def given_order(csr: CSR) -> RowOrder:
    """The nodes in the order that they have."""
    node = torch.arange(csr.num_rows, dtype=torch.int32)
    return RowOrder(node, node)


def bandwidth_order(csr: CSR) -> RowOrder:
    """The nodes in reverse Cuthill-McKee order: neighbours within a band.

    Source: Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices", 1969.
    """
    if csr.base is not None:
        return csr.base.derived(bandwidth_order)
    size = csr.num_rows
    node = np.arange(size, dtype=np.int32)
    if csr.num_slots:
        ones = np.ones(csr.num_slots, np.int8)
        matrix = csr_array((ones, *scipy_indices(csr)), shape=(size, size))
        # The reversal comes as a view with a negative stride, which torch does not take, and which
        # NumPy calls contiguous where there is a single node: so a copy, whatever it is.
        node = reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int32, order="C")
    return _with_inverse(node)


def nested_order(csr: CSR) -> RowOrder:
    """The nodes in halves of halves, in which every cache finds its size; needs numba."""
    from .numba_nested import nested_rows

    if csr.base is not None:
        return csr.base.derived(nested_order)
    start = csr.derived(bandwidth_order).node.numpy()
    return _with_inverse(nested_rows(csr.rowptr.cpu().numpy(), csr.col.cpu().numpy(), start))


_CANDIDATES = (
    _Candidate(bandwidth_order, "reverse Cuthill-McKee", 30, 0.24),
    _Candidate(nested_order, "nested halves", 220, 0.12),
)


def new_share(csr: CSR) -> float:
    """Of the rows that neighbours ask for, those that no row of the window before has asked for.

    A window is 1,024 rows in sequence; a few of them, evenly spread, stand for all. In a random
    order of a large graph it is near one.
    """
    if csr.num_slots == 0:
        return 0.0
    last = max(csr.num_rows - _WINDOW, 0)
    starts = np.unique(np.linspace(0, last, _MOST_WINDOWS).astype(np.int64))
    ends = np.minimum(starts + _WINDOW, csr.num_rows)
    rowptr = csr.rowptr.cpu()
    slots = distinct = 0
    for first, end in zip(rowptr[starts].tolist(), rowptr[ends].tolist(), strict=True):
        slots += end - first
        distinct += csr.col[first:end].unique().numel()
    return distinct / max(slots, 1)


def scipy_indices(csr: CSR) -> tuple[Array, Array]:
    """The columns and row pointers as SciPy's graph routines want them: both int32 if they fit.

    SciPy 1.11.1 and 1.11.2 find wrong components, silently, where the two differ in type.
    """
    narrow = np.int32 if index_dtype(csr.num_rows, csr.num_slots) == torch.int32 else np.int64
    return tuple(each.cpu().numpy().astype(narrow, copy=False) for each in (csr.col, csr.rowptr))  # type: ignore[return-value]


def _with_inverse(node: Array) -> RowOrder:
    place = np.empty_like(node)
    place[node] = np.arange(node.size, dtype=node.dtype)
    return RowOrder(torch.from_numpy(node), torch.from_numpy(place))


def _has_numba() -> bool:
    return numba_obstacle(torch.device("cpu")) is None
