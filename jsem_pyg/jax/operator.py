r"""The symmetric operator S of a weighted graph, in `jax.numpy`.

The formulas are those of :mod:`jsem_pyg.operators.laplacian`, whose results these are compared
with: :math:`\mathbf{L} = \mathrm{diag}(r) (\mathbf{I} - \mathbf{S})`.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .graph import Graph


class Matrix(NamedTuple):
    """A sparse symmetric matrix: entries at places, those of the diagonal last, if there are."""

    values: Array  # [nnz] or [nnz + N]
    row: Array
    col: Array


class HeatOperator(NamedTuple):
    """S, and what else the Laplacian is made of."""

    matrix: Matrix
    rate: Array | None  # [G] of each component; None: one everywhere
    row_scale: Array | None  # [N] the diagonal of P
    isolated: Array | None  # [N] bool, nodes that keep their features


def heat_operator(graph: Graph, edge_weight: Array, normalization: str | None) -> HeatOperator:
    """The operator of weights [E]; differentiable in them."""
    weight = graph.to_slots(edge_weight)
    if normalization is None:
        return _combinatorial(graph, weight)
    # A common factor of all weights cancels; without it no degree over- or underflows so easily.
    weight = weight / _power_of_two(jnp.max(weight, initial=0.0))
    values, degree = _normalize(graph.num_nodes, weight, graph.row, graph.col)
    isolated = degree == 0
    root = None
    if normalization == "rw":
        root = jnp.sqrt(jnp.where(isolated, 1.0, degree))
    return HeatOperator(Matrix(values, graph.row, graph.col), None, root, isolated)


def _power_of_two(value: Array) -> Array:
    value = jax.lax.stop_gradient(value)
    return jnp.where(value > 0, jnp.exp2(jnp.floor(jnp.log2(jnp.where(value > 0, value, 1)))), 1)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _normalize(num_nodes: int, a: Array, row: Array, col: Array) -> tuple[Array, Array]:
    """a_ij / sqrt(d_i d_j) and the degrees d; zero where a degree is zero.

    The derivative is written by its results, since that of a root is infinite at zero.
    """
    degree = jax.ops.segment_sum(a, row, num_nodes, indices_are_sorted=True)
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
    of_degree = jax.ops.segment_sum(of_a, row, num_nodes, indices_are_sorted=True)
    relative = 0.5 * of_degree * inverse_root * inverse_root
    of_values = of_a * inverse_root[row] * inverse_root[col] - values * (
        relative[row] + relative[col]
    )
    return (values, degree), (of_values, of_degree)


def _inverse_root(degree: Array) -> Array:
    positive = degree > 0
    return jnp.where(positive, jax.lax.rsqrt(jnp.where(positive, degree, 1.0)), 0.0)


def _combinatorial(graph: Graph, weight: Array) -> HeatOperator:
    """S = I - (D - W) / r, where r is half of the bound max(d_i + d_j) of each component."""
    degree = graph.row_sums(weight)
    half = jax.lax.stop_gradient(degree) / 2
    count = graph.structure.num_components
    rate = jnp.zeros(count, weight.dtype)
    rate = rate.at[graph.component[graph.row]].max(half[graph.row] + half[graph.col])
    largest = jnp.max(rate, initial=0.0)
    # Nothing flows in a component without weight, whatever its rate; zero would hide a gradient.
    rate = jnp.where(rate > 0, rate, jnp.where(largest > 0, largest, 1.0))
    of_node = rate[graph.component]
    nodes = jnp.arange(graph.num_nodes, dtype=graph.row.dtype)
    values = jnp.concatenate([weight / of_node[graph.row], 1 - degree / of_node])
    row, col = (jnp.concatenate([each, nodes]) for each in (graph.row, graph.col))
    return HeatOperator(Matrix(values, row, col), rate, None, None)
