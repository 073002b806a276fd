"""Remembers prepared graphs, so that a training loop prepares and checks a graph once.

A memory is a tuple of immutable entries that is swapped in one step: threads that share a layer may
prepare a graph twice, but never see half of an entry.
"""

from abc import ABC
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor

from .._checks import numbers_of

T = TypeVar("T")


class Prepared(ABC):
    """Abstract: a graph, hypergraph or complex, sorted and checked once, as the reader sees it."""

    argument: ClassVar[str] = "edge_index"  # the name by which users hand it over
    device: torch.device  # of the index tensors
    _passed: frozenset[str] = frozenset()  # names of values that have passed a check

    def check_once(self, name: str, values: Tensor, check: Callable[[Tensor], None]) -> None:
        """Call `check(values)`; on a GPU, only until one has passed, since it has to wait."""
        if values.device.type != "cpu" and name in self._passed:
            return
        check(values)
        self._passed = self._passed | {name}


class _Entry(NamedTuple):
    """A value derived from tensors."""

    key: Any
    tensors: tuple[Tensor, ...]  # kept alive, so that no other tensor can take their place
    made: Any


class Memory:
    """Keeps the last few results, by the tensors that they were made of.

    Tensors are the same as before if they share memory, shape and version with them: what is
    remembered is kept alive, so no other tensor can take its place in memory, and a change in place
    raises the version. A change through `.data` or an array of NumPy's leaves no trace: after one,
    prepare the graph anew, as a :class:`~jsem_pyg.graph.GraphStructure`. Tensors that were made in
    `torch.inference_mode` have no version, and nothing that is made of them is kept.

    Args:
        size: how many results.
        by_entries: compare tensors entry by entry instead; this keeps a copy of them.
    """

    def __init__(self, size: int = 1, by_entries: bool = False) -> None:
        self.size, self.by_entries = size, by_entries
        self._entries: tuple[_Entry, ...] = ()

    def recall(self, tensors: tuple[Tensor, ...], make: Callable[[], T], *context: Any) -> T:
        """Return the result for `tensors` in this context: the one remembered, or `make()`.

        Contexts are compared by `==`, or for structures by identity.
        """
        # `numbers_of` detaches, so that no autograd graph is kept alive with the memory.
        tensors = tuple(map(numbers_of, tensors))
        if not self.by_entries and any(each.is_inference() for each in tensors):
            return make()
        key = (context, *map(self._identity, tensors))
        known = self._entries  # read once: another thread may swap it
        for entry in known:
            if entry.key == key and (
                not self.by_entries or all(map(torch.equal, entry.tensors, tensors))
            ):
                found: T = entry.made
                return found
        if self.by_entries:
            tensors = tuple(each.clone() for each in tensors)
        made = make()
        self._entries = (_Entry(key, tensors, made), *known)[: self.size]
        return made

    def _identity(self, tensor: Tensor) -> tuple[Any, ...]:
        seen = tensor.device, tensor.dtype, tensor.shape
        if self.by_entries:
            return seen
        return *seen, tensor.data_ptr(), tensor.stride(), tensor._version

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_entries": ()}  # a copied or unpickled layer starts empty
