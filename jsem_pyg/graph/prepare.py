"""Reads graphs: prepares or recalls them, and checks what comes with them."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from .._checks import (
    check_device,
    check_edge_vector,
    check_num_nodes,
    check_rows,
    check_signal_range,
)
from .adjacency import Adjacency, check_entry_order, read_adjacency
from .memory import Memory, Prepared
from .rows import GraphRows
from .structure import GraphStructure

T = TypeVar("T")


class GraphReader:
    """Remembers the last `size` structures, and which values have passed their checks on them.

    On a CPU all values are checked, weights and features once as long as they stay the same,
    entry by entry: a change through NumPy or `.data` leaves no other trace. On other devices a
    check would make the device wait, so there only the first values for a structure are checked.
    """

    def __init__(self, size: int = 1, by_entries: bool = False) -> None:
        self._structures = Memory(size, by_entries)
        self._checked = Memory(2 * min(size, 1), by_entries=True)  # weights and features

    def recall(self, given: tuple[Any, ...], make: Callable[[], T], *context: Any) -> T:
        """Return the structure that `make()` prepares of what was given, or the one remembered.

        With anything but dense tensors `make` is called; it refuses them.
        """
        if all(isinstance(each, Tensor) and each.layout == torch.strided for each in given):
            return self._structures.recall(given, make, *context)
        return make()

    def check_signal(self, structure: Prepared, x: Tensor) -> None:
        """Raise unless a signal is in range, and on the device of the structure."""
        check_device(structure.argument, structure.device, x)
        structure.check_once("x", x, lambda x: check_signal_range("x", x))

    def check(
        self,
        structure: Prepared,
        x: Tensor,
        name: str,
        values: Tensor,
        check: Callable[[Tensor], None],
    ) -> None:
        """Raise unless values for the signal x pass a check; the same values are checked once."""

        def recall(values: Tensor) -> None:
            self._checked.recall((values,), lambda: check(values), structure, name)

        check_device(name, values.device, x)
        structure.check_once(name, values, recall)

    def read(
        self,
        edge_index: Any,
        x: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> tuple[GraphRows, Tensor | None]:
        """Prepare the graph of a signal [..., N, D]; check it, weights [E], features [E, F].

        Returns the structure, and the weights, perhaps from a sparse tensor; None: ones.
        """
        structure, weight = self._structure(edge_index, x.size(-2), edge_weight)
        self.check_signal(structure, x)
        if weight is not None:
            check_edge_vector("edge_weight", weight, structure.num_edges)
            self.check(structure, x, "edge_weight", weight, structure.check_weight)
        if edge_attr is not None:
            check_entry_order(edge_index)
            check_rows("edge_attr", edge_attr, structure.num_edges, "column of 'edge_index'")
            self.check(structure, x, "edge_attr", edge_attr, structure.check_attr)
        return structure, weight

    def _structure(
        self, edge_index: Any, num_nodes: int, edge_weight: Tensor | None
    ) -> tuple[GraphRows, Tensor | None]:
        if isinstance(edge_index, GraphRows):
            check_num_nodes(edge_index.num_nodes, num_nodes)
            return edge_index, edge_weight
        if type(edge_index) is Tensor and edge_index.layout == torch.strided:
            # Known by itself, so that a graph which is remembered is not read again.
            structure = self.recall(
                (edge_index,), lambda: GraphStructure(edge_index, num_nodes), num_nodes, False
            )
            return structure, edge_weight
        adjacency = read_adjacency(edge_index, num_nodes)
        structure = self.recall(
            adjacency.identity,
            lambda: GraphStructure(adjacency, num_nodes),
            num_nodes,
            adjacency.rows_are_targets,
        )
        return structure, choose_weight(adjacency.weight, edge_weight)


def read_edges(
    edge_index: Any, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Adjacency, Tensor | None]:
    """Read any form of graph as edges and weights, for compiled code: it cannot prepare a graph.

    Raises:
        NotImplementedError: if these are rows of one process among others.
    """
    if isinstance(edge_index, GraphRows):
        structure = edge_index.whole(
            "in compiled code", "call the layer or function without torch.compile or torch.export"
        )
        check_num_nodes(structure.num_nodes, num_nodes)
        target, source = structure.edges
        return Adjacency(target, source, None, (), True), edge_weight
    adjacency = read_adjacency(edge_index, num_nodes)
    return adjacency, choose_weight(adjacency.weight, edge_weight)


def choose_weight(stored: Tensor | None, given: Tensor | None) -> Tensor | None:
    """Return the weights that a sparse tensor stores, or else the given ones."""
    if stored is not None and given is not None:
        raise ValueError(
            "Expected 'edge_weight' to be None where the sparse 'edge_index' has values already "
            f"(got both, {stored.numel()} values and 'edge_weight' {list(given.shape)})."
        )
    return given if stored is None else stored
