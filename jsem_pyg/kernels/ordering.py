"""The order of rows in which a kernel works: as given, or one of two others where that pays.

Reverse Cuthill-McKee (:mod:`.bandwidth`) is made fast, and pays within one pass over a large graph
in no order. That of :mod:`.locality` takes ten times as long; it makes an epoch of training shorter
by a further tenth.

A kernel gathers the rows of a node's neighbours. If they were gathered a short while ago for other
nodes, they are still in a cache. The order is chosen from the pattern and from what a call gathers,
not from what happened before: the same call gives the same bits in any process.
"""

from collections.abc import Callable

import numpy as np
import torch

from .bandwidth import bandwidth_order, row_order
from .csr import CSR, RowOrder, given_order, scipy_indices

# A copy of the gathered rows that is no larger stays in the L2 cache of a core, in any order; or in
# that of a GPU.
_CACHE_BYTES, _GPU_CACHE_BYTES = 1 << 20, 1 << 25

# Training is assumed to go on for so many epochs.
_EPOCHS = 10

# Rows that a first-level cache holds, with what they gather.
_WINDOW = 1024
_MOST_WINDOWS = 16

# Nanoseconds of a core for a gathered row of 128 bytes that no row of the window has gathered
# before: in forward and in backward passes. From examples/benchmarks/ordering.py on an idle machine
# (AMD EPYC, 1 MB of L2), where they are 1.7 and 7.2 at 200,000 nodes, 4.6 and 10.6 at a million.
_FORWARD_NS, _BACKWARD_NS, _ROW_BYTES = 1.5, 8.0, 128
_LINE_BYTES = 64  # memory comes by lines
# What they are over those of a GPU: 100 and 180, of an H200 at 200,000 nodes and 128 channels.
_GPU_SPEED = 150.0


Ordering = Callable[[CSR], RowOrder]  # taken by `csr.derived(ordering)`, so that it runs once


def choose_ordering(csr: CSR, row_bytes: int, ns_of_new: float) -> Ordering:
    """Choose the order that takes least time, including the time to make it.

    Patterns whose rows fit a cache, or are in a good order already, keep their order. `ns_of_new`:
    nanoseconds that all calls which the order serves lose for each slot whose row is in no cache.
    """
    base = csr.base or csr
    is_on_cpu = csr.col.device.type == "cpu"
    fits = base.num_rows * row_bytes <= (_CACHE_BYTES if is_on_cpu else _GPU_CACHE_BYTES)
    if fits or ns_of_new <= min(ns for ns, _ in _COSTS.values()) or base.num_slots == 0:
        return given_order
    given = base.derived(new_share)
    once = min(1.0, base.num_rows / base.num_slots)  # no order avoids that each row is new once
    ns: dict[Ordering, float] = {given_order: ns_of_new * given}
    for ordering, (to_order, excess) in _COSTS.items():
        ns[ordering] = to_order + ns_of_new * min(once + excess * (1 - once), given)
    return min(ns, key=lambda ordering: ns[ordering])


def choose_for_series(csr: CSR, row_bytes: int, visits: int, trains: bool) -> Ordering:
    """Choose the order for a Chebyshev series, or for ten epochs of training with it.

    `visits`, terms times tiles, is how often the series passes the whole pattern.
    """
    ns = _FORWARD_NS + _BACKWARD_NS if trains else _FORWARD_NS
    ns *= visits * (_EPOCHS if trains else 1) * max(row_bytes, _LINE_BYTES) / _ROW_BYTES
    return choose_ordering(csr, row_bytes, ns if csr.col.device.type == "cpu" else ns / _GPU_SPEED)


def locality_order(csr: CSR) -> RowOrder:
    """Return the nodes in the order of :mod:`.locality`: near rows share neighbours."""
    if csr.base is not None:
        return csr.base.derived(locality_order)
    if csr.num_slots == 0:
        return given_order(csr)
    from .locality import local_order  # for training on large graphs alone

    col, rowptr = scipy_indices(csr)
    return row_order(local_order(rowptr, col, csr.derived(bandwidth_order).node.numpy()))


# From the same benchmark as above: nanoseconds for each slot to make the order, and the share of
# the rows that need not be new to a window and still are.
_COSTS: dict[Ordering, tuple[float, float]] = {
    bandwidth_order: (30, 0.24),
    locality_order: (300, 0.11),
}


def new_share(csr: CSR) -> float:
    """Return the share of gathered rows that no other row of the same window has gathered before.

    A window is 1,024 rows in sequence; a few of them, evenly spread, stand for all. In a random
    order of a large graph the share is near one.
    """
    if csr.num_slots == 0:
        return 0.0
    last = max(csr.num_rows - _WINDOW, 0)
    starts = np.unique(np.linspace(0, last, _MOST_WINDOWS).astype(np.int64))
    ends = np.minimum(starts + _WINDOW, csr.num_rows)
    rowptr = csr.rowptr.cpu()
    last_slot = csr.col.new_empty(csr.num_rows)
    slots = distinct = 0
    for first, end in zip(rowptr[starts].tolist(), rowptr[ends].tolist(), strict=True):
        slots += end - first
        gathered, slot = csr.col[first:end].long(), torch.arange(end - first).to(csr.col)
        last_slot[gathered] = slot
        distinct += int((last_slot[gathered] == slot).sum())  # one slot of each remains
    return distinct / max(slots, 1)
