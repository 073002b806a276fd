"""Polynomials of S, sum over k of c_k T_k(S) x, in `jax.numpy`: every transform of JAX works."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from .operator import Matrix

# Columns go by tiles whose messages, a number for each entry of S and column, are as many as this.
_MESSAGES = 1 << 24


def series(matrix: Matrix, x: Array, coefficients: Array) -> Array:
    """[N, M] and coefficients [K + 1, S, 1 or M] -> [S, N, M].

    A derivative computes the terms of each tile again, so that those of one tile are in memory.
    """
    num_columns = x.shape[1]
    width = min(max(16, _MESSAGES // max(matrix.values.size, 1)), num_columns)
    count = -(-num_columns // width)

    def split(each: Array) -> Array:
        pad = [(0, 0)] * (each.ndim - 1) + [(0, count * width - num_columns)]
        return jnp.moveaxis(jnp.pad(each, pad).reshape(*each.shape[:-1], count, width), -2, 0)

    @jax.checkpoint
    def evaluate(x: Array, c: Array = coefficients) -> Array:
        return _evaluate(matrix, x, c)

    by_column = (x,) if coefficients.shape[-1] == 1 else (x, coefficients)
    out = jnp.moveaxis(lax.map(lambda tile: evaluate(*tile), tuple(map(split, by_column))), 0, -2)
    return out.reshape(*out.shape[:2], -1)[..., :num_columns]


def _evaluate(matrix: Matrix, x: Array, c: Array) -> Array:
    """[N, M] and [K + 1, S, 1 or M] -> [S, N, M]."""
    c = c[:, :, None]
    out = c[0] * x
    if c.shape[0] == 1:
        return out
    term = _product(matrix, x)

    def step(carry: tuple[Array, Array, Array], c: Array) -> tuple[Any, None]:
        before, term, out = carry
        before, term = term, 2 * _product(matrix, term) - before
        return (before, term, out + c * term), None

    (_, _, out), _ = lax.scan(step, (x, term, out + c[1] * term), c[2:])
    return out


@jax.checkpoint
def _product(matrix: Matrix, x: Array) -> Array:
    messages = matrix.values[:, None] * x[matrix.col]
    out = jax.ops.segment_sum(messages, matrix.row, x.shape[0], indices_are_sorted=True)
    return out if matrix.diagonal is None else out + matrix.diagonal[:, None] * x
