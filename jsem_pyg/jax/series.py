"""Polynomials of S, sum over k of c_k T_k(S) x, by three kernels.

- "reference": a plain `lax.scan`; every transform of JAX works, and reverse mode stores all terms.
- "xla": the same with the derivative of :mod:`jsem_pyg.kernels.chebyshev.adjoint`, whose recurrence
  runs backwards from the last two terms, so that memory does not grow with their number.
- "numba": a call from XLA into the kernels of torch's side on the CPU, where XLA's scatter is slow.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array, lax

from ..kernels.chebyshev import Needs
from ..kernels.csr import CSR
from ..kernels.table import CHEBYSHEV
from .operator import Matrix

# Columns go by tiles whose messages, a number for each entry of S and column, take this much.
_MESSAGES = 1 << 24


def reference_series(matrix: Matrix, x: Array, coefficients: Array, group: Array | None) -> Array:
    """[N, M] and coefficients [K + 1, S, G, C] -> [S, N, M]; group [N] or None for one."""
    return _evaluate(matrix, x, coefficients, group)[0]


def _product(matrix: Matrix, x: Array) -> Array:
    messages = matrix.values[:, None] * x[matrix.col]
    return jax.ops.segment_sum(messages, matrix.row, x.shape[0])


def _per_row(coefficient: Array, group: Array | None) -> Array:
    """[S, G, C] -> [S, N or 1, C]."""
    return coefficient if group is None else coefficient[:, group]


def _evaluate(
    matrix: Matrix, x: Array, coefficients: Array, group: Array | None
) -> tuple[Array, tuple[Array, Array]]:
    """The series, and its last two terms T_(K-1) and T_K."""
    out = _per_row(coefficients[0], group) * x
    if coefficients.shape[0] == 1:
        return out, (x, x)
    term = _product(matrix, x)
    out = out + _per_row(coefficients[1], group) * term

    def step(carry: tuple[Array, Array, Array], c: Array) -> tuple[Any, None]:
        before, term, out = carry
        before, term = term, 2 * _product(matrix, term) - before
        return (before, term, out + _per_row(c, group) * term), None

    (before, term, out), _ = lax.scan(step, (x, term, out), coefficients[2:])
    return out, (before, term)


def _differentiate(
    matrix: Matrix, last: tuple[Array, Array], coefficients: Array, group: Array | None, grad: Array
) -> tuple[Array, Array, Array]:
    """The gradients of the values, of x and of the coefficients, for that of the series."""
    count = coefficients.shape[0]

    def scaled(c: Array) -> Array:
        return (_per_row(c, group) * grad).sum(0)

    def project(term: Array) -> Array:
        products = grad * term  # [S, N, M]
        if coefficients.shape[-1] == 1:
            products = products.sum(-1, keepdims=True)
        if group is None:
            return products.sum(1, keepdims=True)
        zeros = jnp.zeros((products.shape[0], coefficients.shape[2], products.shape[2]), x_dtype)
        return zeros.at[:, group].add(products)

    def step(
        carry: tuple[Array, ...], c_and_twice: tuple[Array, Array]
    ) -> tuple[tuple[Array, ...], Array]:
        # b = B_k, b_after = B_(k+1), term = T_k, before = T_(k-1); c is c_(k-1).
        b, b_after, before, term, of_values = carry
        c, twice = c_and_twice
        of_c = project(term)
        messages = b[matrix.row] * before[matrix.col]
        of_values = of_values + twice * messages.sum(-1)
        b, b_after = twice * _product(matrix, b) - b_after + scaled(c), b
        before, term = 2 * _product(matrix, before) - term, before
        return (b, b_after, before, term, of_values), of_c

    x_dtype = grad.dtype
    b = scaled(coefficients[-1])
    carry = (b, jnp.zeros_like(b), *last, jnp.zeros_like(matrix.values))
    twice = jnp.full(count - 1, 2, x_dtype).at[-1:].set(1)  # 2 - [k = 1], for k = K..1
    carry, of_c = lax.scan(step, carry, (coefficients[-2::-1], twice))
    b, _, _, term, of_values = carry
    of_first = project(term if count > 1 else last[1])
    return of_values, b, jnp.concatenate([of_first[None], of_c[::-1]])


def _tiled(
    work: Callable[..., Any], num_entries: int, columns: tuple[Array, ...], c: Array
) -> tuple[Any, int]:
    """Map `work(*columns of a tile, coefficients of a tile)` over tiles; and the tile's width."""
    num_columns = columns[0].shape[-1]
    width = max(16, min(num_columns, _MESSAGES // max(num_entries, 1)))
    if width >= num_columns:
        out = work(*columns, c)
        return jax.tree.map(lambda each: each[None], out), num_columns
    count = -(-num_columns // width)

    def split(each: Array) -> Array:
        pad = [(0, 0)] * (each.ndim - 1) + [(0, count * width - each.shape[-1])]
        return jnp.moveaxis(jnp.pad(each, pad).reshape(*each.shape[:-1], count, width), -2, 0)

    tiles = tuple(map(split, columns))
    if c.shape[-1] == 1:
        return lax.map(lambda each: work(*each, c), tiles), width
    return lax.map(lambda each: work(*each), (*tiles, split(c))), width


def _join(tiles: Array, num_columns: int) -> Array:
    """[tiles, ..., width] -> [..., M]."""
    joined = jnp.moveaxis(tiles, 0, -2)
    return joined.reshape(*joined.shape[:-2], -1)[..., :num_columns]


class XlaKernel:
    """Both passes in `jax.numpy`, tile by tile."""

    def evaluate(
        self, matrix: Matrix, x: Array, coefficients: Array, group: Array | None, keep: bool
    ) -> tuple[Array, Any]:
        """The series [S, N, M], and what the backward pass needs, tile by tile."""

        def work(x: Array, c: Array) -> Any:
            return _evaluate(matrix, x, c, group)

        (out, kept), _ = _tiled(work, matrix.values.size, (x,), coefficients)
        return _join(out, x.shape[1]), kept

    def differentiate(
        self, matrix: Matrix, kept: Any, coefficients: Array, group: Array | None, grad: Array
    ) -> tuple[Array, Array, Array]:
        """The gradients of the values, of x and of the coefficients."""
        num_columns = grad.shape[-1]
        before, term = (_join(each, num_columns) for each in kept)

        def work(before: Array, term: Array, grad: Array, c: Array) -> Any:
            return _differentiate(matrix, (before, term), c, group, grad)

        (of_values, of_x, of_c), _ = _tiled(
            work, matrix.values.size, (before, term, grad), coefficients
        )
        of_c = of_c.sum(0) if coefficients.shape[-1] == 1 else _join(of_c, num_columns)
        return of_values.sum(0), _join(of_x, num_columns), of_c


class NumbaKernel:
    """Both passes by the kernel of torch's side, called from XLA.

    Args:
        csr: the pattern.
        order: where the entries of the pattern lie among those of the matrix; None: as they are.
    """

    def __init__(self, csr: CSR, order: torch.Tensor | None) -> None:
        self.csr, self.order = csr, order
        self.kernel = CHEBYSHEV.find("numba", torch.device("cpu")).SparseOperator

    def _operator(self, values: Any) -> Any:
        values = _tensor(values)
        return self.kernel(self.csr, values if self.order is None else values[self.order])

    def evaluate(
        self, matrix: Matrix, x: Array, coefficients: Array, group: Array | None, keep: bool
    ) -> tuple[Array, Any]:
        """The series [S, N, M], and what the backward pass needs: nothing unless `keep`."""
        dtype = _torch_dtype(x.dtype)
        kept_shape = self.kernel.kept_shape(*x.shape, dtype) if keep else (0, 0, 0)
        shapes = (
            jax.ShapeDtypeStruct((coefficients.shape[1], *x.shape), x.dtype),
            jax.ShapeDtypeStruct(kept_shape, x.dtype),
        )

        def compute(values: Any, x: Any, c: Any, group: Any) -> tuple[np.ndarray, ...]:
            tensors = _tensor(x), _tensor(c), _group(group)
            out, kept = self._operator(values).evaluate(*tensors, keep)
            return out.numpy(), kept.numpy()

        arguments = (matrix.values, x, coefficients, group)
        out, kept = jax.pure_callback(compute, shapes, *arguments, vmap_method="sequential")
        return out, kept

    def differentiate(
        self, matrix: Matrix, kept: Any, coefficients: Array, group: Array | None, grad: Array
    ) -> tuple[Array, Array, Array]:
        """The gradients of the values, of x and of the coefficients."""
        like = [matrix.values, jax.ShapeDtypeStruct(grad.shape[1:], grad.dtype), coefficients]
        shapes = tuple(jax.ShapeDtypeStruct(each.shape, each.dtype) for each in like)

        def compute(values: Any, kept: Any, c: Any, group: Any, grad: Any) -> Any:
            arguments = _tensor(kept), _tensor(c), _group(group), _tensor(grad)
            found = self._operator(values).differentiate(*arguments, Needs(True, True))
            (of_values,) = found.values
            if self.order is not None:
                of_values = torch.empty_like(of_values).scatter_(
                    0, self.order.long(), of_values
                )
            return of_values.numpy(), found.x.numpy(), found.coefficients.numpy()

        arguments = (matrix.values, kept, coefficients, group, grad)
        of_values, of_x, of_c = jax.pure_callback(
            compute, shapes, *arguments, vmap_method="sequential"
        )
        return of_values, of_x, of_c


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def bounded_series(
    kernel: XlaKernel | NumbaKernel,
    matrix: Matrix,
    x: Array,
    coefficients: Array,
    group: Array | None,
) -> Array:
    """See :func:`reference_series`; differentiable once, in memory that does not grow with K."""
    return kernel.evaluate(matrix, x, coefficients, group, False)[0]


def _forward(
    kernel: Any, matrix: Matrix, x: Array, coefficients: Array, group: Array | None
) -> tuple[Array, Any]:
    out, kept = kernel.evaluate(matrix, x, coefficients, group, True)
    return out, (matrix, kept, coefficients, group)


def _backward(kernel: Any, kept: Any, grad: Array) -> tuple[Any, ...]:
    matrix, last, coefficients, group = kept
    of_values, of_x, of_c = kernel.differentiate(matrix, last, coefficients, group, grad)
    return Matrix(of_values, None, None), of_x, of_c, None  # type: ignore[arg-type]


bounded_series.defvjp(_forward, _backward)


def _tensor(array: Any) -> torch.Tensor:
    """A copy: what XLA hands over lives no longer than the call, and must not be written to."""
    return torch.from_numpy(np.array(array))


def _group(group: Any) -> torch.Tensor | None:
    return None if group is None else _tensor(group).long()


def _torch_dtype(dtype: Any) -> torch.dtype:
    return torch.float32 if dtype == np.float32 else torch.float64
