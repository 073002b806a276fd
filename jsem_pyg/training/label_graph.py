"""Reads the graph, the labels and the conductance of `propagate_labels`."""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Data, HeteroData

from .._checks import check_edge_type
from ..graph import GraphStructure
from ..graph.reader import check_data, read_data
from ..graph.relations import LEFT_OUT, merge_reverse, read_hetero_data, say_of_self_loops
from ..nn.conductance import as_columns, make_conductance, sees_nodes
from .training_graph import check_known_classes


class LabelGraph(NamedTuple):
    """A graph that was read and checked once."""

    structure: GraphStructure
    weight: Tensor  # [E], in single precision at least: half is too coarse to learn in
    edge_attr: Tensor | None = None  # [E, F]
    edge_type: Tensor | None = None  # [E]
    is_open: Tensor | None = None  # [R] relations that conduct: at first all that have edges
    names: Sequence[object] = ()  # of the relations
    rows: dict[str, slice] = {}  # the nodes of each type of a HeteroData  # noqa: RUF012
    given_type: Tensor | None = None  # the relation of each edge, in the order of the HeteroData
    is_edge: Tensor | None = None  # of the edges of a Data: all but self-loops; None: all are


def read_graph(data: Data | HeteroData, target: str | None) -> LabelGraph:
    """Read a graph, without self-loops; a `HeteroData` as one graph of all its nodes."""
    if isinstance(data, HeteroData):
        return _read_hetero_graph(data, target)
    if target is not None:
        raise ValueError(f"Expected 'target' to be None for a Data (got {target!r}).")
    check_data(data, "edge_index")
    edges, is_edge = data.edge_index, None
    if isinstance(edges, Tensor) and edges.layout == torch.strided and edges.shape[:-1] == (2,):
        is_edge = edges[0] != edges[1]
        if not bool(is_edge.all()):
            say_of_self_loops(LEFT_OUT)
            data = data.edge_subgraph(is_edge)
    structure, weight = read_data(data)
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    edge_attr, edge_type, is_open = data.get("edge_attr"), data.get("edge_type"), None
    if edge_attr is not None:
        structure.check_attr(edge_attr)
        edge_attr = as_columns(edge_attr, None).detach().to(weight)
    if edge_type is not None:
        check_edge_type(edge_type, structure.num_edges)
        edge_type = edge_type.to(weight.device, torch.int64) if edge_type.numel() else None
        is_open = None if edge_type is None else edge_type.bincount() > 0
    names = () if is_open is None else range(len(is_open))
    return LabelGraph(structure, weight, edge_attr, edge_type, is_open, names, is_edge=is_edge)


def _read_hetero_graph(data: HeteroData, target: str | None) -> LabelGraph:
    if target not in data.node_types:
        raise ValueError(
            "Expected 'target' to name the node type that has the labels, one of "
            f"{data.node_types} (got {target!r})."
        )
    with_attr = [name for name in data.edge_types if "edge_attr" in data[name]]
    if with_attr:
        raise ValueError(
            f"Expected a HeteroData without 'edge_attr', which is not looked at (got it for "
            f"{with_attr[0]}). To fix this, delete it, or put it into 'edge_weight'."
        )
    graph, weight = read_hetero_data(data)
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    is_open = graph.edge_type.bincount(minlength=len(graph.relations)) > 0
    member = merge_reverse(data.edge_types)[1]
    of_edges = [torch.full_like(e[0], member[name][0]) for name, e in data.edge_index_dict.items()]
    edges = graph.structure, weight, None, graph.edge_type, is_open
    return LabelGraph(*edges, graph.relations, graph.rows, torch.cat(of_edges).long())


def read_labels(labels: Tensor, graph: LabelGraph, rows: slice) -> Tensor:
    """Check labels of the labelled type; return labels [N] of all nodes, -1 where unknown."""
    everywhere = torch.full((graph.structure.num_nodes,), -1, device=graph.structure.device)
    check_known_classes(labels, len(everywhere[rows]), least=2)
    everywhere[rows] = labels.to(everywhere)
    if int(torch.bincount(everywhere[everywhere >= 0]).max()) < 2:
        raise ValueError(
            "Expected 'labels' to name two nodes of a class, one of which can be held out (got one "
            "of each). To fix this, train a DiffusionClassifier by fit, which needs one."
        )
    return everywhere


def read_conductance(graph: LabelGraph, conductance: str | Module) -> Module | None:
    """Return the module that the argument names, or a copy of it; None without edge features."""
    edge_dim = 0 if graph.edge_attr is None else graph.edge_attr.size(1)
    made = make_conductance(conductance, edge_dim, rate=1.0)
    if sees_nodes(made):
        raise ValueError(
            'Expected \'conductance\' to be "sigmoid", "mlp" or a module that takes (edge_attr), '
            f"since there are no features of nodes (got {conductance!r})."
        )
    if made is not None and graph.edge_attr is None:
        raise ValueError(
            "Expected 'data' to have 'edge_attr' [E, F] for a module as 'conductance' (got none)."
        )
    return None if made is None else copy.deepcopy(made).to(graph.weight)
