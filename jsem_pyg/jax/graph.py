"""A graph as JAX takes it: arrays that pass through `jit`, and the structure they came from."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array

from .._checks import check_nonnegative_int
from ..graph import GraphStructure


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("row", "col", "reverse", "slot", "component"),
    meta_fields=("structure",),
)
@dataclass(frozen=True)
class Graph:
    """An undirected graph without weights, made by :func:`prepare_graph`; a pytree.

    Attributes:
        row: [nnz] int32, the row of every distinct directed edge, a *slot*; ascending.
        col: [nnz] int32, its column.
        reverse: [nnz] int32, the slot of (j, i) for the slot of (i, j).
        slot: [E] int32, the slot of every column of the `edge_index` that was given.
        component: [N] int32, the connected component of each node.
        structure: what torch's side prepared.
    """

    row: Array
    col: Array
    reverse: Array
    slot: Array
    component: Array
    structure: GraphStructure

    @property
    def num_nodes(self) -> int:
        """The number N of nodes."""
        return self.structure.num_nodes

    @property
    def num_edges(self) -> int:
        """The number E of columns of the `edge_index` that was given."""
        return self.structure.num_edges

    def to_slots(self, values: Array) -> Array:
        """[E] values of the columns of `edge_index` -> their sums [nnz], both directions' mean."""
        sums = jnp.zeros(self.row.size, values.dtype).at[self.slot].add(values)
        halves = 0.5 * sums
        return halves + halves[self.reverse]

    def row_sums(self, values: Array) -> Array:
        """[nnz] values in the slots -> [N]."""
        return jax.ops.segment_sum(values, self.row, self.num_nodes, indices_are_sorted=True)


def prepare_graph(edge_index: Any, num_nodes: int | None = None) -> Graph:
    """Sort and check a graph once, outside of `jit`.

    Args:
        edge_index: [2, E] integers, an array of JAX or NumPy or a torch tensor, with both
            directions of every edge and no self-loops; or a
            :class:`~jsem_pyg.graph.GraphStructure`, in whose place nothing is sorted again.
        num_nodes: N; None only for a structure, which knows it.

    Raises:
        TypeError: if `edge_index` is no graph, or traced by `jit`.
        ValueError: if it is directed, out of range or has self-loops.

    Example:
        >>> graph = prepare_graph(np.array([[0, 1], [1, 0]]), num_nodes=3)
        >>> graph.num_nodes, graph.component.tolist()
        (3, [0, 0, 1])
    """
    structure = edge_index
    if not isinstance(edge_index, GraphStructure):
        if num_nodes is None:
            raise TypeError("Expected 'num_nodes' to be the number of nodes (got None).")
        check_nonnegative_int("num_nodes", num_nodes)
        structure = GraphStructure(_as_torch(edge_index), num_nodes)
    elif num_nodes not in (None, structure.num_nodes):
        raise ValueError(
            f"Expected 'num_nodes' to be {structure.num_nodes}, as in the structure (got "
            f"{num_nodes})."
        )
    if max(structure.num_slots, structure.num_edges) >= 2**31:
        raise ValueError(
            f"Expected fewer than 2^31 edges, which JAX counts by int32 (got {structure.num_edges})."
        )
    parts = (structure.row, structure.col, structure.reverse, structure.slot, structure.component)
    arrays = (jnp.asarray(each.cpu().numpy().astype(np.int32)) for each in parts)
    return Graph(*arrays, structure)


def _as_torch(edge_index: Any) -> Any:
    if isinstance(edge_index, jax.core.Tracer):
        raise TypeError(
            "Expected 'edge_index' to be known outside of jit, vmap and grad, since a graph is "
            "sorted and checked on its entries (got a traced array). To fix this, call "
            "prepare_graph before, and pass the graph."
        )
    if isinstance(edge_index, Array | np.ndarray):
        entries = np.array(edge_index)  # a copy: arrays of JAX must not be written to
        if entries.dtype.kind in "iu":
            entries = entries.astype(np.int64)
        return torch.from_numpy(entries)
    return edge_index
