r"""Make the symmetric operator S of a weighted graph, and polynomials of it, in `jax.numpy`.

The formulas are as in :mod:`jsem_pyg.operators.laplacian`: :math:`\mathbf{L} = r (\mathbf{I} -
\mathbf{S})`. Every transform of JAX works on them.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .graph import Graph


class Matrix(NamedTuple):
    """A sparse symmetric matrix."""

    values: Array  # [nnz]
    diagonal: Array | None  # [N]; None: zeros
    row: Array  # [nnz], ascending
    col: Array


class JaxOperator(NamedTuple):
    """S, and the scaling that makes it the Laplacian."""

    matrix: Matrix
    rate: Array | None = None  # [] r; None: one
    row_scale: Array | None = None  # [N] the diagonal of P, for L = P^-1 (I - S) P; None: ones
    isolated: Array | None = None  # [N] bool, nodes that keep their features; None: see S


@partial(jax.jit, static_argnames="normalization")
def heat_operator(graph: Graph, edge_weight: Array, normalization: str | None) -> JaxOperator:
    """Make the operator of weights [E], the mean of both directions; differentiable."""
    sums = jnp.zeros(graph.row.size, edge_weight.dtype).at[graph.slot].add(edge_weight)
    weight = (sums + sums[graph.reverse]) / 2
    degree = _row_sums(graph.num_nodes, weight, graph.row)
    if normalization is None:
        return _combinatorial(graph, weight, degree)
    isolated = degree == 0
    fill = jax.lax.stop_gradient(jnp.max(degree, initial=0.0))  # of no effect
    root = jnp.sqrt(jnp.where(isolated, jnp.where(fill > 0, fill, 1.0), degree))
    values = weight * ((1 / root)[graph.row] * (1 / root)[graph.col])
    highest = jax.lax.stop_gradient(jnp.max(root, initial=0.0))
    row_scale = root / highest if normalization == "rw" else None
    matrix = Matrix(values, None, graph.row, graph.col)
    return JaxOperator(matrix, row_scale=row_scale, isolated=isolated)


def _row_sums(num_nodes: int, values: Array, row: Array) -> Array:
    return jax.ops.segment_sum(values, row, num_nodes, indices_are_sorted=True)


def _combinatorial(graph: Graph, weight: Array, degree: Array) -> JaxOperator:
    """Compute S = I - (D - W) / r, where 2 r = max(d_i + d_j) is a bound of the spectrum.

    exp(-tL) does not depend on r, so it is not differentiated.
    """
    speed = jax.lax.stop_gradient(degree)
    rate = jnp.max(speed[graph.row] + speed[graph.col], initial=0.0) / 2
    # Of a graph without weight, where nothing flows, any: a low one, for which every degree is high
    # enough, since under `jit` none is noticed that is not.
    rate = jnp.where(rate > 0, rate, 2.0**-40)
    matrix = Matrix(weight / rate, 1 - degree / rate, graph.row, graph.col)
    return JaxOperator(matrix, rate if graph.row.size else jnp.zeros_like(rate))


@jax.checkpoint
def series(matrix: Matrix, x: Array, coefficients: Array) -> Array:
    """Sum c_k T_k(S) x: [N, M] and coefficients [K + 1, S, 1 or M] -> [S, N, M].

    A derivative computes the terms again, so that none of them waits in memory for it.
    """
    c = coefficients[:, :, None]
    out = c[0] * x
    if c.shape[0] == 1:
        return out
    term = _product(matrix, x)

    def step(carry: tuple[Array, Array, Array], c: Array) -> tuple[Any, None]:
        before, term, out = carry
        before, term = term, 2 * _product(matrix, term) - before
        return (before, term, out + c * term), None

    (_, _, out), _ = jax.lax.scan(step, (x, term, out + c[1] * term), c[2:])
    return out


@jax.checkpoint
def _product(matrix: Matrix, x: Array) -> Array:
    messages = matrix.values[:, None] * x[matrix.col]
    out = jax.ops.segment_sum(messages, matrix.row, x.shape[0], indices_are_sorted=True)
    return out if matrix.diagonal is None else out + matrix.diagonal[:, None] * x
