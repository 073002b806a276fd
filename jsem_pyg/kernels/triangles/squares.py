"""Squares on the edges of a graph, of which only the balanced curvature is made."""

from torch import Tensor

from ..csr import CSR
from . import on_cpu


def square_counts(csr: CSR) -> tuple[Tensor, Tensor]:
    """Count the squares i - k - w - j - i without diagonals of every slot (i, j), seen from i.

    With c_k = |(N(j) & N(k)) - N(i) - {i}| for the neighbours k of i that are neither j nor
    neighbours of j: how many c_k are positive, and the largest of them (Topping et al. 2022,
    Definition 4), [nnz] each. Both are zero where an end has degree one.
    """
    from .numba_squares import square_counts

    count, largest = square_counts(on_cpu(csr))
    return count.to(csr.col.device), largest.to(csr.col.device)
