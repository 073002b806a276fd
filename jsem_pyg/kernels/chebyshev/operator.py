"""What a Chebyshev series knows of an operator S: how to apply it, and how to differentiate it.

Three kinds, of which the first is all that has to be written for an operator of one's own:

- :class:`Operator` applies S to columns by torch's operations. Autograd does the rest, as often as
  it is asked to, and stores every term.
- :class:`~.adjoint.AdjointOperator` also knows the gradient of <b, S t> in the values that S is
  made of. Its series runs in bounded memory, whatever the number of terms.
- :class:`SeriesOperator` evaluates and differentiates the whole series by itself: a fused kernel.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from .recurrence import chebyshev_recurrence
from .series import bounded_series


class Needs(NamedTuple):
    """Which gradients a backward pass is asked for, beside that of x."""

    values: bool
    coefficients: bool


class Gradients(NamedTuple):
    """What a backward pass returns; None where it was not needed."""

    x: Tensor  # [N, M]
    values: tuple[Tensor, ...] | None  # like the operator's values
    coefficients: Tensor | None  # [K + 1, S, G, C]


class Operator(ABC):
    """A symmetric linear map S of columns [N, M], with its spectrum in [-1, 1].

    Attributes:
        num_nodes: N, the number of rows.

    Example:
        The mean of both neighbours on a ring.

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

    def series(self, x: Tensor, coefficients: Tensor, group: Tensor | None = None) -> Tensor:
        """Sum c_k T_k(S) x over k: [N, M] -> [S, N, M], see :mod:`jsem_pyg.kernels.chebyshev`."""
        return chebyshev_recurrence(self.apply, x, coefficients, group)


class AutogradOperator(Operator):
    """Another operator whose derivatives are left to autograd, as often as one likes.

    Args:
        operator: what applies S, by torch's operations.
    """

    def __init__(self, operator: Operator) -> None:
        self.num_nodes, self.operator = operator.num_nodes, operator

    def apply(self, x: Tensor) -> Tensor:
        """Return S x, as the other operator has it."""
        return self.operator.apply(x)


class SeriesOperator(Operator):
    """An operator that evaluates a whole series, and differentiates it once, in bounded memory.

    Attributes:
        values: the tensors that S is made of; gradients flow to these.
    """

    values: tuple[Tensor, ...]

    @abstractmethod
    def evaluate(
        self, x: Tensor, coefficients: Tensor, group: Tensor | None, keep: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the series [S, N, M], and what the backward pass needs of the last two terms.

        The latter has the shape `kept_shape`; no entries, or none of use, unless `keep`.
        """

    @abstractmethod
    def differentiate(
        self,
        kept: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
        grad: Tensor,
        needs: Needs,
    ) -> Gradients:
        """Return the gradients for `grad`, that of the series; leave `kept` as it is."""

    @staticmethod
    def kept_shape(num_nodes: Any, num_columns: Any, dtype: torch.dtype) -> tuple[Any, ...]:
        """The shape of what is kept for the backward pass: by default, two terms."""
        return 2, num_nodes, num_columns

    def with_values(self, values: Sequence[Tensor]) -> Self:
        """The same operator, made of other values of the same shapes."""
        other = copy.copy(self)
        other.values = tuple(values)
        return other

    def apply(self, x: Tensor) -> Tensor:
        """Return S x, for x [N, M]: the series T_1(S) x."""
        return self.series(x, x.new_tensor([0.0, 1.0]).reshape(2, 1, 1, 1)).squeeze(0)

    def series(self, x: Tensor, coefficients: Tensor, group: Tensor | None = None) -> Tensor:
        """See :meth:`Operator.series`; differentiable once."""
        return bounded_series(self, x, coefficients, group)
