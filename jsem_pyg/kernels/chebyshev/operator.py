"""Operators S of a Chebyshev series: how S is applied, and how it is differentiated.

There are three kinds. An operator of your own only has to be of the first kind:

- :class:`Operator` applies S to columns by torch's operations. Autograd differentiates it, to any
  order, and stores every term.
- :class:`~.adjoint.AdjointOperator` also computes the gradient of <b, S t> in the values of S. Its
  series runs in bounded memory, whatever the number of terms.
- :class:`~.series.SeriesOperator` evaluates and differentiates the whole series: a fused kernel.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Operator(ABC):
    """Applies a symmetric linear map S, with its spectrum in [-1, 1], to columns [N, M].

    Attributes:
        num_nodes: N, the number of rows.

    Example:
        The mean of both neighbours on a ring.

        >>> import torch
        >>> class Ring(Operator):
        ...     def __init__(self, num_nodes):
        ...         self.num_nodes = num_nodes
        ...
        ...     def apply(self, x):
        ...         return (x.roll(1, 0) + x.roll(-1, 0)) / 2
        >>> Ring(3).apply(torch.eye(3))[0]
        tensor([0.0000, 0.5000, 0.5000])
    """

    num_nodes: int

    @abstractmethod
    def apply(self, x: Tensor) -> Tensor:
        """Return S x, for x [N, M]."""

    def series(self, x: Tensor, coefficients: Tensor) -> Tensor:
        """Sum c_k T_k(S) x over k: [N, M] -> [S, N, M], see :mod:`jsem_pyg.kernels.chebyshev`."""
        rows = coefficients.unsqueeze(2)  # [K + 1, S, 1, C], to multiply rows
        before, term = x, x
        out = rows[0] * x
        for k in range(1, len(rows)):  # T_0 = x, T_1 = S x, T_k = 2 S T_(k-1) - T_(k-2)
            applied = self.apply(term)
            before, term = term, applied if k == 1 else 2 * applied - before
            out = torch.addcmul(out, rows[k], term)
        return out

    def _agree_on_terms(self, count: int) -> int:
        """Return the largest number of terms over all processes that hold rows of S."""
        return count
