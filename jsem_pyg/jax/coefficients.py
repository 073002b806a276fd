"""Compute the Chebyshev coefficients of the heat kernel, differentiable and traceable."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.special import ive

from .._checks import check_nonnegative_int
from .inputs import known_times


def heat_coefficients(t: Any, degree: int) -> Array:
    """Compute c_0(t), ..., c_K(t), see :func:`jsem_pyg.diffusion.heat_coefficients`.

    SciPy computes them on the host in float64. Differentiable as often as one likes, and mapped
    over by `vmap`; values under `jit` are not checked: of a negative time NaN would come.

    Args:
        t: diffusion times >= 0, of any shape.
        degree: K >= 0.

    Returns:
        `[K + 1, *t.shape]` in float64 where JAX has it enabled, else in float32.

    Raises:
        TypeError: if `degree` is no integer, or `t` holds no real numbers.
        ValueError: if `degree` is negative, or a time that is not traced is negative, NaN or
            infinite.

    Example:
        >>> heat_coefficients(0.0, degree=2).tolist()
        [1.0, 0.0, 0.0]
    """
    check_nonnegative_int("degree", degree)
    if isinstance(t, jax.core.Tracer):
        bessel = _traced_bessel(degree, t.astype(float))
    else:  # so that a time in float64 keeps all its digits
        bessel = jnp.asarray(_on_host(degree, known_times(t)))
    factor = np.full(degree + 1, 2.0, bessel.dtype)
    factor[0] = 1.0
    return jnp.moveaxis(bessel * factor, -1, 0)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _scaled_bessel(degree: int, t: Array) -> Array:
    """Compute e^(-t) I_k(t) [*t.shape, K + 1]: orders last, so that batches may come first."""
    shape = jax.ShapeDtypeStruct((*t.shape, degree + 1), t.dtype)

    def compute(t: Any) -> np.ndarray:
        return _on_host(degree, np.asarray(t, np.float64)).astype(shape.dtype)

    return jax.pure_callback(compute, shape, t, vmap_method="expand_dims")


@_scaled_bessel.defjvp
def _scaled_bessel_jvp(
    degree: int, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    """Differentiate f_k: (f_(k-1) + f_(k+1)) / 2 - f_k, with f_(-1) = f_1."""
    f = _scaled_bessel(degree + 1, *primals)
    lower = jnp.concatenate([f[..., 1:2], f[..., :-2]], axis=-1)
    derivative = 0.5 * (lower + f[..., 1:]) - f[..., :-1]
    return f[..., :-1], derivative * tangents[0][..., None]


_traced_bessel = jax.jit(_scaled_bessel, static_argnums=0)  # compiled once for each degree


def _on_host(degree: int, t: np.ndarray) -> np.ndarray:
    return ive(np.arange(degree + 1.0), t[..., None])
