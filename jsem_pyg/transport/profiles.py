"""Features of nodes from heat kernels, independent of how nodes are numbered."""

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..curvature import jaccard_overlap
from ..diffusion import heat_diffusion, heat_kernel_columns
from ..graph import GraphStructure

TIMES = (0.5, 2.0, 8.0, 30.0)  # of the columns
# Columns whose product is the return probability at the sum of two times, earlier ones first.
PAIRS = sorted(combinations_with_replacement(range(4), 2), key=lambda ij: sum(TIMES[i] for i in ij))
AVERAGING = (1.0, 4.0)  # times over which features are averaged among neighbours
LEVELS = 10  # quantiles of a column, at all times but the shortest
BLOCK = 1 << 24  # numbers of columns that are held at a time

_FLOOR = 1e-3  # heat below this part of 1 / N counts as none, and rounding is far below
_CONSTANT = 1e-3  # features that vary by less, in units of a logarithm, are rounding
_LEAST_OVERLAP = 0.005  # of an edge without common neighbours
_TOL = 1e-4  # of the series; rounding of float32 stays below it


class Comparable(NamedTuple):
    """Features of two graphs on one scale."""

    source: Tensor  # [N, F]
    target: Tensor  # [K, F]


def heat_profiles(edge_index: Tensor, num_nodes: int, edge_weight: Tensor | None = None) -> Tensor:
    r"""Compute features of nodes that do not depend on how nodes are numbered.

    The heat that starts in node i and is still there at time t is its heat kernel signature,

    .. math::
        h_i(t) = \left( e^{-t \mathbf{L}} \right)_{ii},

    and the quantiles of column i describe the spread of the rest. Columns are computed at a few
    times only, since :math:`h_i(s + t)` is the product of the columns at s and t. The
    features of a node's neighbours enter by their mean, weighted by heat.

    Returns:
        [N, 132] logarithms, finite: of 14 return probabilities and 30 quantiles, and twice their
        means over neighbours. O(N^2) time, but memory for 2^24 numbers of columns at once.

    Source: the return probabilities are the signature of Sun, Ovsjanikov and Guibas, "A concise and
    provably informative multi-scale signature based on heat diffusion", Computer Graphics Forum 28,
    2009.
    """
    graph = GraphStructure(edge_index, num_nodes)
    step = max(1, BLOCK // (num_nodes * len(TIMES)))
    nodes = torch.arange(num_nodes, device=graph.device)
    own = torch.cat([_block(graph, edge_weight, each) for each in nodes.split(step)])
    averages = heat_diffusion(
        own, graph, edge_weight, torch.tensor(AVERAGING), normalization="rw", tol=_TOL
    )
    return torch.cat([own, *averages], 1)


def comparable(source: Tensor, target: Tensor, *, ridge: float | None = 0.3) -> Comparable:
    """Put features [N, F] and [K, F] on one scale: standardised together, and decorrelated.

    A feature that is constant except for rounding must not be scaled to unit variance, so those
    with a standard deviation below 1e-3, a thousandth of a unit of logarithms, are left out, on
    both sides. The others overlap much: columns of neighbouring times are nearly equal, and mostly
    show what a random edge changes. Decorrelated, the finer differences count as well: of
    300 nodes of a neighbour graph with a tenth of its edges changed, two thirds find their partner
    by features alone instead of a third.

    `ridge` is added to the variance of every principal component, of features with variance one,
    before it is divided by its root: the smaller, the more small components count. None: features
    are not decorrelated. A single column of zeros is returned if nothing varies.
    """
    both = torch.cat([source, target]).double()
    centred = both - both.mean(0)
    deviation = centred.square().mean(0).sqrt()
    varies = deviation > _CONSTANT
    if not bool(varies.any()):
        return Comparable(torch.zeros_like(source[:, :1]), torch.zeros_like(target[:, :1]))
    scaled = centred[:, varies] / deviation[varies]
    if ridge is not None:
        variance, basis = torch.linalg.eigh(scaled.T @ scaled / scaled.size(0))
        scaled = scaled @ (basis * (variance.clamp(min=0) + ridge).rsqrt())
    first, second = scaled.split([source.size(0), target.size(0)])
    return Comparable(first.to(source.dtype), second.to(target.dtype))


def overlap_weights(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Weigh edges in (0, 1], by the overlap of their ends' neighbourhoods.

    An edge inside a dense region conducts well, a random one that joins two regions hardly. So heat
    on these weights survives some wrong edges. An edge without common neighbours still conducts.
    """
    return (jaccard_overlap(edge_index, num_nodes) + _LEAST_OVERLAP) / (1 + _LEAST_OVERLAP)


def _block(graph: GraphStructure, edge_weight: Tensor | None, nodes: Tensor) -> Tensor:
    """Compute the features [M, F] of M nodes, from their columns."""
    num_nodes = graph.num_nodes
    columns = heat_kernel_columns(
        graph, nodes, edge_weight, torch.tensor(TIMES), num_nodes=num_nodes, tol=_TOL
    )
    at = torch.arange(nodes.numel(), device=nodes.device)
    stays = [column[nodes, at] for column in columns]
    stays += [(columns[i] * columns[j]).sum(0) for i, j in PAIRS]
    features = [torch.stack(stays, 1), *(_quantiles(column.T) for column in columns[1:])]
    return (torch.cat(features, 1).clamp(min=0) + _FLOOR / num_nodes).log()


def _quantiles(rows: Tensor) -> Tensor:
    """Find ten ranks of rows [M, N]: the largest entry but one, and so on, further down."""
    num_nodes = rows.size(1)
    share = torch.from_numpy(np.geomspace(1 / num_nodes, 0.7, LEVELS))
    # Between two entries, so that graphs of different sizes are compared at the same shares.
    place = (share * num_nodes).clamp(max=num_nodes - 1)
    low = place.floor().long()
    high = (low + 1).clamp(max=num_nodes - 1)
    # NumPy sorts rows by vector instructions, twenty times as fast as torch.
    ordered = -np.sort(-rows.cpu().numpy(), axis=1)
    below = torch.from_numpy(ordered[:, low.numpy()]).to(rows.device)
    above = torch.from_numpy(ordered[:, high.numpy()]).to(rows.device)
    return below + (above - below) * (place - low).to(rows)
