"""Reads edges of several types (relations), each made undirected.

A heterogeneous graph has nodes of several types. The nodes of all types stand in one list, one type
after the other, so that a node has one number in the whole graph.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from .._checks import (
    check_edge_weight,
    check_float,
    check_instance,
    check_node_index,
    check_nonnegative_int,
)
from .adjacency import Adjacency, read_adjacency
from .reader import choose_weight
from .structure import GraphStructure

_log = logging.getLogger(__name__)

EdgeType = tuple[str, str, str]
Metadata = tuple[Sequence[str], Sequence[EdgeType]]


class UndirectedEdges(NamedTuple):
    """Undirected edges, each once, and how weights of the given edges become theirs."""

    relation: Tensor  #: [P] in [0, R), ascending
    source: Tensor  #: [P] the node at one end
    target: Tensor  #: [P] the node at the other end
    place: Tensor  #: [E] 4 p + form of each given edge; 4 P for one that is left out

    def forms(self, values: Tensor) -> Tensor:
        """Add up values [E, ...] of the given edges in each form of a pair: [P, 4, ...]."""
        shape = (4 * len(self.source) + 1, *values.shape[1:])
        total = values.new_zeros(shape).index_add(0, self.place, values)
        return total[:-1].unflatten(0, (-1, 4))

    def weigh(self, weight: Tensor) -> Tensor:
        """Return the weights [P] of pairs, from weights [E] of the given edges.

        Repeated edges are added up. If a pair was given in several forms, it has their mean.
        """
        given = self.forms(torch.ones_like(weight)) > 0
        return self.forms(weight).sum(1) / given.sum(1)


def read_pairs(
    source: Tensor,
    target: Tensor,
    relation: Tensor,
    num_nodes: int,
    form: Tensor,
    keep_loops: bool = False,
) -> UndirectedEdges:
    """Join edges [E] of relations [E], given in several forms [E]: numbers from 0 to 3.

    The form of an edge says in which direction it was given, and if by the reverse of its type. An
    edge between the same two nodes in another relation is another pair. Self-loops are left out,
    or are pairs of a node with itself.
    """
    is_edge = (source != target) | keep_loops
    key = (relation * num_nodes + source) * num_nodes + target
    found, pair = key[is_edge].unique(return_inverse=True)
    place = torch.full_like(source, 4 * len(found))
    place[is_edge] = 4 * pair + form[is_edge]
    source, target = found // num_nodes % num_nodes, found % num_nodes
    return UndirectedEdges(found // num_nodes**2, source, target, place)


class HeteroGraph:
    """A heterogeneous graph as one undirected graph, sorted and checked once.

    Args:
        edge_index_dict: [2, E] for an edge type (source type, relation, target type), by the
            numbers that nodes have in their type, or the transposed adjacency matrix. An edge may
            be given in one direction or both.
        num_nodes: the number of nodes of each type.
        edge_types: edge types in the order of their relations; None: as in the dictionary.
            The type (b, rev_r, a), as :class:`torch_geometric.transforms.ToUndirected` adds it,
            belongs to the relation (a, r, b).
        keep_loops: self-loops are pairs of a node with itself; otherwise they are left out.

    Attributes:
        relations: the R relations.
        rows: the nodes of each type, a slice of all nodes.
        pairs: the undirected edges.
    """

    def __init__(
        self,
        edge_index_dict: Mapping[EdgeType, Any],
        num_nodes: Mapping[str, int],
        edge_types: Sequence[EdgeType] | None = None,
        keep_loops: bool = False,
    ) -> None:
        given = list(edge_index_dict) if edge_types is None else list(edge_types)
        self.relations, self._member = merge_reverse(given)
        self.rows: dict[str, slice] = {}
        first = 0
        for node_type, count in num_nodes.items():
            self.rows[node_type] = slice(first, first + count)
            first += count
        self.num_nodes = first
        self._edge_types = tuple(edge_index_dict)
        parts = [self._read(name, edge_index_dict[name]) for name in self._edge_types]
        self._counts = [len(part[0]) for part in parts]
        if not parts:
            parts = [(torch.empty(0, dtype=torch.int64),) * 4]
        source, target, relation, form = (torch.cat(each) for each in zip(*parts, strict=True))
        if not keep_loops and bool((source == target).any()):
            say_of_self_loops(LEFT_OUT)
        self.pairs = read_pairs(source, target, relation, max(first, 1), form, keep_loops)
        times_given = self.pairs.forms(torch.ones_like(relation))
        self._has_repeated = bool((times_given > 1).any())

    @cached_property
    def structure(self) -> GraphStructure:
        """The pairs in both directions, first from source to target."""
        ends = torch.stack([self.pairs.source, self.pairs.target])
        return GraphStructure(torch.cat([ends, ends.flip(0)], 1), self.num_nodes)

    @cached_property
    def edge_type(self) -> Tensor:
        """[E] the relation of each edge of the structure."""
        return self.pairs.relation.repeat(2)

    def _read(self, name: EdgeType, edge_index: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return source, target, relation and form [E] of the edges of a type."""
        if name not in self._member:
            known = ", ".join(map(str, self._member))
            raise ValueError(
                f"Expected 'edge_index_dict' to have the edge types of the metadata, {known} (got "
                f"{name!r}). To fix this, build the layer from the metadata() of the graph that it "
                "is called with, after all transforms."
            )
        argument, ends = f"edge_index_dict[{name!r}]", []
        for node_type in (name[0], name[2]):
            if node_type not in self.rows:
                raise ValueError(
                    f"Expected nodes of the type {node_type!r}, since {argument} names them (got "
                    f"nodes of the types {', '.join(map(repr, self.rows))}). To fix this, set "
                    f"data[{node_type!r}].num_nodes, or pass features of them."
                )
            ends.append(self.rows[node_type])
        sizes = [rows.stop - rows.start for rows in ends]
        given = read_adjacency(edge_index, (sizes[1], sizes[0]), argument).ends()[::-1]
        for end, size in zip(given, sizes, strict=True):
            check_node_index(argument, end, size)
        source, target = (end.long() + rows.start for end, rows in zip(given, ends, strict=True))
        relation, is_reversed = self._member[name]
        if is_reversed:
            source, target = target, source
        form = torch.full_like(source, is_reversed)
        if name[0] == name[2]:  # both directions may stand in one edge_index
            form += 2 * (source > target)
            source, target = torch.minimum(source, target), torch.maximum(source, target)
        return source, target, torch.full_like(source, relation), form

    def edge_weight(self, edge_weight_dict: Mapping[EdgeType, Tensor] | None) -> Tensor | None:
        """Return the weights [E] of the edges of the structure; None if all are one."""
        if not edge_weight_dict and not self._has_repeated:
            return None
        return self.pair_weight(edge_weight_dict).repeat(2)

    def pair_weight(self, edge_weight_dict: Mapping[EdgeType, Tensor] | None) -> Tensor:
        """Return the weights [P] of the pairs. Edge types without weights have ones."""
        given = {} if edge_weight_dict is None else dict(edge_weight_dict)
        unknown = [name for name in given if name not in self._edge_types]
        if unknown:
            raise ValueError(
                f"Expected 'edge_weight_dict' to have edge types of 'edge_index_dict' (got "
                f"{unknown[0]!r})."
            )
        parts = [torch.ones(0, device=self.pairs.source.device)]  # there may be no types
        for name, count in zip(self._edge_types, self._counts, strict=True):
            weight = given.get(name)
            if weight is None:
                weight = torch.ones(count, device=self.pairs.source.device)
            else:
                check_edge_weight(weight, count, f"edge_weight_dict[{name!r}]")
            parts.append(weight)
        return self.pairs.weigh(torch.cat(parts))

    def join(self, x_dict: Mapping[str, Tensor]) -> Tensor:
        """Return the rows of all types, one type after the other: [..., N, D]."""
        return torch.cat([x_dict[name] for name in self.rows], -2)

    def split(self, x: Tensor) -> dict[str, Tensor]:
        """Return the rows of every type, from the rows [..., N, D] of all."""
        return {name: x[..., rows, :] for name, rows in self.rows.items()}


def merge_reverse(
    edge_types: Sequence[EdgeType],
) -> tuple[tuple[EdgeType, ...], dict[EdgeType, tuple[int, bool]]]:
    """Find the relations of edge types, and for each type its relation and if it is its reverse.

    (b, rev_r, a) is the reverse of (a, r, b), if that is there.
    """
    known = {
        name: (name[2], name[1].removeprefix("rev_"), name[0])
        for name in edge_types
        if name[1].startswith("rev_")
    }
    relations = tuple(name for name in edge_types if known.get(name) not in edge_types)
    number = {name: i for i, name in enumerate(relations)}
    member = {
        name: (number[name], False) if name in number else (number[known[name]], True)
        for name in edge_types
    }
    return relations, member


def read_hetero_data(data: HeteroData) -> tuple[HeteroGraph, Tensor]:
    """Read the edges and weights of a `HeteroData`; no gradient flows back to them."""
    num_nodes = {name: data[name].num_nodes for name in data.node_types}
    for name, count in num_nodes.items():
        check_nonnegative_int(f"data[{name!r}].num_nodes", count)
    graph = HeteroGraph(data.edge_index_dict, num_nodes)
    weights = {
        name: data[name].edge_weight.detach()
        for name in data.edge_types
        if "edge_weight" in data[name]
    }
    return graph, graph.pair_weight(weights).repeat(2)


def check_dictionaries(
    x_dict: Any,
    edge_index_dict: Any,
    node_types: Sequence[str],
    widths: int | Mapping[str, int] = -1,
) -> None:
    """Raise unless there are features [..., N, F] of each node type, of one floating-point type.

    `widths` has the F that is expected, of all types or of each; -1: any.
    """
    check_instance("x_dict", x_dict, Mapping, "a dictionary from node types to features")
    what = "a dictionary from edge types to edge indices"
    check_instance("edge_index_dict", edge_index_dict, Mapping, what)
    for name in node_types:
        x, argument = x_dict.get(name), f"x_dict[{name!r}]"
        if x is None:
            raise ValueError(
                f"Expected 'x_dict' to have features of all node types, {list(node_types)} (got "
                f"none of {name!r}, but {list(x_dict)}). To fix this, pass zeros for nodes without "
                "features."
            )
        check_float(argument, x)
        width = widths if isinstance(widths, int) else widths[name]
        if x.dim() < 2 or x.size(-1) != (x.size(-1) if width < 0 else width):
            raise ValueError(
                f"Expected {argument} to have shape [N, {'F' if width < 0 else width}] (got "
                f"{list(x.shape)})."
            )
    dtypes = {name: x_dict[name].dtype for name in node_types}
    if len(set(dtypes.values())) > 1:
        raise TypeError(f"Expected the features in 'x_dict' to be of one type (got {dtypes}).")


LEFT_OUT = "are left out: heat along them adds nothing."


@cache
def say_of_self_loops(what: str) -> None:
    """Say once what becomes of self-loops."""
    _log.warning("Self-loops %s", what)


def read_dictionaries(
    edge_index_dict: Mapping[EdgeType, Any],
    edge_weight_dict: Mapping[EdgeType, Tensor] | None,
    num_nodes: Mapping[str, int],
) -> tuple[dict[EdgeType, Adjacency], dict[EdgeType, Tensor], tuple[Tensor, ...]]:
    """Read edge indices or sparse matrices by edge type, whose values are weights.

    Returns also the tensors that identify the graph.
    """
    graphs: dict[EdgeType, Adjacency] = {}
    weights = dict(edge_weight_dict or {})
    for name, given in edge_index_dict.items():
        shape = num_nodes.get(name[2], -1), num_nodes.get(name[0], -1)
        graphs[name] = read_adjacency(given, shape, f"edge_index_dict[{name!r}]")
        stored = choose_weight(graphs[name].weight, weights.get(name))
        if stored is not None:
            weights[name] = stored
    return graphs, weights, tuple(each for graph in graphs.values() for each in graph.identity)
