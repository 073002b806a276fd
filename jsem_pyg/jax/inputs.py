"""The arguments of the adapter: read, and checked where JAX does not trace them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array

from .._checks import check_signal_range, check_unmasked, real_numbers
from .graph import Graph


def is_known(value: Any) -> bool:
    """True if the numbers of an array can be looked at: not under `jit` or `vmap`."""
    return _concrete(value) is not None


def _concrete(value: Any) -> Any:
    """What a tracer stands for, None if that is nothing yet; an array itself."""
    return value.to_concrete_value() if isinstance(value, jax.core.Tracer) else value


def known(value: Any) -> torch.Tensor:
    """The numbers of an array that is known, also where `grad` traces it."""
    array = np.array(_concrete(value), order="C")
    if array.dtype.kind != "f":  # bfloat16, which torch cannot read from NumPy
        array = array.astype(np.float32)
    return torch.from_numpy(array)


def read_signal(x: Any) -> Array:
    """A floating-point array [..., N, D]."""
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
    """Weights [E] in `dtype`; ones for None."""
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
    """Times [S, 1 or D], of NumPy where they are not traced; and whether t was a single one."""
    if isinstance(t, jax.core.Tracer):
        if not jnp.issubdtype(t.dtype, jnp.floating):
            raise TypeError(f"Expected 't' to hold real numbers (got {t.dtype}).")
    else:
        t = real_numbers("t", np.asarray(t) if isinstance(t, Array) else t).cpu().double().numpy()
    is_empty = t.ndim > 0 and t.shape[0] == 0
    if is_empty or t.ndim > 2 or (t.ndim == 2 and t.shape[1] not in (1, channels)):
        raise ValueError(
            f"Expected 't' to be a number, [S] scales or [S, D] scales and channels, with "
            f"D = {channels} (got shape {list(t.shape)})."
        )
    if is_known(t):
        values = known(t)
        if not bool(((values >= 0) & values.isfinite()).all()):
            raise ValueError(f"Expected 't' to be finite and >= 0 (got {values.tolist()}).")
    return (t if t.ndim == 2 else t.reshape(-1, 1)), t.ndim == 0


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
