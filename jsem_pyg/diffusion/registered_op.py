"""Diffusion as a registered op of torch, so that `torch.compile` takes it whole: no graph breaks.

The number of terms depends on the value of t, and preparing a graph on its entries: a compiler
cannot look into either. So compiled code calls ``jsem_pyg::heat_diffusion``, in which the eager
code runs, its checks included, and ``jsem_pyg::heat_diffusion_backward``, which runs the eager code
once more and differentiates it. (Keeping the autograd graph of the first pass would not do: the
compiler is free to use the memory of its inputs for something else meanwhile.) The series, which
takes nearly all of the time, is not evaluated again: the first op also returns the terms that its
derivative needs. Backends that leave the derivative to autograd do evaluate twice, and so does
``normalization="rw"``, whose derivative needs the result of the series too.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .._checks import check_edge_vector
from ..graph.adjacency import Adjacency
from ..graph.reader import GraphReader
from ..kernels.chebyshev import Operator, SeriesOperator
from ..kernels.chebyshev.series import differentiable_series
from ..kernels.table import CHEBYSHEV
from ..kernels.torch_func import compute_dtype
from .evolve import evolve, heat_operator
from .options import HeatOptions
from .times import read_times

# Compiled code may pass new entries in old memory without a trace of it, so the last graph of all
# compiled code in a process is known by its entries.
_reader = GraphReader(by_entries=True)


class _Once(Operator):
    """A series that is evaluated once: it keeps its last terms, or resumes from those given."""

    def __init__(self, matrix: SeriesOperator, kept: Tensor | None = None) -> None:
        self.num_nodes, self.matrix, self.kept = matrix.num_nodes, matrix, kept

    def apply(self, x: Tensor) -> Tensor:
        return self.matrix.apply(x)

    def series(self, x: Tensor, coefficients: Tensor) -> Tensor:
        if self.kept is not None:  # only the derivative of the result is right
            return differentiable_series(self.matrix, x, coefficients, self.kept)
        self.kept = x.new_empty(self.matrix.kept_shape(x.size(0), x.size(1), x.dtype))
        return self.matrix.evaluate(x, coefficients, self.kept.unbind())


_DEFINED = (
    "Tensor x, Tensor t, Tensor? edge_weight, Tensor? conductance, Tensor? {fourth}, "
    "Tensor row, Tensor col, SymInt? degree, float tol, str? normalization, str backend, "
    "float self_loop"
)
# By the lower interface: the body of a `custom_op` runs below autograd, and one of these needs it.
torch.library.define(
    "jsem_pyg::heat_diffusion",
    f"({_DEFINED.format(fourth='edge_attr')}, bool keep) -> (Tensor, Tensor)",
)
torch.library.define(
    "jsem_pyg::heat_diffusion_backward",
    f"(Tensor grad, bool[] needs, {_DEFINED.format(fourth='kept')}) -> Tensor[]",
)


@torch.library.impl("jsem_pyg::heat_diffusion", "CompositeExplicitAutograd")
def _forward_op(
    x: Tensor,
    t: Tensor,
    edge_weight: Tensor | None,
    conductance: Tensor | None,
    edge_attr: Tensor | None,
    row: Tensor,
    col: Tensor,
    *rest: Any,
) -> tuple[Tensor, Tensor]:
    """Diffuse a signal; return also what the derivative needs: no entries unless `keep`."""
    if forward_ad._current_level >= 0:
        # Torch would take the derivative for zero.
        raise NotImplementedError(
            "Expected no forward mode in compiled code and exported programs (got a 'jvp', "
            "'jacfwd' or dual number). To fix this, call the layer or function itself."
        )
    *settings, keep = rest
    options, times = HeatOptions(*settings), read_times(t, x.size(-1))
    structure, weight = _reader.read(_adjacency(row, col), x, edge_weight, edge_attr)
    if conductance is not None:
        check_edge_vector("conductance", conductance, structure.num_edges)
    operator = heat_operator(structure, weight, x.dtype, times, options, conductance)
    matrix, kept = operator.matrix, x.new_empty(0, dtype=compute_dtype(x))
    if not (keep and x.numel() and isinstance(matrix, SeriesOperator)):
        return evolve(x, operator, times, options).contiguous(), kept
    if operator.dtype != kept.dtype:
        # The compiler expects this shape. Long times, in float64, are evaluated again.
        columns = x.numel() // x.size(-2)
        kept = kept.new_empty(matrix.kept_shape(x.size(-2), columns, kept.dtype))
        return evolve(x, operator, times, options).contiguous(), kept
    keeping = _Once(matrix)
    out = evolve(x, replace(operator, matrix=keeping), times, options)
    assert keeping.kept is not None
    return out.contiguous(), keeping.kept


@torch.library.register_fake("jsem_pyg::heat_diffusion")
def _(x: Tensor, t: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *batch, num_nodes, channels = x.shape
    *_, backend, _, keep = rest
    dtype, shape = compute_dtype(x), (0,)
    if keep and x.numel():
        kind = CHEBYSHEV.find(backend, x.device).SparseOperator
        if issubclass(kind, SeriesOperator):
            shape = kind.kept_shape(num_nodes, math.prod(batch) * channels, dtype)
    out = x.new_empty(*batch, t.size(0), num_nodes, channels)
    return out, x.new_empty(shape, dtype=dtype)


@torch.library.impl("jsem_pyg::heat_diffusion_backward", "CompositeExplicitAutograd")
def _backward_op(
    grad: Tensor,
    needs: Sequence[bool],
    x: Tensor,
    t: Tensor,
    edge_weight: Tensor | None,
    conductance: Tensor | None,
    kept: Tensor,
    row: Tensor,
    col: Tensor,
    *settings: Any,
) -> list[Tensor]:
    """Compute the gradients of x, t, edge_weight and conductance that are needed."""
    structure, _ = _reader.read(_adjacency(row, col), x)
    leaves: list[Any] = [
        each if each is None else each.detach().requires_grad_(need)
        for each, need in zip((x, t, edge_weight, conductance), needs, strict=True)
    ]
    signal, times, weight, conducted = leaves
    options = HeatOptions(*settings)
    with torch.enable_grad():
        times = read_times(times, signal.size(-1))
        operator = heat_operator(structure, weight, signal.dtype, times, options, conducted)
        matrix = operator.matrix
        # Rows that are scaled back need the result of the series for their own derivative.
        is_scaled = operator.row_scale is not None
        is_kept = kept.numel() and kept.dtype == operator.dtype and not is_scaled
        if is_kept and isinstance(matrix, SeriesOperator):
            operator = replace(operator, matrix=_Once(matrix, kept))
        out = evolve(signal, operator, times, options)
        wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        if not out.requires_grad:  # a series of a single term does not look at the weights
            return [torch.zeros_like(each) for each in wanted]
        gradients = torch.autograd.grad(out, wanted, grad, materialize_grads=True)
    return [each.contiguous() for each in gradients]


@torch.library.register_fake("jsem_pyg::heat_diffusion_backward")
def _(grad: Tensor, needs: Sequence[bool], *rest: Any) -> list[Tensor]:
    inputs = zip(rest[:4], needs, strict=True)
    return [each.new_empty(each.shape) for each, need in inputs if need]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, t, edge_weight, conductance, _, row, col, *options, _ = inputs
    ctx.options = options
    ctx.save_for_backward(x, t, edge_weight, conductance, output[1], row, col)


def _differentiate(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled():  # torch would take the derivative of the gradient for zero
        raise NotImplementedError(
            "Expected first derivatives of compiled code and exported programs (got "
            "create_graph=True). To fix this, call the layer or function itself, with "
            "backend='reference'."
        )
    needs = list(ctx.needs_input_grad[:4])
    backward = torch.ops.jsem_pyg.heat_diffusion_backward
    gradients = iter(backward(grad, needs, *ctx.saved_tensors, *ctx.options))
    return (*(next(gradients) if need else None for need in needs), *[None] * 9)


torch.library.register_autograd("jsem_pyg::heat_diffusion", _differentiate, setup_context=_remember)


def _adjacency(row: Tensor, col: Tensor) -> Adjacency:
    return Adjacency(row, col, None, (row, col), False)
