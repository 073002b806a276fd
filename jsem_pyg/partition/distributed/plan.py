"""What several processes would hold, send and take, before anything is started."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..._checks import (
    as_argument,
    check_edge_index_shape,
    check_instance,
    check_nonnegative,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from ..._extras import import_optional
from ...graph import GraphStructure
from ..blocks import Partition
from ..recursive import recursive_partition
from .speed import Speed, measure_speed

if TYPE_CHECKING:
    import pandas as pd

# What is alive at the highest point, which is in the backward pass: the signal, the result and its
# gradient, two kept terms, those of both recurrences and one that is written to.
_COPIES = 9
# Of a row in the halo: both recurrences, as they are sent and as they come. In a term it is read to
# be sent, received, multiplied into rows of its own, and these are added: as often.
_HALO_COPIES = 4
# Of an edge: its row, column and slot, the pattern, and weights in float64 on the way to entries.
# Measured: 150 that a process holds, and 30 to 60 in an epoch.
_BYTES_OF_AN_EDGE = 200


@dataclass(frozen=True, eq=False)
class DistributionPlan:
    """What every process of a distributed diffusion holds and sends, and how long an epoch takes.

    An epoch is one forward and one backward pass, with the gradients of x, the weights and t.
    """

    rows: Tensor  #: [P] nodes of each process
    edges: Tensor  #: [P] its edges
    halo: Tensor  #: [P] rows that come to it in every term
    peers: Tensor  #: [P] how many others it talks to
    sent: Tensor  #: [P] bytes that leave it in a term of the forward pass; backward twice as many
    bytes_held: Tensor  #: [P] of memory, at most
    seconds: Tensor  #: [P] of an epoch, if no other made it wait
    seconds_of_exchange: Tensor  #: [P] of these, what the network takes, hidden or not
    memory: float | None  #: bytes that each process may have

    @property
    def num_ranks(self) -> int:
        """The number P of processes."""
        return self.rows.numel()

    @property
    def bytes_per_term(self) -> int:
        """All bytes that are sent in a term of the forward pass."""
        return int(self.sent.sum())

    @property
    def seconds_per_epoch(self) -> float:
        """The time of the slowest process."""
        return float(self.seconds.max())

    @property
    def fits(self) -> bool:
        """Whether every process has the memory."""
        return self.memory is None or float(self.bytes_held.max()) <= self.memory

    def to_pandas(self) -> "pd.DataFrame":
        """A row for each process."""
        pd = import_optional("pandas", "DistributionPlan.to_pandas")
        names = ("rows", "edges", "halo", "peers", "sent", "bytes_held", "seconds")
        columns = {name: getattr(self, name).tolist() for name in names}
        return pd.DataFrame(columns | {"seconds_of_exchange": self.seconds_of_exchange.tolist()})

    def __repr__(self) -> str:
        return (
            f"DistributionPlan({self.num_ranks} processes, {int(self.rows.max()):,} rows and "
            f"{int(self.halo.max()):,} of halo at most, {self.bytes_per_term / 1e6:.3g} MB sent a "
            f"term, {float(self.bytes_held.max()) / 1e9:.3g} GB each, "
            f"{self.seconds_per_epoch:.3g} s an epoch)"
        )


def plan(
    graph: Any,
    parts: Partition | int,
    channels: int,
    bandwidth: float,
    latency: float = 5e-5,
    memory: float | None = None,
    *,
    terms: int = 30,
    dtype: torch.dtype = torch.float32,
    halo_share: float | None = None,
    speed: Speed | None = None,
    overlap: bool = True,
) -> DistributionPlan:
    r"""Predict what a diffusion on several processes holds, sends and takes.

    A process multiplies the columns of its own rows while the halo travels, so that a term takes
    the longer of both, and then the product with the halo. A backward step has two products and the
    gradient of the entries, and sends two halos at once. That is what kernels and network take by
    themselves: processes that wait for a core, or for each other, take longer.

    Args:
        graph: The graph: [2, E] edges or a :class:`~jsem_pyg.graph.GraphStructure`; or its sizes
            alone, (number of nodes, number of directed edges).
        parts: A partition of its nodes, or a number of parts: a graph is then partitioned, and
            sizes are shared evenly.
        channels: The columns D of the signal, times those of a batch.
        bandwidth: Bytes that a process sends in a second, in both directions at once.
        latency: Seconds until a message arrives.
        memory: Bytes that each process may have; None: any number.
        terms: K, the number of products with S.
        dtype: The type of the signal.
        halo_share: For sizes: the rows of a halo, as a share of the rows of a part. None: those of
            parts drawn at random, the worst there are. Measure it on a graph of the same kind, with
            parts of the same size if they fit: good parts of larger graphs have the same halo.
        speed: How fast a process computes; None: measured here and now.
        overlap: Whether rows travel while a process multiplies. False where it has to carry them
            itself, since no core is idle: processes on one machine, one for each core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of range, or the partition does not fit.

    Example:
        >>> speed = Speed(product=2e-10, gradient=2e-10, row=5e-10)
        >>> sizes = (100_000_000, 1_600_000_000)
        >>> found = plan(sizes, 64, 128, bandwidth=3e9, halo_share=0.5, speed=speed)
        >>> int(found.halo[0])
        781250
    """
    check_positive_int("channels", channels)
    check_positive("bandwidth", bandwidth)
    check_nonnegative("latency", latency)
    check_positive_int("terms", terms)
    if memory is not None:
        check_positive("memory", memory)
    check_instance("dtype", dtype, torch.dtype, "a torch.dtype")
    check_instance("overlap", overlap, bool, "a bool")
    if speed is not None:
        check_instance("speed", speed, Speed, "a Speed, as measure_speed returns")
    if halo_share is not None:
        check_nonnegative("halo_share", halo_share)
        if not isinstance(graph, tuple):
            raise ValueError(
                "Expected 'halo_share' to be None where 'graph' says what the halo is "
                f"(got {halo_share})."
            )
    if isinstance(graph, tuple):
        counts = _count_evenly(graph, parts, halo_share)
    else:
        counts = count_parts(_read_graph(graph, parts), parts)
    speed = measure_speed(min(channels, 64)) if speed is None else speed
    return _predict(
        counts, channels, dtype.itemsize, terms, bandwidth, latency, memory, speed, overlap
    )


@dataclass(frozen=True, eq=False)
class Counts:
    """What each process has, [P] float64."""

    rows: Tensor
    edges: Tensor
    crossing: Tensor  # edges from a row of the halo
    halo: Tensor
    leaving: Tensor  # rows that are sent, once for each process that wants them
    peers: Tensor


def count_parts(structure: GraphStructure, parts: Partition | int) -> Counts:
    """Count what the parts of a graph have.

    Args:
        structure: The graph.
        parts: A partition, or how many there are to be.
    """
    if not isinstance(parts, Partition):
        check_positive_int("parts", parts)
        parts = recursive_partition(structure, parts)
    if parts.num_nodes != structure.num_nodes:
        raise ValueError(
            f"Expected 'parts' to be of the graph's {structure.num_nodes} nodes "
            f"(got {parts.num_nodes})."
        )
    size, of_node = parts.num_parts, parts.part
    col = structure.col.cpu().long()
    here = of_node.index_select(0, structure.row.cpu())
    there = of_node.index_select(0, col)
    crosses = here != there
    # A pair of a part and a node outside that it wants.
    wanted = torch.unique(here[crosses] * structure.num_nodes + col[crosses])
    by, owner = wanted // structure.num_nodes, of_node[wanted % structure.num_nodes]
    peers = torch.unique(by * size + owner) // size
    return Counts(
        parts.ptr.diff().double(),
        *(
            torch.bincount(each, minlength=size).double()
            for each in (here, here[crosses], by, owner, peers)
        ),
    )


def _count_evenly(
    sizes: tuple[int, ...], parts: Partition | int, halo_share: float | None
) -> Counts:
    """What equal parts of a graph would have of which nothing but the size is known."""
    if len(sizes) != 2:
        raise ValueError(f"Expected 'graph' to be (num_nodes, num_edges) (got {sizes!r}).")
    for name, size in zip(("num_nodes", "num_edges"), sizes, strict=True):
        check_nonnegative_int(name, size)
    if isinstance(parts, Partition):
        raise TypeError("Expected 'parts' to be a number where 'graph' is sizes (got a Partition).")
    check_positive_int("parts", parts)
    num_nodes, num_edges = sizes
    rows, degree = num_nodes / parts, num_edges / max(num_nodes, 1)
    # Of random parts: the nodes outside with at least one neighbour in the part.
    halo = (num_nodes - rows) * (1 - (1 - 1 / parts) ** degree)
    crossing = num_edges / parts * (1 - 1 / parts)
    if halo_share is not None:
        halo = min(halo, halo_share * rows)
        crossing = min(crossing, halo * degree)
    everywhere = torch.ones(parts, dtype=torch.float64)
    return Counts(
        rows * everywhere,
        num_edges / parts * everywhere,
        crossing * everywhere,
        halo * everywhere,
        halo * everywhere,
        (parts - 1) * everywhere,
    )


def _predict(
    counts: Counts,
    channels: int,
    itemsize: int,
    terms: int,
    bandwidth: float,
    latency: float,
    memory: float | None,
    speed: Speed,
    overlap: bool = True,
) -> DistributionPlan:
    together = torch.maximum if overlap else torch.add
    row_bytes = channels * itemsize
    numbers, inner = counts.rows * channels, (counts.edges - counts.crossing) * channels
    crossing, copied = counts.crossing * channels, (counts.leaving + counts.halo) * channels
    sent = counts.leaving * row_bytes
    travel = torch.maximum(sent, counts.halo * row_bytes) / bandwidth
    delay = latency * counts.peers
    forward = together(inner * speed.product, delay + travel) + (
        crossing * speed.product + (numbers + _HALO_COPIES * copied) * speed.row
    )
    both = 2 * speed.product + speed.gradient
    backward = together(inner * both, delay + 2 * travel) + (
        crossing * both + 2 * (numbers + _HALO_COPIES * copied) * speed.row
    )
    held = _COPIES * numbers * itemsize + _HALO_COPIES * copied * itemsize
    return DistributionPlan(
        counts.rows.long(),
        counts.edges.long(),
        counts.halo.long(),
        counts.peers.long(),
        sent.long(),
        (held + _BYTES_OF_AN_EDGE * counts.edges).long(),
        terms * (forward + backward),
        terms * (2 * delay + 3 * travel),
        memory,
    )


def choose_strategy(
    structure: GraphStructure,
    partition: Partition,
    channels: int,
    dtype: torch.dtype,
    memory: float | None,
    terms: int = 30,
) -> str:
    """Choose "rows" or "columns": for which a process holds and sends fewer bytes, if they fit."""
    counts, size = count_parts(structure, partition), dtype.itemsize
    rows = _predict(counts, channels, size, terms, 1.0, 0.0, memory, Speed(0.0, 0.0, 0.0))
    of_rows = float((rows.bytes_held + 3 * terms * rows.sent).max())
    own = -(-channels // partition.num_parts)
    of_columns = _BYTES_OF_AN_EDGE * structure.num_edges
    of_columns += _COPIES * structure.num_nodes * own * size
    if memory is not None and of_columns > memory:
        return "rows"
    if not rows.fits:
        return "columns"
    return "columns" if of_columns < of_rows else "rows"


def _read_graph(graph: Any, parts: Partition | int) -> GraphStructure:
    if isinstance(graph, GraphStructure):
        return graph
    size = parts.num_nodes if isinstance(parts, Partition) else None
    with as_argument("graph", "edge_index"):
        check_edge_index_shape(graph)
        if size is None:
            size = int(graph.max()) + 1 if graph.numel() else 0
        return GraphStructure(graph, size)
