"""Diffusion as an op that torch knows, so that `torch.compile` takes it whole: no graph breaks.

The degree of the series depends on the value of t, and preparing a graph on its entries: a compiler
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
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._checks import check_edge_vector, check_finite
from ..kernels.dispatch import ChebyshevSeries, find_backend, find_halves
from ..operators import (
    CheckMemory,
    GraphMemory,
    GraphStructure,
    laplacian_operator,
    read_adjacency,
)
from .chebyshev import (
    check_device,
    check_num_nodes,
    choose_weight,
    compute_dtype,
    diffuse,
    diffusion_times,
    prepare_weight,
)

_graphs, _weights, _attrs = GraphMemory(), CheckMemory(), CheckMemory()


def registered_heat_diffusion(
    x: Tensor,
    t: Tensor,
    edge_weight: Tensor | None,
    conductance: Tensor | None,
    edge_attr: Tensor | None,
    target: Tensor,
    source: Tensor,
    degree: int | None,
    tol: float,
    normalization: str | None,
    backend: str,
) -> Tensor:
    """Diffuse with the weights `edge_weight * conductance`, either of them one where it is None.

    Args:
        x: [..., N, D].
        t: [S, 1 or D].
        edge_weight: [E].
        conductance: [E].
        edge_attr: [E, F], what the conductance comes from: it is checked, and not used.
        target: [E].
        source: [E].
        degree: as in :func:`~jsem_pyg.diffusion.heat_diffusion`, like all that follow.
        tol: the relative error allowed.
        normalization: "sym", "rw" or None.
        backend: its name.

    Returns:
        [..., S, N, D], differentiable in x, t, edge_weight and conductance.
    """
    inputs = (x, t, edge_weight, conductance)
    is_learning = torch.is_grad_enabled() and any(
        each is not None and each.requires_grad for each in inputs
    )
    out, _ = heat_diffusion_op(
        *inputs, edge_attr, target, source, degree, tol, normalization, backend,
        is_learning and normalization != "rw",
    )  # fmt: skip
    return out


@torch.library.custom_op("jsem_pyg::heat_diffusion", mutates_args=())
def heat_diffusion_op(
    x: Tensor,
    t: Tensor,
    edge_weight: Tensor | None,
    conductance: Tensor | None,
    edge_attr: Tensor | None,
    target: Tensor,
    source: Tensor,
    degree: int | None,
    tol: float,
    normalization: str | None,
    backend: str,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    """The same, and what is kept for the derivative: no entries unless `keep`."""
    structure, fresh = _graphs.get(target, source, x.size(-2))
    check_device("edge_index", structure.device, x)
    # A GPU has to wait for a look at values, so there it comes with the preparation of a graph.
    if fresh or x.device.type == "cpu":
        _check_values(structure, x, edge_weight, edge_attr)
    kept = x.new_empty(0, dtype=compute_dtype(x))
    series = find_backend(backend, x.device)
    halves = find_halves(backend, x.device) if keep and x.numel() else None
    if halves is not None:

        def series(*arguments: Any) -> Tensor:  # type: ignore[misc]
            nonlocal kept
            out, kept = halves.evaluate(*arguments, True)
            return out

    inputs = (x, t, edge_weight, conductance)
    out = _evaluate(structure, inputs, series, degree, tol, normalization)
    return out.contiguous(), kept


@heat_diffusion_op.register_fake
def _(x: Tensor, t: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    *batch, num_nodes, channels = x.shape
    *_, backend, keep = rest
    dtype = compute_dtype(x)
    halves = find_halves(backend, x.device) if keep and x.numel() else None
    columns = math.prod(batch) * channels
    shape = (0,) if halves is None else halves.kept_shape(num_nodes, columns, dtype)
    out = x.new_empty(*batch, t.size(0), num_nodes, channels)
    return out, x.new_empty(shape, dtype=dtype)


# Registered by the lower interface, since the body of a `custom_op` runs below autograd, and this
# one needs it.
torch.library.define(
    "jsem_pyg::heat_diffusion_backward",
    "(Tensor grad, bool[] needs, Tensor x, Tensor t, Tensor? edge_weight, Tensor? conductance, "
    "Tensor kept, Tensor target, Tensor source, SymInt? degree, float tol, str? normalization, "
    "str backend) -> Tensor[]",
)


@torch.library.impl("jsem_pyg::heat_diffusion_backward", "CompositeExplicitAutograd")
def _backward_op(
    grad: Tensor,
    needs: Sequence[bool],
    x: Tensor,
    t: Tensor,
    edge_weight: Tensor | None,
    conductance: Tensor | None,
    kept: Tensor,
    target: Tensor,
    source: Tensor,
    degree: int | None,
    tol: float,
    normalization: str | None,
    backend: str,
) -> list[Tensor]:
    """The gradients of those of (x, t, edge_weight, conductance) that need one."""
    structure, _ = _graphs.get(target, source, x.size(-2))
    inputs = (x, t, edge_weight, conductance)
    leaves = [
        each if each is None else each.detach().requires_grad_(need)
        for each, need in zip(inputs, needs, strict=True)
    ]
    series = find_backend(backend, x.device)
    halves = find_halves(backend, x.device)
    if halves is not None and kept.numel():
        series = partial(halves.resumed_series, kept)
    with torch.enable_grad():
        out = _evaluate(structure, leaves, series, degree, tol, normalization)
        wanted = [leaf for leaf in leaves if leaf is not None and leaf.requires_grad]
        if not out.requires_grad:  # a series of degree 0 does not look at the weights
            return [torch.zeros_like(each) for each in wanted]
        gradients = torch.autograd.grad(out, wanted, grad, materialize_grads=True)
    return [each.contiguous() for each in gradients]


@torch.library.register_fake("jsem_pyg::heat_diffusion_backward")
def _(grad: Tensor, needs: Sequence[bool], *rest: Any) -> list[Tensor]:
    inputs = zip(rest[:4], needs, strict=True)
    return [each.new_empty(each.shape) for each, need in inputs if need]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, t, edge_weight, conductance, _, target, source, *options, _ = inputs
    ctx.options = options
    ctx.save_for_backward(x, t, edge_weight, conductance, output[1], target, source)


def _differentiate(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    needs = list(ctx.needs_input_grad[:4])
    backward = torch.ops.jsem_pyg.heat_diffusion_backward
    gradients = iter(backward(grad, needs, *ctx.saved_tensors, *ctx.options))
    return (*(next(gradients) if need else None for need in needs), *[None] * 8)


heat_diffusion_op.register_autograd(_differentiate, setup_context=_remember)


def read_edges(
    edge_index: Any, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Target [E], source [E] and weight [E] of any form of graph, for the op, which checks them."""
    if isinstance(edge_index, GraphStructure):
        check_num_nodes(edge_index, num_nodes)
        target, source = edge_index.row[edge_index.slot], edge_index.col[edge_index.slot]
        return target, source, edge_weight
    adjacency = read_adjacency(edge_index, num_nodes)
    weight = choose_weight(adjacency.weight, edge_weight)
    return adjacency.target, adjacency.source, weight


def _check_values(
    structure: GraphStructure, x: Tensor, edge_weight: Tensor | None, edge_attr: Tensor | None
) -> None:
    check_finite("x", x)
    if edge_weight is not None:
        _weights.check_once(structure.check_weight, edge_weight, structure)
    if edge_attr is not None:
        check_edge_vector("edge_attr", edge_attr[:, 0], structure.num_edges)
        _attrs.check_once(structure.check_attr, edge_attr, structure)


def _evaluate(
    structure: GraphStructure,
    inputs: Sequence[Any],  # x, t, edge_weight, conductance
    series: ChebyshevSeries,
    degree: int | None,
    tol: float,
    normalization: str | None,
) -> Tensor:
    """What eager code does with a graph that it has prepared and checked."""
    x, t, edge_weight, conductance = inputs
    weight = prepare_weight(structure, edge_weight, x)
    if conductance is not None:
        weight = weight * conductance.to(weight.dtype)
    operator = laplacian_operator(structure, weight, normalization)
    return diffuse(x, operator, diffusion_times(t, x), series, degree=degree, tol=tol)
