"""Prepare a graph for JAX: arrays that pass through `jit`, and the structure behind them."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array

from .._fingerprint import digest
from ..graph import GraphStructure


class Pattern:
    """A structure that is equal to any other of the same edges, so that `jit` compiles once."""

    def __init__(self, structure: GraphStructure) -> None:
        self.structure = structure
        parts = (structure.rowptr, structure.col, structure.slot)
        self._key = (structure.num_nodes, *map(digest, parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("row", "col", "reverse", "slot"),
    meta_fields=("pattern",),
)
@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph without weights, made by :func:`prepare_graph`; a pytree.

    Pass it to compiled functions as an argument, or let them close over it. Graphs of the same
    edges share what `jit` has compiled.

    Attributes:
        row: [nnz] int32, the row of every distinct directed edge, a *slot*; ascending.
        col: [nnz] int32, its column.
        reverse: [nnz] int32, the slot of (j, i) for the slot of (i, j).
        slot: [E] int32, the slot of every column of the `edge_index` that was given.
        pattern: what torch's side prepared.
    """

    row: Array
    col: Array
    reverse: Array
    slot: Array
    pattern: Pattern

    @property
    def structure(self) -> GraphStructure:
        """The graph as prepared by torch."""
        return self.pattern.structure

    @property
    def num_nodes(self) -> int:
        """The number N of nodes."""
        return self.structure.num_nodes

    @property
    def num_edges(self) -> int:
        """The number E of columns of the `edge_index` that was given."""
        return self.structure.num_edges

    def __repr__(self) -> str:
        return f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


def prepare_graph(edge_index: Any, num_nodes: int | None = None) -> Graph:
    """Sort and check a graph once, outside of `jit`.

    Args:
        edge_index: [2, E] integers, an array of JAX or NumPy or a torch tensor, with both
            directions of every edge and no self-loops; or a
            :class:`~jsem_pyg.graph.GraphStructure`, in whose place nothing is sorted again.
        num_nodes: N; a structure has its own.

    Returns:
        A :class:`Graph`, which :func:`heat_diffusion` takes in place of `edge_index`.

    Raises:
        ValueError: if it is directed, out of range or has self-loops.

    Example:
        >>> graph = prepare_graph(np.array([[0, 1], [1, 0]]), num_nodes=3)
        >>> graph
        Graph(num_nodes=3, num_edges=2)
    """
    structure = edge_index
    if not isinstance(edge_index, GraphStructure):
        if num_nodes is None:
            raise TypeError("Expected 'num_nodes' to be the number of nodes (got None).")
        structure = GraphStructure(_as_torch(edge_index), num_nodes)
    parts = (structure.row, structure.col, structure.reverse, structure.slot)
    row, col, reverse, slot = (jnp.asarray(each.cpu().numpy().astype(np.int32)) for each in parts)
    return Graph(row, col, reverse, slot, Pattern(structure))


def _as_torch(edge_index: Any) -> Any:
    if isinstance(edge_index, jax.core.Tracer):
        raise TypeError(
            "Expected 'edge_index' to be known outside of jit, vmap and grad, since a graph is "
            "sorted and checked by its entries (got a traced array). To fix this, call "
            "prepare_graph before, and pass the graph."
        )
    if isinstance(edge_index, Array | np.ndarray):
        entries = np.array(edge_index)  # a copy: arrays of JAX must not be written to
        if entries.dtype.kind not in "iu":
            raise TypeError(f"Expected 'edge_index' to hold integers (got {entries.dtype}).")
        return torch.from_numpy(entries.astype(np.int64))
    return edge_index
