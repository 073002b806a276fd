"""Diffuse heat as a function of arrays."""

import logging
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import Array

from .._checks import check_choice
from ..diffusion.heat_coefficients import truncation_bound
from ..diffusion.options import HeatOptions
from ..diffusion.precision import is_precise, rounding_error
from ..diffusion.times import check_reach, degree_of
from .coefficients import heat_coefficients
from .graph import Graph, prepare_graph
from .inputs import is_known, known, read_signal, read_times, read_weight
from .numba_call import numba_obstacle, numba_series
from .operator import HeatOperator, heat_operator, series

_log = logging.getLogger(__name__)

BACKENDS = ("auto", "xla", "numba")

# How far the roots of degrees may lie apart, where tracing hides them: a few more terms.
_CONDITION = 1e4


def heat_diffusion(
    x: Any,
    edge_index: Any,
    edge_weight: Any = None,
    t: Any = 1.0,
    *,
    degree: int | None = None,
    tol: float = 1e-6,
    normalization: str | None = "sym",
    backend: str = "auto",
) -> Array:
    r"""Diffuse a signal on a weighted graph for the time t, in JAX.

    .. math::
        \mathbf{Y} = e^{-t \mathbf{L}} \mathbf{X}

    as :func:`jsem_pyg.diffusion.heat_diffusion` does, to the tolerance, values and gradients.
    `jit`, `vmap` and `grad` work in `x`, `edge_weight` and `t`; so do second derivatives and
    forward mode (`jvp`, `jacfwd`) with the backend "xla". An isolated node keeps its features.

    Under `jit` and `vmap` numbers cannot be looked at: the checks of `x`, weights and times, and
    the warnings about precision, need one call outside of them. Of a negative weight or time comes
    NaN there.

    Args:
        x: [..., N, D] signals; leading dimensions are batches on the same graph, which is faster
            than `vmap`. Half precision is computed in float32. float64 needs
            ``jax.config.update("jax_enable_x64", True)``; without it long times are computed in
            float32, and a warning says how much that costs.
        edge_index: what :func:`prepare_graph` returned; or, outside of `jit`, what it takes, which
            is sorted and checked in every call.
        edge_weight: [E] non-negative weights in the order of the graph's edges, the same in both
            directions (the operator takes the mean of both, so each gets half of their gradient);
            times a conductance, where one is learned. None: ones.
        t: diffusion time >= 0: a number, [S] scales, or [S, D] with a time for every scale and
            channel.
        degree: K, the number of products with S. None: the smallest that `tol` allows. Under `jit`
            and `vmap` it has to be given where it depends on traced values: on `t`, or, with
            ``normalization=None``, on the weights.
        tol: the relative error allowed. Under `jit`, with "rw", degrees are taken to lie within a
            factor of 1e8 of each other.
        normalization: "sym", "rw" or None, as in :func:`jsem_pyg.diffusion.heat_diffusion`.
        backend: "xla" (any device, every transform), "numba" (calls the kernels of torch's side on
            the CPU), or "auto": "numba" where it runs, else "xla".

    Returns:
        An array like `x`; [..., S, N, D] if `t` has scales.

    Raises:
        TypeError: if an argument is of the wrong type, or in forward mode with "numba".
        ValueError: if shapes do not fit, values are out of range, the backend cannot run, or
            `degree` has to be given and is not.
        NotImplementedError: if a second derivative is taken with "numba".

    Example:
        >>> graph = prepare_graph(jnp.array([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> y = heat_diffusion(jnp.array([[1.0], [0.0], [0.0]]), graph, normalization=None)
        >>> round(float(y.sum()), 5)  # heat is conserved
        1.0
    """
    options = HeatOptions(degree, tol, normalization)
    backend = _choose(backend)
    x = read_signal(x)
    graph = edge_index if isinstance(edge_index, Graph) else prepare_graph(edge_index, x.shape[-2])
    if graph.num_nodes != x.shape[-2]:
        raise ValueError(
            f"Expected 'x' to have {graph.num_nodes} nodes, as 'edge_index' (got {x.shape[-2]})."
        )
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    times, is_single = read_times(t, x.shape[-1])
    operator = heat_operator(graph, read_weight(edge_weight, graph, dtype), normalization)
    coefficients = _coefficients(times, operator, options, dtype)
    out = _evolve(x.astype(dtype), graph, operator, coefficients, backend).astype(x.dtype)
    return out.squeeze(-3) if is_single else out


def _choose(backend: str) -> str:
    """Return the backend to take; raise a ValueError for one that cannot run."""
    check_choice("backend", backend, BACKENDS)
    if backend not in ("auto", "numba"):
        return backend
    obstacle = numba_obstacle()
    if backend == "numba" and obstacle is not None:
        raise ValueError(f"Expected a 'backend' that can run (got 'numba': {obstacle}). 'xla' can.")
    return "xla" if obstacle else "numba"


@partial(jax.jit, static_argnames="backend")
def _evolve(x: Array, graph: Graph, operator: HeatOperator, c: Array, backend: str) -> Array:
    """Sum the series: [..., N, D] and coefficients [K + 1, S, 1 or D] -> [..., S, N, D]."""
    batch, (num_nodes, channels) = x.shape[:-2], x.shape[-2:]
    if x.size == 0:
        return jnp.zeros((*batch, c.shape[1], num_nodes, channels), x.dtype)
    scale, isolated = operator.row_scale, operator.isolated
    signal = x if scale is None else scale[:, None] * x
    columns = jnp.moveaxis(signal, -2, 0).reshape(num_nodes, -1)
    if c.shape[-1] > 1:
        c = jnp.tile(c, (1, 1, math.prod(batch)))
    matrix = operator.matrix
    if backend == "xla":
        out = series(matrix, columns, c)
    else:
        out = numba_series(graph.pattern, matrix.values, matrix.diagonal, columns, c)
    out = jnp.moveaxis(out.reshape(c.shape[1], num_nodes, *batch, channels), (0, 1), (-3, -2))
    out = out if scale is None else out / scale[:, None]
    if isolated is not None:  # nodes that keep their features, which S does not hold
        out = jnp.where(isolated[:, None], x[..., None, :, :], out)
    return out


def _coefficients(times: Any, operator: HeatOperator, options: HeatOptions, dtype: Any) -> Array:
    """Compute the coefficients [K + 1, S, 1 or D] of the series."""
    rate = operator.rate
    if rate is not None:
        times = times * (float(known(rate)) if is_known(rate) else rate)
    degree = options.degree
    if is_known(times):
        longest = float(known(times).max()) if times.size else 0.0
        check_reach(longest, 1.0)
        kind = torch.float32 if dtype == jnp.float32 else torch.float64
        if not is_precise(kind, kind, longest, options.tol):
            _log.warning(
                "rounding in %s can change the result by %.2g of its norm at t = %.3g, more than "
                "tol = %.2g allows; signals in float64 (jax_enable_x64) are more precise.",
                dtype, rounding_error(kind, longest), longest, options.tol,
            )  # fmt: skip
        if degree is None:
            degree = degree_of(longest, options.tol, kind, _condition(operator.row_scale))
        elif (error := truncation_bound(longest, degree)) > 1e-2:
            _log.warning(
                "degree=%d is too low for t = %.3g in units of the fastest rate: the result can be "
                "wrong by %.2g of the signal's norm. degree=None finds one that is high enough.",
                degree, longest, error,
            )  # fmt: skip
    elif degree is None:
        raise ValueError(
            "Expected 'degree' to be given where jit or vmap hides what it depends on, times or, "
            "with normalization=None, weights (got None). To fix this, pass degree="
            "jsem_pyg.diffusion.heat_degree(t_max, 0.01 * tol) for the longest time t_max in units "
            "of the fastest rate, or make 't' a number of Python."
        )
    return heat_coefficients(times, degree).astype(dtype)


def _condition(row_scale: Array | None) -> float:
    """Return how much scaling the rows can magnify an error."""
    if row_scale is None or row_scale.size == 0:
        return 1.0
    if not is_known(row_scale):
        return _CONDITION
    roots = known(row_scale)
    return float(roots.max() / roots.min())
