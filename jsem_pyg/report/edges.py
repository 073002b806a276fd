"""Edges as the page reads them, and how many of them conduct or bend how much."""

from typing import NamedTuple

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from .._checks import as_argument
from ..curvature import forman_curvature

BINS = 40
FULL = 65_500  # a conductance of one, in 16 bits; hundredths, the page's thresholds, are whole
_ROUNDING = 1e-9  # of a curvature, a difference of numbers of at least one


class EdgeTable(NamedTuple):
    """Each edge once, at its smaller end: M edges of N nodes."""

    start: np.ndarray  # [N + 1] uint32, where the edges of each node begin
    end: np.ndarray  # [M] uint32, the larger end
    conductance: np.ndarray  # [M] uint16, in parts of `FULL`


class Histogram(NamedTuple):
    """Histogram of edge values, inside clusters and between them."""

    name: str
    summary: str
    borders: list[float]  # of the bins
    inside: list[int]
    between: list[int]


def edge_table(edge_index: Tensor, conductance: Tensor, num_nodes: int) -> EdgeTable:
    """Sort each edge to its smaller end."""
    once = (edge_index[0] < edge_index[1]).nonzero().flatten()
    source, target = edge_index[:, once].numpy()
    order = np.lexsort((target, source))
    start = np.searchsorted(source[order], np.arange(num_nodes + 1))
    parts = (conductance[once].double() * FULL).round().numpy()
    return EdgeTable(
        start.astype(np.uint32), target[order].astype(np.uint32), parts[order].astype(np.uint16)
    )


def histograms(graph: Data, conductance: Tensor, group: np.ndarray) -> list[Histogram]:
    """Of the conductance and of the curvature; none of a graph without edges.

    Args:
        graph: with `edge_index` and, if it has weights, `edge_weight`.
        conductance: [E].
        group: [N] the cluster of each node.
    """
    once = graph.edge_index[0] < graph.edge_index[1]
    if not bool(once.any()):
        return []
    with as_argument("data.edge_weight", "edge_weight"), as_argument("data", "edge_index"):
        curvature = forman_curvature(graph.edge_index, graph.get("edge_weight"), graph.num_nodes)
    source, target = graph.edge_index[:, once].numpy()
    same = group[source] == group[target]
    conducting, bent = (each[once].double().numpy() for each in (conductance, curvature))
    ends = np.quantile(bent, [0.005, 0.995])
    return [
        _histogram("Conductance", conducting, same, 0.0, 1.0),
        _histogram("Forman-Ricci curvature, augmented", bent, same, *ends),
    ]


def _histogram(
    name: str, values: np.ndarray, same: np.ndarray, low: float, high: float
) -> Histogram:
    """Values outside the borders count in the first and the last bin."""
    if high - low <= _ROUNDING * max(1.0, abs(low), abs(high)):  # all the same
        high = low + max(1.0, abs(low))
    borders = np.linspace(low, high, BINS + 1)
    counts = [np.histogram(values[which].clip(low, high), borders)[0] for which in (same, ~same)]
    summary = "; ".join(
        f"{where}: median {np.median(each):.3g}, 90 % in {_middle(each)}"
        for where, each in (("inside", values[same]), ("between", values[~same]))
        if len(each)
    )
    return Histogram(name, summary, borders.tolist(), *(count.tolist() for count in counts))


def _middle(values: np.ndarray) -> str:
    low, high = np.quantile(values, [0.05, 0.95])
    return f"[{low:.3g}, {high:.3g}]"
