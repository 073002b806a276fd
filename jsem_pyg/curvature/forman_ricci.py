"""Forman-Ricci curvature of the edges of an undirected graph, in three forms."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_choice, check_edge_vector
from ..kernels.triangles import square_counts, triangle_sums
from .symmetric_csr import SymmetricCSR, symmetric_csr, symmetric_weight

METHODS = ("augmented", "1d", "balanced")

FloatArray = NDArray[np.float64]


def forman_curvature(
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    num_nodes: int | None = None,
    method: str = "augmented",
) -> Tensor:
    r"""Compute the curvature of every edge: very negative on bridges, higher inside clusters.

    With node and face weights of one, the edge e = (i, j) of weight w_e has

    .. math::
        F_{1d}(e) &= 2 - \sqrt{w_e} \Big(\sum_{v \sim i, v \ne j} w_{iv}^{-1/2}
            + \sum_{v \sim j, v \ne i} w_{jv}^{-1/2}\Big) \\
        F_{aug}(e) &= 2 + w_e^2 |\Delta| - \sqrt{w_e} \Big(
            \sum_{v \sim i, v \ne j, v \notin \Delta} w_{iv}^{-1/2}
            + \sum_{v \sim j, v \ne i, v \notin \Delta} w_{jv}^{-1/2}\Big) \\
        F_{bal}(e) &= \frac{2}{d_i} + \frac{2}{d_j} - 2 + \frac{2 |\Delta|}{\max(d_i, d_j)}
            + \frac{|\Delta|}{\min(d_i, d_j)} + \frac{|\square_i| + |\square_j|}
            {\gamma_{max} \max(d_i, d_j)}

    with the common neighbours :math:`\Delta` of i and j, the squares :math:`\square` without
    diagonals on the edge and their degeneracy :math:`\gamma_{max}`; F_bal ignores weights and is
    zero where the smaller degree is one. All are pure numbers, computed in float64 on the CPU.

    Args:
        edge_index: [2, E] integer tensor, both directions of every edge, no self-loops, no edge
            twice.
        edge_weight: [E] positive weights, the same in both directions; None means ones. The
            balanced form takes its type only.
        num_nodes: N; the largest index + 1 where it is None.
        method: "augmented" (with triangles), "1d" (without) or "balanced".

    Returns:
        [E] the curvature of each column, the same in both directions, in the type of `edge_weight`
        (torch's default type without it), on the device of `edge_index`.

    Raises:
        TypeError: if an argument is not a tensor of the right type.
        ValueError: if the graph is directed or has self-loops or repeated edges, if weights are
            not positive or not symmetric, or if `method` is none of the three.

    Source: Forman 2003, "Bochner's method for cell complexes"; Samal et al. 2018, "Comparative
    analysis of two discretizations of Ricci curvature for complex networks", equations 7 and 8;
    Topping et al. 2022, "Understanding over-squashing and bottlenecks on graphs via curvature",
    Definition 1 (balanced).

    Example:
        A triangle 0, 1, 2 with a tail 2 - 3.

        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> forman_curvature(edge_index)
        tensor([3., 3., 2., 2., 2., 2., 0., 0.])
    """
    check_choice("method", method, METHODS)
    graph = symmetric_csr(edge_index, num_nodes)
    dtype = torch.get_default_dtype()
    weight: FloatArray = np.ones(graph.slot.size)
    if edge_weight is not None:
        check_edge_vector("edge_weight", edge_weight, graph.slot.size)
        dtype = edge_weight.dtype
        if method != "balanced":
            weight = symmetric_weight(graph, edge_weight)
    if method == "balanced":
        curvature = _balanced(graph)
    else:
        curvature = _weighted(graph, weight, with_triangles=method == "augmented")
    return torch.from_numpy(curvature[graph.slot]).to(edge_index.device, dtype)


def _weighted(graph: SymmetricCSR, weight: FloatArray, with_triangles: bool) -> FloatArray:
    """F_1d or F_aug in the slots: the sums over all neighbours, less those that do not count."""
    root = np.sqrt(weight)
    reach = np.bincount(graph.row, weights=1 / root, minlength=graph.rowptr.size - 1)
    # Leaving out j at i and i at j adds sqrt(w) (1 / sqrt(w)) twice: 2 + 2 = 4.
    curvature = 4 - root * (reach[graph.row] + reach[graph.col])
    if with_triangles:
        count, sides = triangle_sums(graph.rowptr, graph.col, 1 / root)
        curvature += weight**2 * count + root * sides
    return curvature


def _balanced(graph: SymmetricCSR) -> FloatArray:
    degree = np.diff(graph.rowptr)
    ends = np.stack([degree[graph.row], degree[graph.col]])
    low, high = ends.min(0), ends.max(0)
    triangles, _ = triangle_sums(graph.rowptr, graph.col, np.zeros(graph.col.size))
    squares, degeneracy = square_counts(graph.rowptr, graph.col)
    squares = squares + squares[graph.reverse]
    degeneracy = np.maximum(degeneracy, degeneracy[graph.reverse])
    curvature = 2 / low + 2 / high - 2 + 2 * triangles / high + triangles / low
    curvature += squares / (np.maximum(degeneracy, 1) * high)
    return np.where(low == 1, 0.0, curvature)
