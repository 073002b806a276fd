"""A whole Chebyshev series as one differentiable function, for autograd and for `torch.func`."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn, Self

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..._precision import full_precision
from ..torch_func import LightFunction, check_forward_mode, is_differentiated_again
from .operator import Gradients, Operator, RequiredGradients
from .recurrence import per_row


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
        """Return the series [S, N, M], and the last two terms for the backward pass.

        The latter has the shape `kept_shape`. Unless `keep`, it has no entries, or unused ones.
        """

    @abstractmethod
    def differentiate(
        self,
        kept: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
        grad: Tensor,
        required: RequiredGradients,
    ) -> Gradients:
        """Return the gradients for `grad`, that of the series.

        `kept` stays as it is, unless ``required.is_last``.
        """

    @staticmethod
    def kept_shape(num_nodes: Any, num_columns: Any, dtype: torch.dtype) -> tuple[Any, ...]:
        """The shape of what is kept for the backward pass: by default, two terms."""
        return 2, num_nodes, num_columns

    def with_values(self, values: Sequence[Tensor]) -> Self:
        """The same operator, made of other values of the same shapes."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.values = tuple(values)
        return other

    def apply(self, x: Tensor) -> Tensor:
        """Return S x, for x [N, M]: the series T_1(S) x."""
        return self.series(x, x.new_tensor([0.0, 1.0]).reshape(2, 1, 1, 1)).squeeze(0)

    def series(self, x: Tensor, coefficients: Tensor, group: Tensor | None = None) -> Tensor:
        """Return sum c_k T_k(S) x [S, N, M] for x [N, M].

        Differentiable once, in x, the coefficients and the values. Of `torch.func`, forward mode
        and `vmap` work in x and the coefficients, and forward over reverse mode in x.
        """
        if x.numel() == 0:
            unused = sum((value.sum() for value in self.values), coefficients.sum())
            return per_row(coefficients[0], group) * x + 0 * unused
        return differentiable_series(self, x, coefficients, group)


def differentiable_series(
    operator: SeriesOperator, x: Tensor, coefficients: Tensor, group: Tensor | None
) -> Tensor:
    """The series, also where x has no entries: other processes may wait for this one."""
    learned = (coefficients, *operator.values)
    keep = torch.is_grad_enabled() and any(map(_requires_grad, learned))
    out, _ = _Series.call(operator, keep, None, x, coefficients, group, *operator.values)
    return out


def resumed_series(
    operator: SeriesOperator, kept: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None
) -> Tensor:
    """A series that was evaluated before: zeros in place of values, the right derivative."""
    out, _ = _Series.call(operator, True, kept, x, coefficients, group, *operator.values)
    return out


class _Series(LightFunction):
    """(operator, keep, kept, x, coefficients, group, *values) -> the series, and what is kept.

    Its rules call it again, so that they hold under more transforms than one.
    """

    @staticmethod
    def forward(
        operator: SeriesOperator,
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
        ctx.owns_kept = given is None  # else who gave it may need it again
        ctx.save_for_backward(kept, coefficients, group, *values)
        ctx.save_for_forward(x, coefficients, group, *values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
        kept, coefficients, group, *values = ctx.saved_tensors
        if grad is None:
            return (None,) * (6 + len(values))
        requires = any(ctx.needs_input_grad[6:]), ctx.needs_input_grad[4]
        arguments = (kept, coefficients, group, grad, *values)
        if is_differentiated_again():
            found = _Adjoint.call(ctx.operator, *requires, *arguments)
        else:
            is_last = ctx.owns_kept and not _graph_is_retained()
            found = _adjoint(ctx.operator, RequiredGradients(*requires, is_last), *arguments)
        grad_x, grad_coefficients, *grad_values = found
        return None, None, None, grad_x, grad_coefficients, None, *grad_values

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, None]:
        check_forward_mode()
        x, coefficients, group, *values = ctx.saved_tensors
        _, _, _, of_x, of_coefficients, _, *of_values = tangents
        if any(each is not None for each in of_values):
            refuse_transform("forward-mode derivatives in the edge weights")
        total: Tensor | None = None
        for signal, c in ((of_x, coefficients), (x, of_coefficients)):
            if signal is not None and c is not None:
                part = differentiable_series(ctx.operator.with_values(values), signal, c, group)
                total = part if total is None else total + part
        return total, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *inputs: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, None]]:
        operator, keep, kept, x, coefficients, group, *values = inputs
        of_x, of_c, size = in_dims[3], in_dims[4], info.batch_size
        if any(dim is not None for dim in (in_dims[2], *in_dims[5:])):
            refuse_transform("'vmap' over anything but signals and times")
        if of_x is None:  # other coefficients are other scales
            scales = coefficients.movedim(of_c, 1).flatten(1, 2)  # [K + 1, B S, G, C]
            out, kept = _Series.call(operator, keep, kept, x, scales, group, *values)
            return (out.unflatten(0, (size, -1)), kept), (0, None)
        columns = x.movedim(of_x, 1).flatten(1)  # [N, B M]
        if of_c is None:
            c = _repeated(coefficients, size)
        else:
            c = coefficients.movedim(of_c, -2)  # [K + 1, S, G, B, C]
            c = c.expand(*c.shape[:-1], columns.size(1) // size).flatten(-2)
        out, kept = _Series.call(operator, keep, kept, columns, c, group, *values)
        return (out.unflatten(-1, (size, -1)), kept), (2, None)


class _Adjoint(LightFunction):
    """(operator, *required, kept, coefficients, group, grad, *values) -> gradients."""

    @staticmethod
    def forward(
        operator: SeriesOperator,
        requires_values: bool,
        requires_coefficients: bool,
        kept: Tensor,
        coefficients: Tensor,
        group: Tensor | None,
        grad: Tensor,
        *values: Tensor,
    ) -> tuple[Tensor | None, ...]:
        required = RequiredGradients(requires_values, requires_coefficients)
        return _adjoint(operator, required, kept, coefficients, group, grad, *values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.set_materialize_grads(False)
        ctx.operator, ctx.required = inputs[0].with_values(()), inputs[1:3]
        kept, coefficients, group, _, *values = inputs[3:]
        ctx.save_for_forward(kept, coefficients, group, *values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        refuse_transform("a second derivative")

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        check_forward_mode()
        kept, coefficients, group, *values = ctx.saved_tensors
        of_grad, others = tangents[6], (*tangents[:6], *tangents[7:])
        if any(ctx.required) or any(each is not None for each in others):
            refuse_transform("a second derivative")
        # The gradient of x is linear in the one that comes in.
        return tuple(
            _Adjoint.call(ctx.operator, False, False, kept, coefficients, group, of_grad, *values)
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        operator, *required = inputs[:3]
        kept, coefficients, group, grad, *values = inputs[3:]
        if any(dim is not None for at, dim in enumerate(in_dims) if at != 6) or any(required):
            refuse_transform("derivatives in weights or times, signal by signal,")
        columns = grad.movedim(in_dims[6], 2).flatten(2)  # [S, N, B M]
        c = _repeated(coefficients, info.batch_size)
        grad_x, *others = _Adjoint.call(operator, *required, kept, c, group, columns, *values)
        return (grad_x.unflatten(-1, (info.batch_size, -1)), *others), (1, *[None] * len(others))


def _adjoint(
    operator: SeriesOperator,
    required: RequiredGradients,
    kept: Tensor,
    coefficients: Tensor,
    group: Tensor | None,
    grad: Tensor,
    *values: Tensor,
) -> tuple[Tensor | None, ...]:
    """The gradients of x, the coefficients and the values."""
    # A backward pass may be called under an autocast that the forward pass was not.
    with full_precision(grad.device):
        found = operator.with_values(values).differentiate(
            kept, coefficients, group, grad, required
        )
    return found.x, found.coefficients, *(found.values or (None,) * len(values))


def _graph_is_retained() -> bool:
    """False if autograd frees what was saved once the backward pass that is under way is over.

    torch has this for the donated buffers of `torch.compile`, under no public name.
    """
    retained = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return retained is None or bool(retained())


def _requires_grad(value: Tensor) -> bool:
    """True if a derivative may be required, by autograd or by any transform of `torch.func`."""
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        if value.requires_grad:
            return True
        value = torch._C._functorch.get_unwrapped(value)
    return value.requires_grad


def _repeated(coefficients: Tensor, count: int) -> Tensor:
    """Coefficients for `count` signals side by side."""
    return coefficients.repeat(1, 1, 1, count) if coefficients.size(-1) > 1 else coefficients


def refuse_transform(what: str) -> NoReturn:
    """Raise an error that names the backend which autograd differentiates without limits."""
    raise NotImplementedError(
        f"Expected backend='reference' for {what} (got another, which computes only the first "
        "derivatives of a whole series). To fix this, pass backend='reference', which leaves all "
        "to autograd."
    )
