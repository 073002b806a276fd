"""Every form in which PyG users hand over a hypergraph, read into one, and remembered."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data.hypergraph_data import HyperGraphData

from .cache import LastSeen
from .hypergraph_structure import HypergraphStructure


class Hypergraph(NamedTuple):
    """A hypergraph as handed over: its structure, and what else the form carries."""

    structure: HypergraphStructure
    weight: Tensor | None  # [E]
    attr: Tensor | None  # [E, F]
    fresh: bool  # whether the structure was prepared in this very call


class HypergraphCache(LastSeen):
    """Remembers the structure of the last hypergraph."""

    def __init__(self) -> None:
        super().__init__()
        self._structure: HypergraphStructure | None = None
        self._sizes: tuple[int, int | None] | None = None

    def get(
        self, index: Tensor, num_nodes: int, num_hyperedges: int | None
    ) -> tuple[HypergraphStructure, bool]:
        """Return the structure, and whether it was prepared in this very call."""
        known, sizes = self._structure, (num_nodes, num_hyperedges)
        if isinstance(index, Tensor) and not self.is_new(index) and known and sizes == self._sizes:
            return known, False
        self._structure = None  # so that a hypergraph that is refused leaves nothing behind
        self._structure = HypergraphStructure(index, num_nodes, num_hyperedges)
        self._sizes = sizes
        return self._structure, True


def read_hypergraph(
    hypergraph: Any,
    num_nodes: int,
    num_hyperedges: int | None = None,
    cache: HypergraphCache | None = None,
) -> Hypergraph:
    """Read memberships [2, M], a `HyperGraphData` or a batch of them, or a prepared structure.

    Of a `HyperGraphData` are read: `edge_index` (the memberships), `edge_weight` and `edge_attr`
    (of hyperedges, where there are any), and `num_hyperedges`, where somebody has set it.

    Args:
        hypergraph: any of these.
        num_nodes: the number N of nodes of the signal.
        num_hyperedges: the number E of hyperedges; None: as many as the form says.
        cache: what remembers the last structure; None prepares it anew.

    Raises:
        TypeError: if `hypergraph` is none of these.
        ValueError: if the sizes do not fit, or PyG numbered the hypergraphs of a batch wrongly.
    """
    if isinstance(hypergraph, HypergraphStructure):
        _check_sizes(hypergraph, num_nodes, num_hyperedges)
        return Hypergraph(hypergraph, None, None, False)
    weight = attr = None
    index, is_data = hypergraph, isinstance(hypergraph, HyperGraphData)
    if is_data:
        index, weight, attr = (
            hypergraph.get(f"edge_{name}") for name in ("index", "weight", "attr")
        )
        num_hyperedges = _count_hyperedges(hypergraph, weight, attr, num_hyperedges)
    cache = HypergraphCache() if cache is None else cache
    structure, fresh = cache.get(index, num_nodes, num_hyperedges)
    if fresh and is_data:
        _check_batch(hypergraph)
    return Hypergraph(structure, weight, attr, fresh)


def _check_sizes(
    structure: HypergraphStructure, num_nodes: int, num_hyperedges: int | None
) -> None:
    if structure.num_nodes != num_nodes or num_hyperedges not in (None, structure.num_hyperedges):
        given = "" if num_hyperedges is None else f" and 'num_hyperedges' = {num_hyperedges}"
        raise ValueError(
            f"Expected 'x' to have {structure.num_nodes} nodes, and {structure.num_hyperedges} "
            f"hyperedges, as the prepared 'hyperedge_index' (got {num_nodes} nodes{given})."
        )


def _count_hyperedges(
    data: HyperGraphData, weight: Tensor | None, attr: Tensor | None, given: int | None
) -> int | None:
    """The number of hyperedges, from whatever says it: PyG itself forgets empty ones at the end."""
    if given is not None:
        return given
    stored = data.get("num_hyperedges")
    if stored is not None:  # in a batch a number for each hypergraph
        return int(torch.as_tensor(stored).sum())
    return next((each.size(0) for each in (weight, attr) if each is not None), None)


def _check_batch(data: HyperGraphData) -> None:
    """Raise if a `Batch` numbered nodes or hyperedges otherwise than its features are stacked.

    PyG counts the hyperedges of each hypergraph as the largest number in use, and the nodes too
    where both counts agree: an empty hyperedge or an isolated node at the end shifts what follows.
    """
    increments = getattr(data, "_inc_dict", {}).get("edge_index")
    if increments is None:
        return
    by_node, by_hyperedge = torch.as_tensor(increments).reshape(-1, 2).cpu().unbind(1)
    slices = {key: value[:-1].cpu() for key, value in data._slice_dict.items()}
    count = data.get("num_hyperedges")
    if count is not None:
        count = torch.as_tensor(count).reshape(-1).cpu()
        slices["num_hyperedges"] = count.cumsum(0) - count
    for key in ("x", "pos"):
        _check_starts("nodes", by_node, slices.get(key))
    for key in ("edge_attr", "edge_weight", "num_hyperedges"):
        _check_starts("hyperedges", by_hyperedge, slices.get(key))


def _check_starts(what: str, numbered: Tensor, stacked: Tensor | None) -> None:
    """Raise unless every hypergraph's numbers start where its features do."""
    if stacked is not None and not torch.equal(numbered, stacked):
        raise ValueError(
            f"Expected a batch that numbers {what} as it stacks their features (got hypergraphs "
            f"that start at {numbered.tolist()}, features at {stacked.tolist()}): PyG miscounts "
            f"where the last {what} of a hypergraph are in no membership. To fix this, put {what} "
            "without memberships first, or concatenate the 'hyperedge_index' yourself."
        )
