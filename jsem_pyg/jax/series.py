"""Polynomials of S, sum over k of c_k T_k(S) x, in `jax.numpy`, with two derivatives.

- :func:`reference_series`: a plain `lax.scan`; every transform of JAX works, and the reverse mode
  stores all terms.
- :func:`bounded_series`: the same with the derivative of :mod:`jsem_pyg.kernels.chebyshev.adjoint`,
  whose recurrence runs backwards from the last two terms, so that memory does not grow with their
  number. A *kernel* does the work: :class:`XlaKernel`, or one of torch's side (:mod:`.numba_call`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array, lax

from .operator import Matrix

# Columns go by tiles whose messages, a number for each entry of S and column, are as many as this.
_MESSAGES = 1 << 24


class Gradients(NamedTuple):
    """Of a loss, in what a series is made of."""

    values: Array
    diagonal: Array | None
    x: Array
    coefficients: Array


class Kernel(Protocol):
    """Evaluates a series and its derivative; equal to any other that does the same."""

    def evaluate(self, matrix: Matrix, x: Array, coefficients: Array) -> Array:
        """[N, M] and coefficients [K + 1, S, 1 or M] -> [S, N, M]."""

    def evaluate_and_keep(self, matrix: Matrix, x: Array, coefficients: Array) -> tuple[Array, Any]:
        """The same, and what the backward pass needs, whose size does not depend on K."""

    def differentiate(
        self, matrix: Matrix, kept: Any, coefficients: Array, grad: Array
    ) -> Gradients:
        """The gradients for that of the series, [S, N, M]."""


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def bounded_series(kernel: Kernel, matrix: Matrix, x: Array, coefficients: Array) -> Array:
    """[N, M] and coefficients [K + 1, S, 1 or M] -> [S, N, M]."""
    return kernel.evaluate(matrix, x, coefficients)


def _forward(
    kernel: Kernel, matrix: Matrix, x: Array, coefficients: Array
) -> tuple[Array, tuple[Matrix, Any, Array]]:
    out, kept = kernel.evaluate_and_keep(matrix, x, coefficients)
    return out, (matrix, kept, coefficients)


def _backward(
    kernel: Kernel, residuals: tuple[Matrix, Any, Array], grad: Array
) -> tuple[Any, Array, Array]:
    found = kernel.differentiate(*residuals, grad)
    matrix = Matrix(found.values, found.diagonal, None, None)  # type: ignore[arg-type]
    return matrix, found.x, found.coefficients


bounded_series.defvjp(_forward, _backward)


def reference_series(matrix: Matrix, x: Array, coefficients: Array) -> Array:
    """[N, M] and coefficients [K + 1, S, 1 or M] -> [S, N, M]."""
    return _evaluate(matrix, x, coefficients)[0]


def _product(matrix: Matrix, x: Array) -> Array:
    messages = matrix.values[:, None] * x[matrix.col]
    out = jax.ops.segment_sum(messages, matrix.row, x.shape[0], indices_are_sorted=True)
    return out if matrix.diagonal is None else out + matrix.diagonal[:, None] * x


def _evaluate(matrix: Matrix, x: Array, coefficients: Array) -> tuple[Array, tuple[Array, Array]]:
    """The series, and its last two terms T_(K-1) and T_K."""
    c = coefficients[:, :, None]  # [K + 1, S, 1, 1 or M]
    out = c[0] * x
    if c.shape[0] == 1:
        return out, (x, x)
    term = _product(matrix, x)
    out = out + c[1] * term

    def step(carry: tuple[Array, Array, Array], c: Array) -> tuple[Any, None]:
        before, term, out = carry
        before, term = term, 2 * _product(matrix, term) - before
        return (before, term, out + c * term), None

    (before, term, out), _ = lax.scan(step, (x, term, out), c[2:])
    return out, (before, term)


def _differentiate(
    matrix: Matrix, last: tuple[Array, Array], coefficients: Array, grad: Array
) -> Gradients:
    """The adjoint, from the last two terms."""
    count = coefficients.shape[0]

    def scaled(c: Array) -> Array:
        return (c[:, None] * grad).sum(0)

    def project(term: Array) -> Array:
        of_c = (grad * term).sum(1)  # [S, M]
        return of_c if coefficients.shape[-1] > 1 else of_c.sum(1, keepdims=True)

    def step(carry: tuple[Any, ...], c_and_alpha: tuple[Array, Array]) -> tuple[Any, Array]:
        # b = B_k, b_after = B_(k+1), term = T_k, before = T_(k-1); c is c_(k-1).
        b, b_after, before, term, of_values, of_diagonal = carry
        c, alpha = c_and_alpha
        of_c = project(term)
        of_values = of_values + alpha * (b[matrix.row] * before[matrix.col]).sum(-1)
        if of_diagonal is not None:
            of_diagonal = of_diagonal + alpha * (b * before).sum(-1)
        b, b_after = alpha * _product(matrix, b) - b_after + scaled(c), b
        before, term = 2 * _product(matrix, before) - term, before
        return (b, b_after, before, term, of_values, of_diagonal), of_c

    b = scaled(coefficients[-1])
    zeros = jax.tree.map(jnp.zeros_like, (matrix.values, matrix.diagonal))
    alpha = jnp.full(count - 1, 2, grad.dtype).at[-1:].set(1)  # 2 - [k = 1], for k = K..1
    carry = (b, jnp.zeros_like(b), *last, *zeros)
    carry, of_c = lax.scan(step, carry, (coefficients[-2::-1], alpha))
    b, _, _, first, of_values, of_diagonal = carry  # after the last step T_0 stands where T_1 did
    return Gradients(of_values, of_diagonal, b, jnp.concatenate([project(first)[None], of_c[::-1]]))


class XlaKernel(NamedTuple):
    """Both passes in `jax.numpy`, tile by tile."""

    def evaluate(self, matrix: Matrix, x: Array, coefficients: Array) -> Array:
        """See :class:`Kernel`."""
        return self.evaluate_and_keep(matrix, x, coefficients)[0]

    def evaluate_and_keep(self, matrix: Matrix, x: Array, coefficients: Array) -> tuple[Array, Any]:
        """See :class:`Kernel`. Kept are T_(K-1) and T_K."""

        def work(c: Array, x: Array) -> Any:
            return _evaluate(matrix, x, c)

        found = _tiled(work, matrix.values.size, coefficients, x)
        return jax.tree.map(partial(_join, num_columns=x.shape[1]), found)

    def differentiate(
        self, matrix: Matrix, kept: Any, coefficients: Array, grad: Array
    ) -> Gradients:
        """See :class:`Kernel`."""

        def work(c: Array, before: Array, term: Array, grad: Array) -> Gradients:
            return _differentiate(matrix, (before, term), c, grad)

        found = _tiled(work, matrix.values.size, coefficients, *kept, grad)
        values, diagonal, c = jax.tree.map(
            lambda each: each.sum(0), (found.values, found.diagonal, found.coefficients)
        )
        if coefficients.shape[-1] > 1:
            c = _join(found.coefficients, grad.shape[-1])
        return Gradients(values, diagonal, _join(found.x, grad.shape[-1]), c)


def _tiled(work: Callable[..., Any], num_entries: int, coefficients: Array, *columns: Array) -> Any:
    """Map `work(coefficients, *columns)` over tiles of the last axis, zeros beyond its end."""
    num_columns = columns[0].shape[-1]
    width = min(max(16, _MESSAGES // max(num_entries, 1)), num_columns)
    count = -(-num_columns // width)
    if count == 1:
        return jax.tree.map(lambda each: each[None], work(coefficients, *columns))

    def split(each: Array) -> Array:
        pad = [(0, 0)] * (each.ndim - 1) + [(0, count * width - num_columns)]
        return jnp.moveaxis(jnp.pad(each, pad).reshape(*each.shape[:-1], count, width), -2, 0)

    tiles = tuple(map(split, columns))
    if coefficients.shape[-1] == 1:
        return lax.map(lambda each: work(coefficients, *each), tiles)
    return lax.map(lambda each: work(*each), (split(coefficients), *tiles))


def _join(tiles: Array, num_columns: int) -> Array:
    """[tiles, ..., width] -> [..., M]."""
    joined = jnp.moveaxis(tiles, 0, -2)
    return joined.reshape(*joined.shape[:-2], -1)[..., :num_columns]
