"""A whole Chebyshev series as one differentiable function."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn, Self

import torch
from torch import Tensor

from ..torch_func import full_precision, is_transformed
from .operator import Operator

# The gradients of x [N, M], of values like the operator's, and of coefficients; None: not needed.
Gradients = tuple[Tensor, tuple[Tensor, ...] | None, Tensor | None]


class SeriesOperator(Operator):
    """An operator that evaluates a whole series, and differentiates it once, in bounded memory.

    Attributes:
        values: the tensors that S is made of; gradients flow to these.
    """

    values: tuple[Tensor, ...]

    @abstractmethod
    def evaluate(self, x: Tensor, coefficients: Tensor, kept: Sequence[Tensor]) -> Tensor:
        """Return the series [S, N, M]; write the last two terms into `kept`, if it has parts."""

    @abstractmethod
    def differentiate(
        self, kept: list[Tensor], coefficients: Tensor, grad: Tensor, needs: tuple[bool, bool]
    ) -> Gradients:
        """Return the gradients for `grad`, that of the series.

        Tensors in `kept` stay as they are, for a second pass; but the list lets go of each as early
        as possible, and so does memory unless autograd holds it. `needs` says whether gradients of
        the values, and of the coefficients, are needed.
        """

    @staticmethod
    def kept_shape(num_nodes: Any, num_columns: Any, dtype: torch.dtype) -> tuple[Any, ...]:
        """Return the shape of what is kept for the backward pass, part by part: two terms."""
        return 2, num_nodes, num_columns

    def with_values(self, values: Sequence[Tensor]) -> Self:
        """Return the same operator, made of other values of the same shapes."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.values = tuple(values)
        return other

    def apply(self, x: Tensor) -> Tensor:
        """Return S x, for x [N, M]: the series T_1(S) x."""
        return self.series(x, x.new_tensor([0.0, 1.0]).reshape(2, 1, 1)).squeeze(0)

    def series(self, x: Tensor, coefficients: Tensor) -> Tensor:
        """Sum c_k T_k(S) x for x [N, M]: -> [S, N, M]; differentiable once, in all of these."""
        if x.numel() == 0:
            unused = sum((value.sum() for value in self.values), coefficients.sum())
            return coefficients[0].unsqueeze(1) * x + 0 * unused
        return differentiable_series(self, x, coefficients)


def differentiable_series(
    operator: SeriesOperator, x: Tensor, coefficients: Tensor, kept: Tensor | None = None
) -> Tensor:
    """Evaluate the series, also if x has no entries: other processes may wait for this one.

    With what was kept of an evaluation before: zeros in its place, with the right derivative.
    """
    if is_transformed():
        refuse_transform("the transforms of torch.func")
    learned = (coefficients, *operator.values)
    keep = torch.is_grad_enabled() and any(each.requires_grad for each in learned)
    out: Tensor = _Series.apply(operator, keep, kept, x, coefficients, *operator.values)
    return out


class _Series(torch.autograd.Function):
    """(operator, keep, kept, x, coefficients, *values) -> the series."""

    @staticmethod
    def forward(
        ctx: Any,
        operator: SeriesOperator,
        keep: bool,
        kept: Tensor | None,
        x: Tensor,
        coefficients: Tensor,
        *values: Tensor,
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.operator = operator.with_values(())  # the values themselves are saved as tensors
        if kept is None:
            count, *shape = operator.kept_shape(x.size(0), x.size(1), x.dtype) if keep else (0,)
            parts: Sequence[Tensor] = [x.new_empty(shape) for _ in range(count)]
            out = operator.with_values(values).evaluate(x, coefficients, parts)
        else:
            parts, out = kept.unbind(), x.new_zeros(()).expand(coefficients.size(1), *x.shape)
        ctx.save_for_backward(coefficients, *values, *parts)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (grad,), count = grads, len(ctx.needs_input_grad)
        if grad is None:
            return (None,) * count
        coefficients, *kept = ctx.saved_tensors
        values = [kept.pop(0) for _ in range(count - 5)]
        if hasattr(ctx, "maybe_clear_saved_tensors"):  # a torch without it holds them for longer
            ctx.maybe_clear_saved_tensors()  # unless the graph is retained
        if is_transformed():  # by `is_grads_batched`
            refuse_transform("'vmap'")
        needs = any(ctx.needs_input_grad[5:]), ctx.needs_input_grad[4]
        found = _Adjoint.apply(ctx.operator, needs, kept, coefficients, grad, *values)
        return None, None, None, *found

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> NoReturn:
        refuse_transform("forward-mode derivatives")


class _Adjoint(torch.autograd.Function):
    """(operator, needs, kept, coefficients, grad, *values) -> the gradients of all but kept."""

    @staticmethod
    def forward(
        ctx: Any,
        operator: SeriesOperator,
        needs: tuple[bool, bool],
        kept: list[Tensor],
        coefficients: Tensor,
        grad: Tensor,
        *values: Tensor,
    ) -> tuple[Tensor | None, ...]:
        # A backward pass may be called under an autocast that the forward pass was not.
        with full_precision(grad.device):
            of_x, of_values, of_coefficients = operator.with_values(values).differentiate(
                kept, coefficients, grad, needs
            )
        return of_x, of_coefficients, *(of_values or (None,) * len(values))

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        refuse_transform("a second derivative")


def refuse_transform(what: str) -> NoReturn:
    """Raise an error that names the backend which autograd differentiates without limits."""
    raise NotImplementedError(
        f"Expected backend='reference' for {what} (got another, which computes only the first "
        "derivatives of a whole series). To fix this, pass backend='reference', which leaves all "
        "to autograd."
    )
