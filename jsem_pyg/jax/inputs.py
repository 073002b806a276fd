"""Read the arguments of the adapter; those that JAX does not trace are checked."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array

from .._checks import check_signal_range, check_unmasked, real_numbers
from .graph import Graph


def is_known(value: Any) -> bool:
    """Return True if the numbers of an array can be looked at: not under `jit` or `vmap`."""
    return _concrete(value) is not None


def _concrete(value: Any) -> Any:
    """Return what a tracer stands for, None if that is nothing yet; an array itself."""
    return value.to_concrete_value() if isinstance(value, jax.core.Tracer) else value


def known(value: Any) -> torch.Tensor:
    """Return the numbers of an array that is known, also if `grad` traces it."""
    array = np.array(_concrete(value), order="C")
    if array.dtype.kind != "f":  # bfloat16, which torch cannot read from NumPy
        array = array.astype(np.float32)
    return torch.from_numpy(array)


def read_signal(x: Any) -> Array:
    """Read a floating-point array [..., N, D]."""
    given, x = x, _read_float("x", x)
    if x.ndim < 2:
        raise ValueError(f"Expected 'x' to have shape [..., N, D] (got {list(x.shape)}).")
    if is_known(x):
        if given.dtype != x.dtype and x.size:
            _check_narrowed(given, x.dtype)
        check_signal_range("x", known(x))
    return x


def _check_narrowed(x: np.ndarray, dtype: Any) -> None:
    """Raise if JAX, which has no float64 unless it is asked for, makes zeros of a column or inf."""
    range_of = np.finfo(dtype)
    largest = np.abs(x).max(-2)
    low, high = (largest > 0) & (largest < range_of.tiny), largest > range_of.max
    lost = (low | high) & np.isfinite(largest)
    if lost.any():
        raise ValueError(
            f"Expected columns of 'x' within the range of {dtype} (got one of at most "
            f"{largest[lost][0]:.3g}). To fix this, divide by the largest, and multiply the result "
            "by it, or use float64 (jax_enable_x64)."
        )


def read_weight(edge_weight: Any, graph: Graph, dtype: Any) -> Array:
    """Read weights [E] in `dtype`; ones for None."""
    if edge_weight is None:
        return jnp.ones(graph.num_edges, dtype)
    given = _read_float("edge_weight", edge_weight)
    if given.shape != (graph.num_edges,):
        raise ValueError(
            f"Expected 'edge_weight' to have shape [{graph.num_edges}], one entry for each column "
            f"of 'edge_index' (got {list(given.shape)})."
        )
    weight = given.astype(dtype)
    if is_known(given):
        numbers = known(weight)
        if isinstance(edge_weight, np.ndarray):  # which may have more digits than JAX keeps
            numbers = torch.from_numpy(np.array(edge_weight))
        graph.structure.check_weight(numbers)
    return weight


def read_times(t: Any, channels: int) -> tuple[Any, bool]:
    """Read times [S, 1 or D], of NumPy unless they are traced; and if t was a single one."""
    if isinstance(t, jax.core.Tracer):
        if not jnp.issubdtype(t.dtype, jnp.floating):
            raise TypeError(f"Expected 't' to hold real numbers (got {t.dtype}).")
        if is_known(t):
            _check_times(known(t).numpy())
    else:
        t = known_times(t)
    is_empty = t.ndim > 0 and t.shape[0] == 0
    if is_empty or t.ndim > 2 or (t.ndim == 2 and t.shape[1] not in (1, channels)):
        raise ValueError(
            f"Expected 't' to be a number, [S] scales or [S, D] scales and channels, with "
            f"D = {channels} (got shape {list(t.shape)})."
        )
    return (t if t.ndim == 2 else t.reshape(-1, 1)), t.ndim == 0


def known_times(t: Any) -> np.ndarray:
    """Read times that JAX does not trace, in float64."""
    if isinstance(t, Array):  # bfloat16 among them, which torch cannot read from NumPy
        t = np.asarray(t, np.float64 if jnp.issubdtype(t.dtype, jnp.floating) else None)
    times: np.ndarray = real_numbers("t", t).cpu().double().numpy()
    _check_times(times)
    return times


def _check_times(times: np.ndarray) -> None:
    if not bool(((times >= 0) & np.isfinite(times)).all()):
        raise ValueError(f"Expected 't' to be finite and >= 0 (got {times.tolist()}).")


def _read_float(name: str, value: Any) -> Array:
    if not isinstance(value, Array | np.ndarray):
        kind = "a torch.Tensor" if isinstance(value, torch.Tensor) else type(value).__name__
        raise TypeError(
            f"Expected '{name}' to be an array of JAX or NumPy (got {kind}). To fix this, pass "
            "jnp.asarray(...) of it, or of a tensor's .numpy()."
        )
    if not jnp.issubdtype(value.dtype, jnp.floating) or value.dtype.itemsize not in (2, 4, 8):
        raise TypeError(
            f"Expected '{name}' to be a floating-point array of 16, 32 or 64 bits (got "
            f"{value.dtype})."
        )
    check_unmasked(name, value)
    return jnp.asarray(value)
