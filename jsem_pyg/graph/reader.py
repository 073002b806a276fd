"""Reads the graph of a caller: prepares or recalls it, and checks what comes with it."""

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.typing import SparseTensor

from .._checks import (
    check_device,
    check_edge_index_shape,
    check_edge_vector,
    check_instance,
    check_nonnegative_int,
    check_num_nodes,
    check_rows,
    check_signal_range,
    numbers_of,
)
from .adjacency import Adjacency, check_entry_order, read_adjacency
from .structure import GraphRows, GraphStructure

T = TypeVar("T")

# More nodes than this, and than so many for every edge, are identifiers that were not renumbered.
_MOST_NODES, _NODES_OF_AN_EDGE = 5_000_000, 10

_REMEDY = {
    "x": "set data.x to the features [N, D]",
    "edge_index": "build a graph first, for instance with jsem_pyg.transforms.FaissKNNGraph",
    "edge_attr": "set data.edge_attr to features of the edges [E, F], for instance by "
    "jsem_pyg.transforms.EdgeGeometry",
}


class GraphReader:
    """Reads graphs, and remembers the last one and the values that have passed checks with it.

    A graph is the same as before if its tensors share memory, shape and version with those: what
    is remembered is kept alive, so no other tensor can take its place in memory, and a change in
    place raises the version. A change through `.data` or an array of NumPy's leaves no trace: after
    one, prepare the graph anew, as a :class:`~jsem_pyg.graph.GraphStructure`. Tensors that were
    made in `torch.inference_mode` have no version, and nothing that is made of them is kept.

    On a CPU values are compared with the last ones that passed a check, entry by entry, since
    they may change without a trace. On other devices a check would make the device wait, so there
    only the first values for a structure are checked.

    Args:
        keeps: whether anything is remembered; without, values are checked at every call on a CPU.
        by_entries: compare graphs entry by entry; this keeps a copy of their tensors.
    """

    def __init__(self, keeps: bool = True, by_entries: bool = False) -> None:
        self.keeps, self.by_entries = keeps, by_entries
        self._forget()

    def _forget(self) -> None:
        # What the last graph was made of, and its structure: swapped in one step, since threads
        # may share a layer. They may prepare a graph twice.
        self._last: tuple[Any, tuple[Tensor, ...], Any] = None, (), None
        # Of each structure the values that have passed a check, by name; None on a GPU.
        self._passed: WeakKeyDictionary[Any, dict[str, Tensor | None]] = WeakKeyDictionary()

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
        num_nodes, weight = x.size(-2), edge_weight
        structure: GraphRows
        if isinstance(edge_index, GraphRows):
            check_num_nodes(edge_index.num_nodes, num_nodes)
            structure = edge_index
        elif type(edge_index) is Tensor and edge_index.layout == torch.strided:
            # Known by itself, so that a graph which is remembered is not read again.
            structure = self.recall(
                (edge_index,), lambda: GraphStructure(edge_index, num_nodes), num_nodes, False
            )
        else:
            found = read_adjacency(edge_index, num_nodes)
            key = num_nodes, found.rows_are_targets
            structure = self.recall(found.identity, lambda: GraphStructure(found, num_nodes), *key)
            weight = choose_weight(found.weight, edge_weight)
        self.check_signal(structure, x)
        if weight is not None:
            check_edge_vector("edge_weight", weight, structure.num_edges)
            self.check(structure, "edge_weight", weight, structure.check_weight)
        if edge_attr is not None:
            check_entry_order(edge_index)
            check_rows("edge_attr", edge_attr, structure.num_edges, "column of 'edge_index'")
            self.check(structure, "edge_attr", edge_attr, structure.check_attr)
        return structure, weight

    def recall(self, given: tuple[Any, ...], make: Callable[[], T], *context: Any) -> T:
        """Return the structure that `make()` prepares of what was given, or the one remembered.

        Contexts are compared by `==`. With anything but dense tensors `make` is called; it refuses
        them.
        """
        is_dense = all(isinstance(each, Tensor) and each.layout == torch.strided for each in given)
        if not self.keeps or not is_dense:
            return make()
        tensors = tuple(map(numbers_of, given))  # without the graph of autograd
        if not self.by_entries and any(each.is_inference() for each in tensors):
            return make()
        is_learning = [each.requires_grad for each in given]  # which `make` may refuse
        key = context, is_learning, [_identity(each, self.by_entries) for each in tensors]
        known, before, made = self._last  # read once: another thread may swap it
        if key == known and (not self.by_entries or all(map(torch.equal, before, tensors))):
            found: T = made
            return found
        if self.by_entries:
            tensors = tuple(each.clone() for each in tensors)
        found = make()
        self._last = key, tensors, found
        return found

    def check_signal(self, structure: Any, x: Tensor, argument: str = "edge_index") -> None:
        """Raise unless a signal is in range, and on the device of the structure."""
        check_device(argument, structure.device, x.device)
        if x.device.type == "cpu":
            check_signal_range("x", x)
        else:
            self.check(structure, "x", x, lambda x: check_signal_range("x", x))

    def check(
        self, structure: Any, name: str, values: Tensor, check: Callable[[Tensor], None]
    ) -> None:
        """Raise unless values for a structure pass a check; the same values are checked once."""
        check_device(name, values.device, structure.device)
        passed = self._passed.setdefault(structure, {})
        if values.device.type != "cpu":
            if name not in passed:
                check(values)
                passed[name] = None
            return
        numbers, known = numbers_of(values), passed.get(name)
        if known is not None and known.dtype == numbers.dtype and torch.equal(known, numbers):
            return
        check(values)
        if self.keeps:
            passed[name] = numbers.clone()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is remembered: a copied or unpickled layer starts without it."""
        return {"keeps": self.keeps, "by_entries": self.by_entries}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()


def _identity(tensor: Tensor, by_entries: bool) -> tuple[Any, ...]:
    """Return what tells a tensor from others, or, `by_entries`, from those of another form."""
    seen = tensor.device, tensor.dtype, tensor.shape
    return seen if by_entries else (*seen, tensor.data_ptr(), tensor.stride(), tensor._version)


def read_structure(edge_index: Any, num_nodes: int | None = None) -> GraphStructure:
    """Prepare a graph without a signal, unless it is prepared; see :func:`count_nodes` for N."""
    size = count_nodes(edge_index, num_nodes)
    if not isinstance(edge_index, GraphStructure):
        return GraphStructure(edge_index, size)
    if size != edge_index.num_nodes:
        raise ValueError(
            f"Expected 'num_nodes' to be {edge_index.num_nodes}, as the prepared 'edge_index' "
            f"(got {num_nodes})."
        )
    return edge_index


def count_nodes(edge_index: Any, num_nodes: int | None = None, nodes: Tensor | None = None) -> int:
    """Return N: `num_nodes` if given, else the size of the graph, else the largest index + 1."""
    if num_nodes is not None:
        check_nonnegative_int("num_nodes", num_nodes)
        return int(num_nodes)
    if isinstance(edge_index, GraphStructure):
        return edge_index.num_nodes
    is_sparse = isinstance(edge_index, Tensor) and edge_index.layout != torch.strided
    if is_sparse or isinstance(edge_index, SparseTensor):
        return int(edge_index.size(0))
    check_edge_index_shape(edge_index)
    known = edge_index.sparse_size() if isinstance(edge_index, EdgeIndex) else ()
    indices = (edge_index,) if nodes is None else (edge_index, nodes)
    largest = (int(each.max()) + 1 for each in indices if each.numel())
    size = max([0, *(size or 0 for size in known), *largest])
    if size > max(_MOST_NODES, _NODES_OF_AN_EDGE * edge_index.size(1)):
        raise ValueError(
            f"Expected 'edge_index' to number the nodes from 0 on (got node {size - 1} in a graph "
            f"of {edge_index.size(1)} columns, nearly all of whose nodes have no edge). To fix "
            "this, renumber the nodes: nodes, edge_index = edge_index.unique(return_inverse=True); "
            "or, if the others are nodes as well, pass 'num_nodes'."
        )
    return size


def check_data(data: Any, *names: str) -> None:
    """Raise a TypeError or ValueError unless `data` is a `Data` that has these attributes."""
    check_instance("data", data, Data, "a torch_geometric.data.Data")
    for name in names:
        if data.get(name) is None:
            raise ValueError(
                f"Expected 'data' to have '{name}' (got {data}). To fix this error, "
                f"{_REMEDY[name]}."
            )


def read_data(data: Data, num_nodes: int | None = None) -> tuple[GraphStructure, Tensor]:
    """Check and prepare the edges of a graph; return them and their weights [E].

    Weights are ones if `data` has none. No gradient flows back to them.
    """
    check_data(data, "edge_index")
    structure = read_structure(data.edge_index, data.num_nodes if num_nodes is None else num_nodes)
    weight = data.get("edge_weight")
    if weight is None:
        return structure, torch.ones(structure.num_edges, device=structure.device)
    structure.check_weight(weight)
    return structure, weight.detach()


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
