"""Both products as differentiable functions, each of which is the other's derivative."""

from typing import Any

import torch
from torch import Tensor

from ..table import EDGE_DOT
from ..torch_func import is_transformed
from . import reference

_FUSED = (torch.float32, torch.float64)  # what compiled loops take
# Products below which they save too little to be loaded for.
_MANY = 1 << 23


def edge_dot(a: Tensor, b: Tensor, i: Tensor, j: Tensor, backend: str = "auto") -> Tensor:
    """The product <a[i], b[j]> for every edge, differentiable to any order.

    Rows are of one type; perhaps a and b are the same tensor. "auto" is "torch" for little work and
    for half precision.

    Raises:
        IndexError: if an edge names a row that is not there.
    """
    if torch.compiler.is_compiling():  # a compiler fuses the definition by itself
        return reference.dots(a, b, i, j)
    is_small = i.numel() * a.size(1) < _MANY
    if backend == "auto" and (is_small or a.dtype not in _FUSED):
        backend = "torch"
    return _dots(EDGE_DOT.find(backend, a.device), a, b, i, j)


def _dots(kernel: Any, a: Tensor, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
    if _needs_definition(kernel):
        return reference.dots(a, b, i, j)
    out: Tensor = _Dots.apply(kernel, a, b, i, j)
    return out


def _sums(kernel: Any, g: Tensor, z: Tensor, i: Tensor, j: Tensor, num_rows: int) -> Tensor:
    if _needs_definition(kernel):
        return reference.sums(g, z, i, j, num_rows)
    out: Tensor = _Sums.apply(kernel, g, z, i, j, num_rows)
    return out


def _needs_definition(kernel: Any) -> bool:
    """True for the reference, and inside a transform of `torch.func`."""
    return kernel is reference or is_transformed()


class _Dots(torch.autograd.Function):
    @staticmethod
    def forward(kernel: Any, a: Tensor, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
        out: Tensor = kernel.dots(a, b, i, j)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kernel, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (a, b, i, j) = grads, ctx.saved_tensors
        _, of_a, of_b, *_ = ctx.needs_input_grad
        return (
            None,
            _sums(ctx.kernel, grad, b, i, j, a.size(0)) if of_a else None,
            _sums(ctx.kernel, grad, a, j, i, b.size(0)) if of_b else None,
            None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, _: None, da: Tensor, db: Tensor, *__: None) -> Tensor:
        a, b, i, j = ctx.saved_tensors
        return _dots(ctx.kernel, da, b, i, j) + _dots(ctx.kernel, a, db, i, j)


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(kernel: Any, g: Tensor, z: Tensor, i: Tensor, j: Tensor, num_rows: int) -> Tensor:
        out: Tensor = kernel.sums(g, z, i, j, num_rows)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.kernel, *tensors, ctx.num_rows = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,), (g, z, i, j) = grads, ctx.saved_tensors
        _, of_g, of_z, *_ = ctx.needs_input_grad
        return (
            None,
            _dots(ctx.kernel, grad, z, i, j) if of_g else None,
            _sums(ctx.kernel, g, grad, j, i, z.size(0)) if of_z else None,
            None,
            None,
            None,
        )

    @staticmethod
    def jvp(ctx: Any, _: None, dg: Tensor, dz: Tensor, *__: None) -> Tensor:
        g, z, i, j = ctx.saved_tensors
        moved = _sums(ctx.kernel, dg, z, i, j, ctx.num_rows)
        return moved + _sums(ctx.kernel, g, dz, i, j, ctx.num_rows)
