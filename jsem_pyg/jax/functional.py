"""Heat diffusion as a function of arrays."""

import logging
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array

from .._checks import check_choice, check_signal_range, real_numbers
from ..diffusion.heat_coefficients import LONGEST, heat_degree
from ..diffusion.options import Accuracy
from ..diffusion.precision import rounding_error
from ..kernels.table import CHEBYSHEV
from ..operators.laplacian import NORMALIZATIONS
from .coefficients import heat_coefficients
from .graph import Graph, prepare_graph
from .operator import HeatOperator, heat_operator
from .series import NumbaKernel, XlaKernel, bounded_series, reference_series

_log = logging.getLogger(__name__)

BACKENDS = ("auto", "reference", "xla", "numba")

# As in `diffusion/evolve.py`: the series is cut at a hundredth of the tolerance.
_MARGIN = 0.01

# How far the roots of degrees may lie apart, where tracing hides them: a few more terms.
_CONDITION = 1e4


def heat_diffusion(
    x: Any,
    graph: Graph | Any,
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
    `jit`, `vmap` and `grad` work in `x`, `edge_weight` and `t`; forward mode and second derivatives
    with ``backend="reference"``. Under `jit` values are not looked at: checks of `x`, weights and
    times, and the warnings about precision, need a call outside of it.

    Args:
        x: [..., N, D] signals. Half precision is computed in float32. float64, and long times in
            it, need ``jax.config.update("jax_enable_x64", True)``.
        graph: what :func:`prepare_graph` returned; or, outside of `jit`, what it takes.
        edge_weight: [E] non-negative weights in the order of the graph's edges, the same in both
            directions; times a conductance, where one is learned. None: ones.
        t: diffusion time >= 0: a number, [S] scales, or [S, D] scales and channels.
        degree: K, the number of products with S. None: the smallest that `tol` allows. Under `jit`
            it has to be given where it depends on traced values: on `t`, or, with
            ``normalization=None``, on the weights.
        tol: the relative error allowed.
        normalization: "sym", "rw" or None, as in :func:`jsem_pyg.diffusion.heat_diffusion`.
        backend: "reference" (every transform; stores all terms), "xla" (any device; memory does not
            grow with K), "numba" (extra `[numba]`: a call into the kernels of the CPU), or "auto":
            "numba" where JAX runs on the CPU and numba is installed, else "xla".

    Returns:
        An array like `x`; [..., S, N, D] if `t` has scales.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if shapes do not fit, values are out of range, the backend cannot run, or
            `degree` has to be given and is not.

    Example:
        >>> graph = prepare_graph(np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> y = heat_diffusion(jnp.array([[1.0], [0.0], [0.0]]), graph, normalization=None)
        >>> round(float(y.sum()), 5)  # heat is conserved
        1.0
    """
    accuracy = Accuracy(degree, tol)
    check_choice("normalization", normalization, NORMALIZATIONS)
    check_choice("backend", backend, BACKENDS)
    x = _read_signal(x)
    if not isinstance(graph, Graph):
        graph = prepare_graph(graph, x.shape[-2])
    if graph.num_nodes != x.shape[-2]:
        raise ValueError(
            f"Expected 'x' to have {graph.num_nodes} nodes, as 'graph' (got {x.shape[-2]})."
        )
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    times, is_single = _read_times(t, x)
    weight = _read_weight(edge_weight, graph, dtype)
    operator = heat_operator(graph, weight, normalization)
    out = _evolve(x.astype(dtype), graph, operator, times, accuracy, backend).astype(x.dtype)
    return out.squeeze(-3) if is_single else out


def _evolve(
    x: Array, graph: Graph, operator: HeatOperator, times: Any, accuracy: Accuracy, backend: str
) -> Array:
    """[..., N, D] -> [..., S, N, D]."""
    batch, (num_nodes, channels) = x.shape[:-2], x.shape[-2:]
    scale = operator.row_scale
    signal = x if scale is None else scale[:, None] * x
    columns = jnp.moveaxis(signal, -2, 0).reshape(num_nodes, math.prod(batch) * channels)
    c = _coefficients(times, operator, accuracy, x.dtype)
    if c.shape[-1] > 1:
        c = jnp.tile(c, (1, 1, 1, math.prod(batch)))
    group = graph.component if operator.rate is not None else None
    if operator.isolated is not None:  # whose nodes keep their features
        identity = jnp.zeros_like(c).at[0].set(1)
        c, group = jnp.concatenate([c, identity], axis=2), operator.isolated.astype(jnp.int32)
    out = _series(graph, operator, columns, c, group, backend)
    out = out.reshape(c.shape[1], num_nodes, *batch, channels)
    out = jnp.moveaxis(out, (0, 1), (-3, -2))
    return out if scale is None else out / scale[:, None]


def _series(
    graph: Graph,
    operator: HeatOperator,
    columns: Array,
    c: Array,
    group: Array | None,
    backend: str,
) -> Array:
    if backend == "reference" or columns.size == 0:
        return reference_series(operator.matrix, columns, c, group)
    if backend == "auto":
        can = jax.default_backend() == "cpu" and CHEBYSHEV.can_run("numba", torch.device("cpu"))
        backend = "numba" if can else "xla"
    if backend == "xla":
        return bounded_series(XlaKernel(), operator.matrix, columns, c, group)
    structure = graph.structure
    if operator.rate is None:
        kernel = NumbaKernel(structure.csr, None)
    else:
        kernel = NumbaKernel(*structure.csr_with_diagonal)
    return bounded_series(kernel, operator.matrix, columns, c, group)


def _coefficients(times: Any, operator: HeatOperator, accuracy: Accuracy, dtype: Any) -> Array:
    """[K + 1, S, G, C]."""
    times = times[:, None]
    if operator.rate is not None:
        times = times * operator.rate[:, None]
    num_terms = accuracy.degree
    if _is_known(times):
        longest = _longest(times)
        if num_terms is None:
            num_terms = _degree(longest, times, operator, accuracy.tol, dtype)
        _check_precision(longest, accuracy.tol, dtype)
    elif num_terms is None:
        raise ValueError(
            "Expected 'degree' to be given where jit hides what it depends on, times or, with "
            "normalization=None, weights (got None). To fix this, pass degree="
            "jsem_pyg.diffusion.heat_degree(t_max, 0.01 * tol) for the longest time t_max in units "
            "of the fastest rate, or make 't' a number of Python."
        )
    return heat_coefficients(times, num_terms).astype(dtype)


def _degree(
    longest: float, times: Any, operator: HeatOperator, tol: float, dtype: Any
) -> int:
    """The smallest degree that the tolerance allows, as torch's side has it."""
    bound = max(_MARGIN * tol, float(jnp.finfo(dtype).eps) / 2)
    if operator.row_scale is not None and operator.row_scale.size:
        known = _known(operator.row_scale) if _is_known(operator.row_scale) else None
        bound /= _CONDITION if known is None else float(known.max() / known.min())
    if isinstance(times, jax.core.Tracer):  # a derivative in t will come
        return max(heat_degree(longest, bound * min(longest, 1.0)), 1)
    return heat_degree(longest, bound)


def _check_precision(longest: float, tol: float, dtype: Any) -> None:
    if longest > LONGEST:
        raise ValueError(
            f"Expected 't' to be at most {LONGEST:g} in units of the fastest rate of the Laplacian "
            f"(got {longest:.3g}): beyond, rounding hides the result."
        )
    kind = torch.float32 if dtype == jnp.float32 else torch.float64
    error = rounding_error(kind, longest)
    if error > max(tol, 8 * float(jnp.finfo(dtype).eps)):
        _log.warning(
            "rounding in %s can change the result by %.2g of its norm at t = %.3g, more than "
            "tol = %.2g allows; signals in float64 (jax_enable_x64) are more precise.",
            dtype, error, longest, tol,
        )  # fmt: skip


def _read_signal(x: Any) -> Array:
    if isinstance(x, torch.Tensor):
        raise TypeError(
            "Expected 'x' to be an array of JAX or NumPy (got a torch.Tensor). To fix this, pass "
            "x.numpy(), or call jsem_pyg.diffusion.heat_diffusion."
        )
    x = jnp.asarray(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"Expected 'x' to be a floating-point array (got {x.dtype}).")
    if x.ndim < 2:
        raise ValueError(f"Expected 'x' to have shape [..., N, D] (got {list(x.shape)}).")
    if _is_known(x):
        check_signal_range("x", _known(x))
    return x


def _read_weight(edge_weight: Any, graph: Graph, dtype: Any) -> Array:
    if edge_weight is None:
        return jnp.ones(graph.num_edges, dtype)
    weight = jnp.asarray(edge_weight)
    if not jnp.issubdtype(weight.dtype, jnp.floating):
        raise TypeError(f"Expected 'edge_weight' to be a floating-point array (got {weight.dtype}).")
    if weight.shape != (graph.num_edges,):
        raise ValueError(
            f"Expected 'edge_weight' to have shape [{graph.num_edges}], one entry for each column "
            f"of 'edge_index' (got {list(weight.shape)})."
        )
    if _is_known(weight):
        graph.structure.check_weight(_known(weight))
    return weight.astype(dtype)


def _read_times(t: Any, x: Array) -> tuple[Any, bool]:
    """Times [S, 1 or D], of NumPy in float64 where they are known; and whether t was one time."""
    if not isinstance(t, jax.core.Tracer):
        t = real_numbers("t", np.asarray(t) if isinstance(t, Array) else t).numpy()
    elif not jnp.issubdtype(t.dtype, jnp.floating):
        raise TypeError(f"Expected 't' to hold real numbers (got {t.dtype}).")
    is_empty = t.ndim > 0 and t.shape[0] == 0
    if is_empty or t.ndim > 2 or (t.ndim == 2 and t.shape[1] not in (1, x.shape[-1])):
        raise ValueError(
            f"Expected 't' to be a number, [S] scales or [S, D] scales and channels, with "
            f"D = {x.shape[-1]} (got shape {list(t.shape)})."
        )
    if _is_known(t):
        values = np.asarray(_known(t))
        if not bool(((values >= 0) & np.isfinite(values)).all()):
            raise ValueError(f"Expected 't' to be finite and >= 0 (got {values.tolist()}).")
    return (t if t.ndim == 2 else t.reshape(-1, 1)), t.ndim == 0


def _is_known(value: Any) -> bool:
    """Whether the numbers of an array can be looked at: not under `jit` or `vmap`."""
    return bool(jax.core.is_concrete(value))


def _known(value: Any) -> torch.Tensor:
    """The numbers of an array, also where `grad` traces it."""
    value = jax.core.concrete_or_error(np.asarray, value)
    array = np.array(value, order="C")
    if array.dtype.kind != "f":  # bfloat16, which torch cannot read from NumPy
        array = array.astype(np.float32)
    return torch.from_numpy(array)


def _longest(times: Any) -> float:
    values = _known(times)
    return float(values.max()) if values.numel() else 0.0
