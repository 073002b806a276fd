"""A memory of prepared graphs, so that a training loop prepares and checks a graph once.

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
        """Call `check(values)`; on a GPU, where it has to wait, only until one has passed."""
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
    """The last few results, by the tensors that they were made of.

    Tensors are the same as before if they share memory, shape and version with them: what is
    remembered is kept alive, so no other tensor can take its place in memory, and a change in place
    raises the version. A change through `.data` or an array of NumPy's leaves no trace: after one,
    prepare the graph anew, as a :class:`~jsem_pyg.graph.GraphStructure`. With ``by_entries=True``
    tensors are compared entry by entry, which costs a copy of them.
    """

    def __init__(self, size: int = 1, by_entries: bool = False) -> None:
        self.size, self.by_entries = size, by_entries
        self._entries: tuple[_Entry, ...] = ()

    def recall(self, tensors: tuple[Tensor, ...], make: Callable[[], T], *context: Any) -> T:
        """The result for `tensors` in this context: the remembered one, or that of `make()`.

        Contexts are compared by `==`, or for structures by identity.
        """
        tensors = tuple(map(numbers_of, tensors))
        key = (context, self._identity(tensors))
        known = self._entries  # read once: another thread may swap it
        for entry in known:
            if entry.key != key:
                continue
            if not self.by_entries or all(map(torch.equal, entry.tensors, tensors)):
                found: T = entry.made
                return found
        # `numbers_of` detaches, so that no autograd graph is kept alive with the memory.
        kept = tuple(each.clone() for each in tensors) if self.by_entries else tensors
        made = make()
        if self.by_entries or not any(each.is_inference() for each in tensors):
            self._entries = (_Entry(key, kept, made), *known)[: self.size]
        return made

    def _identity(self, tensors: tuple[Tensor, ...]) -> Any:
        if self.by_entries:
            return tuple((each.device, each.dtype, each.shape) for each in tensors)
        return tuple(
            # Inference tensors carry no version, so a change in place could not be seen.
            (each.data_ptr(), each.shape, each.stride(), each.dtype, each.device, each._version)
            if not each.is_inference()
            else object()
            for each in tensors
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "Memory":
        return Memory(self.size, self.by_entries)  # a copied or unpickled layer starts empty

    def __reduce__(self) -> tuple[Any, ...]:
        return (Memory, (self.size, self.by_entries))
