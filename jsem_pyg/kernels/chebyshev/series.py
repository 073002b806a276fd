"""A series as one differentiable function, for autograd and for `torch.func`."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..._precision import full_precision
from .recurrence import per_row

if TYPE_CHECKING:
    from .operator import SeriesOperator


def bounded_series(
    operator: "SeriesOperator", x: Tensor, coefficients: Tensor, group: Tensor | None
) -> Tensor:
    """The series by the operator's own two passes: [N, M] -> [S, N, M].

    Differentiable once, in x, the coefficients and the operator's values; forward mode and `vmap`
    work in x and the coefficients, and in x.
    """
    if x.numel() == 0:
        unused = sum((value.sum() for value in operator.values), coefficients.sum())
        return per_row(coefficients[0], group) * x + 0 * unused
    learned = (coefficients, *operator.values)
    keep = torch.is_grad_enabled() and any(each.requires_grad for each in learned)
    out, _ = _Series.apply(operator, keep, None, x, coefficients, group, *operator.values)
    return out


def resumed_series(
    operator: "SeriesOperator",
    kept: Tensor,
    x: Tensor,
    coefficients: Tensor,
    group: Tensor | None,
) -> Tensor:
    """A series that was evaluated before: zeros in place of the values, the right derivative.

    Args:
        operator: the same as then.
        kept: what its `evaluate` returned beside the values.
        x: [N, M], as then, like all that follow.
        coefficients: [K + 1, S, G, C].
        group: [N] or None.
    """
    out, _ = _Series.apply(operator, True, kept, x, coefficients, group, *operator.values)
    return out


class _Series(torch.autograd.Function):
    """(operator, keep, kept, x, coefficients, group, *values) -> the series, and what is kept."""

    @staticmethod
    def forward(
        operator: "SeriesOperator",
        keep: bool,
        kept: Tensor | None,
        x: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
        *values: Tensor,
    ) -> tuple[Tensor, Tensor]:
        if kept is not None:
            return x.new_zeros(()).expand(coefficients.size(1), *x.shape), x.new_empty(0)
        return operator.with_values(values).evaluate(x, coefficients, group, keep)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        operator, _, given, x, coefficients, group, *values = inputs
        kept = output[1] if given is None else given
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.operator = operator.with_values(())  # the values themselves are saved as tensors
        ctx.save_for_backward(kept, coefficients, group, *values)
        ctx.save_for_forward(x, coefficients, group, *values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
        kept, coefficients, group, *values = ctx.saved_tensors
        if grad is None:
            return (None,) * (6 + len(values))
        needs = any(ctx.needs_input_grad[6:]), ctx.needs_input_grad[4]
        grad_x, grad_coefficients, *grad_values = _Adjoint.apply(
            ctx.operator, needs, kept, coefficients, group, grad, *values
        )
        return None, None, None, grad_x, grad_coefficients, None, *grad_values

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, None]:
        x, coefficients, group, *values = ctx.saved_tensors
        operator = ctx.operator.with_values(values)
        _, _, _, of_x, of_coefficients, _, *of_values = tangents
        if any(each is not None for each in of_values):
            _refuse("forward-mode derivatives in the edge weights")
        total: Tensor | None = None
        for signal, c in ((of_x, coefficients), (x, of_coefficients)):
            if signal is not None and c is not None:
                part, _ = operator.evaluate(signal, c, group, False)
                total = part if total is None else total + part
        return total, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *inputs: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, None]]:
        operator, keep, kept, x, coefficients, group, *values = inputs
        if any(dim is not None for at, dim in enumerate(in_dims) if at != 3):
            _refuse("'vmap' over anything but the signal")
        columns = x.movedim(in_dims[3], 1).flatten(1)  # [N, B M]
        c = _repeated(coefficients, info.batch_size)
        out, kept = _Series.apply(operator, keep, kept, columns, c, group, *values)
        return (out.unflatten(-1, (info.batch_size, -1)), kept), (2, None)


class _Adjoint(torch.autograd.Function):
    """(operator, needs, kept, coefficients, group, grad, *values) -> gradients."""

    @staticmethod
    def forward(
        operator: "SeriesOperator",
        needs: tuple[bool, bool],
        kept: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
        grad: Tensor,
        *values: Tensor,
    ) -> tuple[Tensor | None, ...]:
        from .operator import Needs

        # A backward pass may be called under an autocast that the forward pass was not.
        with full_precision(grad.device):
            found = operator.with_values(values).differentiate(
                kept, coefficients, group, grad, Needs(*needs)
            )
        return found.x, found.coefficients, *(found.values or (None,) * len(values))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        pass

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        _refuse("a second derivative")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        operator, needs, kept, coefficients, group, grad, *values = inputs
        if any(dim is not None for at, dim in enumerate(in_dims) if at != 5) or any(needs):
            _refuse("derivatives in weights or times, signal by signal,")
        columns = grad.movedim(in_dims[5], 2).flatten(2)  # [S, N, B M]
        c = _repeated(coefficients, info.batch_size)
        grad_x, *others = _Adjoint.apply(operator, needs, kept, c, group, columns, *values)
        return (grad_x.unflatten(-1, (info.batch_size, -1)), *others), (1, *[None] * len(others))


def _repeated(coefficients: Tensor, count: int) -> Tensor:
    """Coefficients for so many signals side by side."""
    return coefficients.repeat(1, 1, 1, count) if coefficients.size(-1) > 1 else coefficients


def _refuse(what: str) -> None:
    raise NotImplementedError(
        f"Expected backend='reference' for {what} (got a backend that computes in bounded memory). "
        "To fix this, pass backend='reference', which leaves everything to autograd."
    )
