"""How fast this machine multiplies: what predictions of time are made of."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..._checks import check_positive_int
from ...graph import GraphStructure
from ...kernels.chebyshev.torch_csr import SparseOperator

_NEIGHBOURS, _REPEATS = 16, 3


@dataclass(frozen=True)
class Speed:
    """Seconds of one process for each entry of S and column, and for each row and column."""

    product: float  #: of S times a signal, for an entry
    gradient: float  #: of the gradient of S, for an entry
    row: float  #: of a vector operation, for a row


def measure_speed(channels: int = 64, num_nodes: int = 20_000) -> Speed:
    """Time the kernels on a random graph whose neighbours have near numbers, as parts have them.

    It takes a second or less, and says what one process reaches beside whatever else runs now.

    Args:
        channels: the columns of a signal.
        num_nodes: of the graph.

    Raises:
        TypeError: if an argument is no integer.
        ValueError: if it is not positive.
    """
    check_positive_int("channels", channels)
    check_positive_int("num_nodes", num_nodes)
    structure = _near_neighbours(num_nodes)
    operator = SparseOperator(structure.csr, torch.ones(structure.num_slots))
    x, out = torch.randn(num_nodes, channels), torch.zeros(num_nodes, channels)
    totals = [torch.zeros(structure.num_slots)]
    entries, numbers = max(structure.num_slots, 1) * channels, num_nodes * channels
    return Speed(
        _fastest(lambda: operator.step(x, out, out, 2)) / entries,
        _fastest(lambda: operator.add_gradient(totals, x, out, None, None, 1)) / entries,
        _fastest(lambda: out.addcmul_(x, x)) / numbers,
    )


def _near_neighbours(num_nodes: int) -> GraphStructure:
    generator = torch.Generator().manual_seed(0)
    source = torch.arange(num_nodes).repeat_interleave(_NEIGHBOURS // 2)
    step = torch.randint(1, max(num_nodes // 50, 2), source.shape, generator=generator)
    edges = torch.stack([source, (source + step) % num_nodes])
    edges = edges[:, edges[0] != edges[1]]
    return GraphStructure(torch.cat([edges, edges.flip(0)], dim=1), num_nodes)


def _fastest(work: Callable[[], object]) -> float:
    """The seconds of the fastest of a few calls."""
    best = float("inf")
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best
