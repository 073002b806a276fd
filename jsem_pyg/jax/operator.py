r"""The symmetric operator S of a weighted graph, in `jax.numpy`.

The formulas are those of :mod:`jsem_pyg.operators.laplacian`, with whose results these are
compared: :math:`\mathbf{L} = r (\mathbf{I} - \mathbf{S})`.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .graph import Graph

_SMALLEST, _LARGEST = 2.0**-60, 2.0**110  # what the largest weight may be


class Matrix(NamedTuple):
    """A sparse symmetric matrix."""

    values: Array  # [nnz]
    diagonal: Array | None  # [N]; None: zeros
    row: Array  # [nnz], ascending
    col: Array


class HeatOperator(NamedTuple):
    """S, and the scaling that makes it the Laplacian."""

    matrix: Matrix
    rate: Array | None = None  # [] r; None: one
    row_scale: Array | None = None  # [N] the diagonal of P, for L = P^-1 (I - S) P; None: ones
    isolated: Array | None = None  # [N] bool, nodes that keep their features; None: see S


@partial(jax.jit, static_argnames="normalization")
def heat_operator(graph: Graph, edge_weight: Array, normalization: str | None) -> HeatOperator:
    """The operator of weights [E], of which both directions have their mean; differentiable."""
    sums = jnp.zeros(graph.row.size, edge_weight.dtype).at[graph.slot].add(edge_weight)
    weight = 0.5 * sums + 0.5 * sums[graph.reverse]
    return _OPERATORS[normalization](graph, weight)


def _symmetric(graph: Graph, weight: Array) -> HeatOperator:
    return _normalized(graph, weight)[0]


def _random_walk(graph: Graph, weight: Array) -> HeatOperator:
    operator, degree = _normalized(graph, weight)
    # A common factor cancels; without it no signal times a root overflows. Isolated nodes stay
    # as they are.
    unit = _power_of_two(jnp.sqrt(jnp.max(degree, initial=0.0)))
    of_node, relative = _in_units(jnp.where(degree == 0, 1.0, degree))
    root = jnp.sqrt(relative) * (of_node / unit)
    return operator._replace(row_scale=jnp.where(degree == 0, 1.0, root))


def _normalized(graph: Graph, weight: Array) -> tuple[HeatOperator, Array]:
    """The symmetric operator, and the degrees [N] of the scaled weights."""
    # A common factor of all weights cancels: without it no degree over- or underflows so easily. It
    # is no larger than that takes, since the smallest weights must not underflow.
    unit = _power_of_two(jnp.max(weight, initial=0.0))
    weight = weight / (unit / jnp.clip(unit, _SMALLEST, _LARGEST))
    values, degree = _normalize(graph.num_nodes, weight, graph.row, graph.col)
    matrix = Matrix(values, None, graph.row, graph.col)
    return HeatOperator(matrix, isolated=degree == 0), degree


def _row_sums(num_nodes: int, values: Array, row: Array) -> Array:
    return jax.ops.segment_sum(values, row, num_nodes, indices_are_sorted=True)


def _power_of_two(value: Array) -> Array:
    """The largest that is at most `value`."""
    value = jax.lax.stop_gradient(value)
    _, exponent = jnp.frexp(value)
    return jnp.ldexp(jnp.ones_like(value), exponent - 1)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _normalize(num_nodes: int, a: Array, row: Array, col: Array) -> tuple[Array, Array]:
    """a_ij / sqrt(d_i d_j) and the degrees d; zero where a degree is zero.

    The derivative is written by its results, since that of a root is infinite at zero.
    """
    degree = _row_sums(num_nodes, a, row)
    inverse_root, root = _inverse_root(degree), jnp.sqrt(a)
    return root * inverse_root[row] * (root * inverse_root[col]), degree


@_normalize.defjvp
def _normalize_jvp(
    num_nodes: int, primals: tuple[Array, ...], tangents: tuple[Array, ...]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    a, row, col = primals
    of_a = tangents[0]
    values, degree = _normalize(num_nodes, a, row, col)
    inverse_root = _inverse_root(degree)
    of_degree = _row_sums(num_nodes, of_a, row)
    relative = 0.5 * of_degree * inverse_root * inverse_root
    of_values = of_a * inverse_root[row] * inverse_root[col] - values * (
        relative[row] + relative[col]
    )
    return (values, degree), (of_values, of_degree)


def _inverse_root(degree: Array) -> Array:
    positive = degree > 0
    unit, relative = _in_units(jnp.where(positive, degree, 1.0))
    return jnp.where(positive, jax.lax.rsqrt(relative) / unit, 0.0)


def _in_units(degree: Array) -> tuple[Array, Array]:
    """A power of two u near the root of each, and d / u^2, whose root has derivatives in range."""
    unit = _power_of_two(jnp.sqrt(degree))
    return unit, degree / unit / unit


def _combinatorial(graph: Graph, weight: Array) -> HeatOperator:
    """S = I - (D - W) / r, where r is half of the bound max(d_i + d_j) of the spectrum.

    exp(-tL) does not depend on r, so it is not differentiated.
    """
    degree = _row_sums(graph.num_nodes, weight, graph.row)
    half = jax.lax.stop_gradient(degree) / 2
    rate = jnp.max(half[graph.row] + half[graph.col], initial=0.0)
    # Of a graph without weight, where nothing flows, any: a low one, for which every degree is high
    # enough, since under `jit` none is noticed that is not.
    rate = jnp.where(rate > 0, rate, 2.0**-40)
    matrix = Matrix(weight / rate, 1 - degree / rate, graph.row, graph.col)
    return HeatOperator(matrix, rate if graph.row.size else jnp.zeros_like(rate))


_OPERATORS: dict[str | None, Callable[[Graph, Array], HeatOperator]] = {
    "sym": _symmetric,
    "rw": _random_walk,
    None: _combinatorial,
}
