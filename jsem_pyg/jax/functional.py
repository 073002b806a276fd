"""Diffuse heat as a function of arrays."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array

from .._checks import check_choice, check_num_nodes, check_signal_range
from ..diffusion.evolve import series_coefficients
from ..diffusion.heat_coefficients import LONGEST, cosine_table, sample_count
from ..diffusion.options import HeatOptions
from ..diffusion.times import Times, is_single, read_times
from ..operators import HeatOperator, Scaling
from .graph import Graph, prepare_graph
from .numba_call import numba_obstacle, numba_series
from .operator import JaxOperator, heat_operator, series

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
    x = _floats("x", x)
    if x.ndim < 2:
        raise ValueError(f"Expected 'x' to have shape [..., N, D] (got {list(x.shape)}).")
    if is_known(x):
        check_signal_range("x", known(x))
    graph = edge_index if isinstance(edge_index, Graph) else prepare_graph(edge_index, x.shape[-2])
    check_num_nodes(graph.num_nodes, x.shape[-2])
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    operator = heat_operator(graph, _weights(edge_weight, graph, dtype), normalization)
    coefficients = _coefficients(t, x.shape[-1], operator, options, dtype)
    out = _evolve(x.astype(dtype), graph, operator, coefficients, backend).astype(x.dtype)
    return out.squeeze(-3) if is_single(t) else out


def _choose(backend: str) -> str:
    """Return the backend to take; raise a ValueError for one that cannot run."""
    check_choice("backend", backend, BACKENDS)
    if backend == "xla":
        return backend
    obstacle = numba_obstacle()
    if backend == "numba" and obstacle is not None:
        raise ValueError(f"Expected a 'backend' that can run (got 'numba': {obstacle}). 'xla' can.")
    return "xla" if obstacle else "numba"


def is_known(value: Any) -> bool:
    """Return True if the numbers of an array can be looked at: not under `jit` or `vmap`."""
    return not isinstance(value, jax.core.Tracer) or value.to_concrete_value() is not None


def known(value: Any) -> torch.Tensor:
    """Return the numbers of an array that is known, also if `grad` traces it."""
    array = np.array(value.to_concrete_value() if isinstance(value, jax.core.Tracer) else value)
    if array.dtype.kind not in "biuf":  # bfloat16, which torch cannot read from NumPy
        array = array.astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(array))


def _floats(name: str, value: Any) -> Array:
    """Read a floating-point array."""
    if not isinstance(value, Array | np.ndarray) or not jnp.issubdtype(value.dtype, jnp.floating):
        got = getattr(value, "dtype", "") if isinstance(value, Array | np.ndarray) else type(value)
        raise TypeError(
            f"Expected '{name}' to be a floating-point array of JAX or NumPy (got {got}). To fix "
            "this, pass jnp.asarray(...) of it, or of a tensor's .numpy()."
        )
    return jnp.asarray(value)


def _weights(edge_weight: Any, graph: Graph, dtype: Any) -> Array:
    """Read weights [E] in `dtype`; ones for None."""
    if edge_weight is None:
        return jnp.ones(graph.num_edges, dtype)
    weight = _floats("edge_weight", edge_weight).astype(dtype)
    if is_known(weight):
        graph.structure.check_weight(known(weight))
    elif weight.shape != (graph.num_edges,):
        raise ValueError(
            f"Expected 'edge_weight' to have shape [{graph.num_edges}], one entry for each column "
            f"of 'edge_index' (got {list(weight.shape)})."
        )
    return weight


def _coefficients(
    t: Any, channels: int, operator: JaxOperator, options: HeatOptions, dtype: Any
) -> Array:
    """Compute the coefficients [K + 1, S, 1 or D] of the series."""
    rate = 1.0 if operator.rate is None else operator.rate
    if not is_known(t):
        if not jnp.issubdtype(t.dtype, jnp.floating):
            raise TypeError(f"Expected 't' to hold real numbers (got {t.dtype}).")
        shape = read_times(torch.zeros(t.shape), channels).value.shape
        return _hidden_coefficients(t.reshape(*shape), rate, options, dtype)
    checked = read_times(known(t) if isinstance(t, Array) else t, channels)
    times = t.reshape(*checked.value.shape) if isinstance(t, Array) else checked.value.numpy()
    if not is_known(rate):
        return _hidden_coefficients(jnp.asarray(times), rate, options, dtype)
    rate = float(known(rate))
    degree = _degree(checked, rate, operator.row_scale, options, dtype)
    return _sampled(jnp.asarray(times) * rate, degree, rate * checked.longest, dtype)


def _degree(
    times: Times, rate: float, row_scale: Array | None, options: HeatOptions, dtype: Any
) -> int:
    """Return the degree that torch's side takes for these times, with its checks and warnings."""
    condition = 1.0
    if row_scale is not None and row_scale.size:
        condition = _CONDITION
        if is_known(row_scale):
            roots = known(row_scale)
            condition = float(roots.max() / roots.min())
    scaled = HeatOperator(None, Scaling(rate, condition=condition))  # type: ignore[arg-type]
    kind = torch.float32 if dtype == jnp.float32 else torch.float64
    return len(series_coefficients(scaled, times, options, kind)) - 1


def _hidden_coefficients(
    times: Array, rate: Array | float, options: HeatOptions, dtype: Any
) -> Array:
    """Compute the coefficients of times that tracing hides."""
    if options.degree is None:
        raise ValueError(
            "Expected 'degree' to be given where jit or vmap hides what it depends on, times or, "
            "with normalization=None, weights (got None). To fix this, pass degree="
            "jsem_pyg.diffusion.heat_degree(t_max, 0.01 * tol) for the longest time t_max in units "
            "of the fastest rate, or make 't' a number of Python."
        )
    times = jnp.where(times >= 0, times, jnp.nan)  # which nothing has checked
    return _sampled(times * rate, options.degree, LONGEST, dtype)


def _sampled(times: Array, degree: int, longest: float, dtype: Any) -> Array:
    """Sum samples of exp(-t (1 - s)) to coefficients, as `coefficients_at` does for torch."""
    rate, cosines = cosine_table(degree, sample_count(degree, longest))
    sums = jnp.einsum(
        "km,msd->ksd", cosines, jnp.expm1(-rate[..., None] * times), precision="highest"
    )
    return sums.at[0].add(1.0).astype(dtype)


@partial(jax.jit, static_argnames="backend")
def _evolve(x: Array, graph: Graph, operator: JaxOperator, c: Array, backend: str) -> Array:
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
