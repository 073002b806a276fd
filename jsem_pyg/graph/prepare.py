"""The reader of graphs: a graph is read, prepared or remembered, and checked."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._checks import check_device, check_edge_vector, check_signal_range, has_tiny
from .adjacency import Adjacency, read_adjacency
from .memory import CheckLog, Memory
from .rows import GraphRows
from .structure import GraphStructure


class Reader:
    """Remembers the last structures, and which values have passed their checks on them.

    On a CPU all values are looked at, weights and features once as long as they stay the same. On
    other devices a look would make the device wait, so there it comes with the first values that a
    structure meets.

    Args:
        size: how many structures to remember; zero: none.
        by_entries: see :class:`~jsem_pyg.graph.memory.Memory`.
    """

    def __init__(self, size: int = 1, by_entries: bool = False) -> None:
        self._structures = Memory(size, by_entries)
        self._weights = Memory(min(size, 1), by_entries)
        self._attrs = Memory(min(size, 1), by_entries)

    @staticmethod
    def _check(
        structure: CheckLog,
        name: str,
        values: Tensor,
        x: Tensor,
        check: Callable[[Tensor], None],
        memory: Memory | None = None,
    ) -> None:
        """Call `check(values)` unless these have passed, or must not be looked at any more."""
        check_device(name, values.device, x)
        if values.device.type != "cpu" and structure.has_passed(name):
            return
        if memory is None:
            check(values)
        else:
            memory.recall((values,), lambda: check(values), structure)
        structure.note_passed(name)

    @staticmethod
    def _widen(weight: Tensor, is_whole: bool = True) -> Tensor:
        """Weights in float64, where float32 has too few digits for them (on a CPU).

        A process that has a part of the rows does not know what the others have, so all widen.
        """
        if weight.device.type != "cpu" or weight.dtype == torch.float64:
            return weight
        return weight.double() if not is_whole or has_tiny(weight) else weight

    def _check_signal(self, structure: CheckLog, x: Tensor) -> None:
        self._check(structure, "x", x, x, lambda x: check_signal_range("x", x))


class GraphReader(Reader):
    """Reads graphs: the only way from any form of graph to a structure."""

    def read(
        self,
        edge_index: Any,
        x: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
    ) -> tuple[GraphRows, Tensor | None]:
        """Prepare the graph of a signal x [..., N, D], and check its weights and features.

        Args:
            edge_index: any form of graph, read already or not, or prepared :class:`GraphRows`, such
                as a :class:`GraphStructure`.
            x: the signal, which is checked as well.
            edge_weight: [E] or None.
            edge_attr: [E, F] or None.

        Returns:
            The structure, and the weights [E], which a sparse tensor may bring; None: ones.

        Raises:
            TypeError: if an argument is of the wrong type.
            ValueError: if the graph is malformed, or sizes, devices or values do not fit.
        """
        structure, weight = self._structure(edge_index, x.size(-2), edge_weight)
        check_device("edge_index", structure.device, x)
        self._check_signal(structure, x)
        if weight is not None:
            check_edge_vector("edge_weight", weight, structure.num_edges)
            check = structure.check_weight
            self._check(structure, "edge_weight", weight, x, check, self._weights)
            weight = self._widen(weight, structure.is_whole)
        if edge_attr is not None:
            check_edge_vector("edge_attr", edge_attr[:, 0], structure.num_edges)
            self._check(structure, "edge_attr", edge_attr, x, structure.check_attr, self._attrs)
        return structure, weight

    def _structure(
        self, edge_index: Any, num_nodes: int, edge_weight: Tensor | None
    ) -> tuple[GraphRows, Tensor | None]:
        if isinstance(edge_index, GraphRows):
            check_num_nodes(edge_index, num_nodes)
            return edge_index, edge_weight
        if type(edge_index) is Tensor and edge_index.layout == torch.strided:
            # Known by itself, so that a graph which is remembered is not read again.
            structure = self._structures.recall(
                (edge_index,), lambda: GraphStructure(edge_index, num_nodes), num_nodes, False
            )
            return structure, edge_weight
        is_read = isinstance(edge_index, Adjacency)
        adjacency = edge_index if is_read else read_adjacency(edge_index, num_nodes)
        structure = self._structures.recall(
            adjacency.identity,
            lambda: GraphStructure.from_adjacency(adjacency, num_nodes),
            num_nodes,
            adjacency.rows_are_targets,
        )
        return structure, choose_weight(adjacency.weight, edge_weight)


def read_edges(
    edge_index: Any, edge_weight: Tensor | None, num_nodes: int
) -> tuple[Adjacency, Tensor | None]:
    """Any form of graph as its edges and weights, for compiled code, which cannot prepare it.

    Raises:
        NotImplementedError: if these are rows of one process among others.
    """
    if isinstance(edge_index, GraphRows) and not edge_index.is_whole:
        raise NotImplementedError(
            "Expected a whole graph in compiled code (got the rows of one process). To fix this, "
            "call the layer or function without torch.compile or torch.export."
        )
    if isinstance(edge_index, GraphStructure):
        check_num_nodes(edge_index, num_nodes)
        target, source = edge_index.edges
        return Adjacency(target, source, None, (), True), edge_weight
    adjacency = read_adjacency(edge_index, num_nodes)
    return adjacency, choose_weight(adjacency.weight, edge_weight)


def check_num_nodes(structure: GraphRows, num_nodes: int) -> None:
    """Raise unless a prepared structure has as many nodes as x."""
    if structure.num_nodes != num_nodes:
        raise ValueError(
            f"Expected 'x' to have {structure.num_nodes} nodes, as the prepared 'edge_index' "
            f"(got {num_nodes})."
        )


def choose_weight(stored: Tensor | None, given: Tensor | None) -> Tensor | None:
    """The weights that a sparse tensor stores or those given beside it, but not both."""
    if stored is not None and given is not None:
        raise ValueError(
            "Expected 'edge_weight' to be None where the sparse 'edge_index' has values already "
            f"(got both, {stored.numel()} values and 'edge_weight' {list(given.shape)})."
        )
    return given if stored is None else stored
