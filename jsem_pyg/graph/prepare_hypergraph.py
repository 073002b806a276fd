"""Reads hypergraphs in every form that PyG has: memberships, or a `HyperGraphData`."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data.hypergraph_data import HyperGraphData

from .._checks import check_nonnegative_int
from .hypergraph_structure import HypergraphStructure
from .prepare import GraphReader


def read_hypergraph(
    reader: GraphReader,
    hypergraph: Any,
    x: Tensor,
    weight: Tensor | None = None,
    num_hyperedges: int | None = None,
) -> tuple[HypergraphStructure, Tensor | None]:
    """Prepare the hypergraph of a signal, and check the signal and the weights.

    Of a `HyperGraphData` are read: `edge_index` (the memberships), `edge_weight` (of hyperedges, if
    there are any and none are given), and `num_hyperedges`, if it is set.

    Returns the structure, and the weights [E]; None: ones.

    Raises:
        ValueError: if sizes, devices or values do not fit, or PyG numbered the hypergraphs of a
            batch wrongly.
    """
    if isinstance(hypergraph, HyperGraphData) and weight is None:
        weight = hypergraph.get("edge_weight")
    structure = prepare_hypergraph(reader, hypergraph, x.size(-2), num_hyperedges)
    reader.check_signal(structure, x)
    if weight is not None:
        structure.check_weight_shape(weight)
        reader.check(structure, x, "hyperedge_weight", weight, structure.check_weight)
    return structure, weight


def prepare_hypergraph(
    reader: GraphReader, hypergraph: Any, num_nodes: int, num_hyperedges: int | None = None
) -> HypergraphStructure:
    """Prepare or remember the structure alone; see :func:`read_hypergraph`."""
    if num_hyperedges is not None:
        check_nonnegative_int("num_hyperedges", num_hyperedges)
    if isinstance(hypergraph, HypergraphStructure):
        _check_sizes(hypergraph, num_nodes, num_hyperedges)
        return hypergraph
    data = hypergraph if isinstance(hypergraph, HyperGraphData) else None
    index = hypergraph if data is None else data.get("edge_index")
    count = num_hyperedges if data is None else _count_hyperedges(data, num_hyperedges)

    def make() -> HypergraphStructure:
        structure = HypergraphStructure(index, num_nodes, count)
        if data is not None:
            _check_batch(data)
        return structure

    return reader.recall((index,), make, num_nodes, count)


def _check_sizes(
    structure: HypergraphStructure, num_nodes: int, num_hyperedges: int | None
) -> None:
    if structure.num_nodes != num_nodes or num_hyperedges not in (None, structure.num_hyperedges):
        given = "" if num_hyperedges is None else f" and 'num_hyperedges' = {num_hyperedges}"
        raise ValueError(
            f"Expected 'x' to have {structure.num_nodes} nodes, and {structure.num_hyperedges} "
            f"hyperedges, as the prepared 'hyperedge_index' (got {num_nodes} nodes{given})."
        )


def _count_hyperedges(data: HyperGraphData, given: int | None) -> int | None:
    """Count the hyperedges by their attributes: PyG itself forgets empty ones at the end."""
    if given is not None:
        return given
    stored = data.get("num_hyperedges")
    if stored is not None:  # in a batch a number for each hypergraph
        return int(torch.as_tensor(stored).sum())
    carried = (data.get("edge_weight"), data.get("edge_attr"))
    return next((each.size(0) for each in carried if each is not None), None)


def _check_batch(data: HyperGraphData) -> None:
    """Raise if a `Batch` numbers nodes or hyperedges in another way than it stacks features.

    PyG counts the hyperedges of each hypergraph as the largest number in use, and the nodes too
    if both counts agree: an empty hyperedge or an isolated node at the end shifts what follows.
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
    """Raise unless every hypergraph's numbers start at its first row of features."""
    if stacked is not None and not torch.equal(numbered, stacked):
        raise ValueError(
            f"Expected a batch that numbers {what} as it stacks their features (got hypergraphs "
            f"that start at {numbered.tolist()}, features at {stacked.tolist()}): PyG miscounts "
            f"where the last {what} of a hypergraph are in no membership. To fix this, put {what} "
            "without memberships first, or concatenate the 'hyperedge_index' yourself."
        )
