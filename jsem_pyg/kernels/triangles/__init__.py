"""Triangles on the edges of a graph, and the curvature that comes of them; `squares.py`: squares.

A *slot* is an entry of a symmetric :class:`~jsem_pyg.kernels.csr.CSR` pattern without diagonal: one
direction of one edge. Everything is computed by numba on the CPU, for a graph on a GPU too; results
are on the device of the pattern. Numba is loaded when a function is first called.
"""

import torch
from torch import Tensor

from ..csr import CSR

__all__ = ["forman", "list_triangles", "triangle_counts"]


def triangle_counts(csr: CSR, reverse: Tensor) -> Tensor:
    """Count the triangles (i, j, k) of every slot (i, j): [nnz] int64."""
    from .numba_triangles import triangle_counts

    return triangle_counts(on_cpu(csr), reverse.cpu()).to(csr.col.device)


def forman(csr: CSR, reverse: Tensor, weight: Tensor, with_triangles: bool) -> Tensor:
    """Compute F_1d or, with triangles, F_aug of :func:`~jsem_pyg.curvature.forman_curvature`.

    [nnz] float64, of positive weights [nnz] in float64 that are the same in both directions.
    """
    from .numba_triangles import forman

    found = forman(on_cpu(csr), reverse.cpu(), weight.cpu(), with_triangles)
    return found.to(csr.col.device)


def list_triangles(csr: CSR, reverse: Tensor) -> Tensor:
    """List the triangles [3, F] of a graph, nodes i < j < k, in lexicographic order."""
    from .numba_triangles import list_triangles

    return list_triangles(on_cpu(csr), reverse.cpu()).to(csr.col.device)


def on_cpu(csr: CSR) -> CSR:
    """Return the pattern on the CPU, moved once."""
    return csr if csr.col.device.type == "cpu" else csr.derived(_moved)


def _moved(csr: CSR) -> CSR:
    return csr.to(torch.device("cpu"))
