"""Triangles and squares on the edges of a graph, and the curvature that comes of them.

A *slot* is an entry of a symmetric :class:`~jsem_pyg.kernels.csr.CSR` pattern without diagonal: one
direction of one edge. Everything is computed by numba on the CPU, for a graph on a GPU too; results
are on the device of the pattern. Numba is loaded when a function is first called.
"""

import torch
from torch import Tensor

from ..csr import CSR

__all__ = ["forman", "list_triangles", "square_counts", "triangle_counts"]


def triangle_counts(csr: CSR, reverse: Tensor) -> Tensor:
    """Count the triangles (i, j, k) of every slot (i, j): [nnz] int64."""
    from .numba_triangles import triangle_counts

    return triangle_counts(_on_cpu(csr), reverse.cpu()).to(csr.col.device)


def forman(csr: CSR, reverse: Tensor, weight: Tensor, with_triangles: bool) -> Tensor:
    """Compute F_1d or, with triangles, F_aug of :func:`~jsem_pyg.curvature.forman_curvature`.

    [nnz] float64, of positive weights [nnz] in float64 that are the same in both directions.
    """
    from .numba_triangles import forman

    found = forman(_on_cpu(csr), reverse.cpu(), weight.cpu(), with_triangles)
    return found.to(csr.col.device)


def square_counts(csr: CSR) -> tuple[Tensor, Tensor]:
    """Count the squares i - k - w - j - i without diagonals of every slot (i, j), seen from i.

    With c_k = |(N(j) & N(k)) - N(i) - {i}| for the neighbours k of i that are neither j nor
    neighbours of j: how many c_k are positive, and the largest of them (Topping et al. 2022,
    Definition 4), [nnz] each. Both are zero where an end has degree one.
    """
    from .numba_squares import square_counts

    count, largest = square_counts(_on_cpu(csr))
    return count.to(csr.col.device), largest.to(csr.col.device)


def list_triangles(csr: CSR, reverse: Tensor) -> Tensor:
    """List the triangles [3, F] of a graph, nodes i < j < k, in lexicographic order."""
    from .numba_triangles import list_triangles

    return list_triangles(_on_cpu(csr), reverse.cpu()).to(csr.col.device)


def _on_cpu(csr: CSR) -> CSR:
    return csr if csr.col.device.type == "cpu" else csr.derived(_moved)


def _moved(csr: CSR) -> CSR:
    return csr.to(torch.device("cpu"))
