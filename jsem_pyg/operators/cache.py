"""What a layer remembers of its last call, so that a training loop prepares and checks once.

A tensor is the same as before if it shares memory, shape and version with it: what is remembered is
kept alive, so no other tensor can take its place in memory, and a change in place raises the
version.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .adjacency import Adjacency
from .structure import GraphStructure


class LastSeen:
    """Recognises the tensors that were seen last."""

    def __init__(self) -> None:
        self._key: tuple[Any, ...] | None = None
        self._kept: tuple[Tensor, ...] = ()

    def is_new(self, *tensors: Tensor) -> bool:
        """Whether these are not the tensors of the last call, which they then become."""
        key = _identity(tensors)
        if key is not None and key == self._key:
            return False
        # Detached, so that no autograd graph is kept alive with the memory.
        self._key, self._kept = key, tuple(tensor.detach() for tensor in tensors)
        return True

    def check_once(
        self, check: Callable[[Tensor], None], tensor: Tensor, structure: GraphStructure
    ) -> None:
        """Call `check(tensor)` unless it has passed already, for this structure."""
        if self.is_new(tensor, structure.slot):
            passed, self._key = self._key, None  # what raises has not passed
            check(tensor)
            self._key = passed

    def __deepcopy__(self, memo: dict[int, Any]) -> "LastSeen":
        return type(self)()  # a copied or unpickled layer starts with an empty memory

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), ())


class StructureCache(LastSeen):
    """Remembers the structure of the last graph."""

    def __init__(self) -> None:
        super().__init__()
        self._structure: GraphStructure | None = None

    def get(self, adjacency: Adjacency, num_nodes: int) -> tuple[GraphStructure, bool]:
        """Return the structure, and whether it was prepared in this very call."""
        known = self._structure
        if not self.is_new(*adjacency.identity) and known and known.num_nodes == num_nodes:
            return known, False
        self._structure = None  # so that a graph that is refused leaves nothing behind
        self._structure = GraphStructure.from_adjacency(adjacency, num_nodes)
        return self._structure, True


def _identity(tensors: tuple[Tensor, ...]) -> tuple[Any, ...] | None:
    if any(tensor.is_inference() for tensor in tensors):
        return None  # such tensors carry no version, so a change in place could not be seen
    return tuple(
        (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor._version)
        for tensor in tensors
    )


class GraphMemory:
    """Remembers the structures of the last few graphs, which it knows by their entries.

    For compiled code, which may hand over new entries in old memory without a trace of it. A
    comparison reads the graph once, where preparing it would sort it.
    """

    def __init__(self, size: int = 4) -> None:
        self._known: deque[tuple[Tensor, Tensor, GraphStructure]] = deque(maxlen=size)

    def get(self, target: Tensor, source: Tensor, num_nodes: int) -> tuple[GraphStructure, bool]:
        """Return the structure, and whether it was prepared in this very call."""
        for known_target, known_source, structure in tuple(self._known):
            if (
                structure.num_nodes == num_nodes
                and known_target.device == target.device
                and known_target.dtype == target.dtype
                and torch.equal(known_target, target)
                and torch.equal(known_source, source)
            ):
                return structure, False
        target, source = target.clone(), source.clone()
        adjacency = Adjacency(target, source, None, (target, source))
        structure = GraphStructure.from_adjacency(adjacency, num_nodes)
        self._known.appendleft((target, source, structure))
        return structure, True


class CheckMemory:
    """Remembers the values that passed a check last, which it knows by their entries, too."""

    def __init__(self) -> None:
        self._structure: GraphStructure | None = None
        self._passed: Tensor | None = None

    def check_once(
        self, check: Callable[[Tensor], None], values: Tensor, structure: GraphStructure
    ) -> None:
        """Call `check(values)` unless the same values have passed already, for this structure."""
        passed = self._passed
        if (
            passed is None
            or self._structure is not structure
            or (passed.device, passed.dtype) != (values.device, values.dtype)
            or not torch.equal(passed, values)
        ):
            check(values)
            self._structure, self._passed = structure, values.detach().clone()
