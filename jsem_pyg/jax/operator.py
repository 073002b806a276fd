r"""The symmetric operator S of a weighted graph, in `jax.numpy`.

The formulas are those of :mod:`jsem_pyg.operators.laplacian`, with whose results these are
compared: :math:`\mathbf{L} = r (\mathbf{I} - \mathbf{S})`.
"""

from functools import partial
from typing import NamedTuple

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


class HeatOperator(NamedTuple):
    """S, and the scaling that makes it the Laplacian."""

    matrix: Matrix
    rate: Array | None = None  # [] r; None: one
    row_scale: Array | None = None  # [N] the diagonal of P, for L = P^-1 (I - S) P; None: ones
    isolated: Array | None = None  # [N] bool, nodes that keep their features; None: see S


@partial(jax.jit, static_argnames="normalization")
def heat_operator(graph: Graph, edge_weight: Array, normalization: str | None) -> HeatOperator:
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
    return HeatOperator(Matrix(values, None, graph.row, graph.col), None, row_scale, isolated)


def _row_sums(num_nodes: int, values: Array, row: Array) -> Array:
    return jax.ops.segment_sum(values, row, num_nodes, indices_are_sorted=True)


def _combinatorial(graph: Graph, weight: Array, degree: Array) -> HeatOperator:
    """Compute S = I - (D - W) / r, where 2 r = max(d_i + d_j) is a bound of the spectrum.

    exp(-tL) does not depend on r, so it is not differentiated.
    """
    speed = jax.lax.stop_gradient(degree)
    rate = jnp.max(speed[graph.row] + speed[graph.col], initial=0.0) / 2
    # Of a graph without weight, where nothing flows, any: a low one, for which every degree is high
    # enough, since under `jit` none is noticed that is not.
    rate = jnp.where(rate > 0, rate, 2.0**-40)
    matrix = Matrix(weight / rate, 1 - degree / rate, graph.row, graph.col)
    return HeatOperator(matrix, rate if graph.row.size else jnp.zeros_like(rate))
