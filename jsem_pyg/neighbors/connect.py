"""Joins the components of a graph by their shortest links, without all pairs of distances.

Borůvka's algorithm, with components for nodes: in each round every component but the largest of its
graph takes its shortest link to the outside.
"""

import logging

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from torch import Tensor

from .._groups import group_firsts, group_order
from .all_pairs import all_pairs_links
from .component_links import component_links, shortest_of_each
from .groups import Groups, one_group
from .points import Points

logger = logging.getLogger(__name__)


def component_labels(pair: Tensor, num_nodes: int) -> Tensor:
    """Number the connected components [N] of undirected edges [2, M], from zero."""
    # In 32 bits, as in every graph for scipy.sparse.csgraph here: scipy 1.11.1 and 1.11.2 read
    # 64-bit indices wrongly, and give wrong components without a word.
    i, j = pair[0].int().numpy(), pair[1].int().numpy()
    adjacency = coo_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(num_nodes, num_nodes))
    labels = connected_components(adjacency, directed=False)[1]
    return torch.from_numpy(labels).long()


def shortest_links(
    points: Points, label: Tensor, groups: Groups | None = None
) -> tuple[Tensor, Tensor]:
    """Find the fewest, shortest links that join the components of each graph, and their lengths.

    They are a minimum spanning tree of the components: two components are as far apart as their
    nearest points. With C components and Q points outside the largest, a round costs Q N distances;
    there are at most log2(C) + 1 rounds. If Q N F exceeds a budget, each component searches from
    some of its points only, see `component_links.py`.

    Source: Nešetřil, Milková and Nešetřilová, "Otakar Borůvka on minimum spanning tree problem",
    Discrete Mathematics 233, 2001.
    """
    groups = one_group(label.numel()) if groups is None else groups
    links, lengths = [torch.empty(2, 0, dtype=torch.int64)], [points.coordinates.new_empty(0)]
    while (count := int(label.max()) + 1) > groups.size.numel():
        logger.info("Joining %d components of %d graphs.", count, groups.size.numel())
        link = _links_outside(points, label, groups)
        link = shortest_of_each(label[link[0]], points.distance(*link), link)
        length, order = points.distance(*link).sort(stable=True)
        link = link[:, order]
        tree = _spanning_tree(label[link].numpy(), count)
        links.append(link[:, tree].sort(dim=0).values)
        lengths.append(length[tree])
        label = component_labels(label[link], count)[label]
    return torch.cat(links, dim=1), torch.cat(lengths)


def _links_outside(points: Points, label: Tensor, groups: Groups) -> Tensor:
    """Find links out of all components but the largest, in graphs that are not connected yet."""
    small = _small_components(label, groups)
    unfinished = torch.zeros(groups.size.numel(), dtype=torch.bool)
    unfinished[groups.label[small[label]]] = True
    links = [
        all_pairs_links(points, nodes, valid, label) for nodes, valid in groups.small(unfinished)
    ]
    for graph in groups.large():
        if unfinished[graph]:
            links.append(_large_links(points, label, small, groups, graph))
    return torch.cat(links, dim=1)


def _large_links(
    points: Points, label: Tensor, small: Tensor, groups: Groups, graph: int
) -> Tensor:
    if groups.size.numel() == 1:
        return component_links(points, label, small)
    nodes = groups.nodes(graph)
    component, local = label[nodes].unique(return_inverse=True)
    return nodes[component_links(points.take(nodes), local, small[component])]


def _small_components(label: Tensor, groups: Groups) -> Tensor:
    """Return True for the components [C] that are not the largest of their graph."""
    size = label.bincount()
    graph = torch.empty_like(size)
    graph[label] = groups.label
    # The largest first, the lower number among equals, graph by graph.
    order = group_order(size, graph, descending=True)
    small = torch.ones_like(size, dtype=torch.bool)
    small[order[group_firsts(graph[order])]] = False
    return small


def _spanning_tree(pair: np.ndarray, num_components: int) -> Tensor:
    """Choose the links of a minimum spanning forest, from links [2, M] sorted by length."""
    # Two components may have chosen links between them; the first is the shorter.
    key = pair.min(0) * num_components + pair.max(0)
    key, rank = np.unique(key, return_index=True)
    # Ranks, not lengths: a length may be zero, which a sparse matrix takes for no link at all, and
    # components at equal distances would otherwise close a cycle.
    ends = (key // num_components).astype(np.int32), (key % num_components).astype(np.int32)
    graph = coo_array((rank + 1.0, ends), shape=(num_components, num_components))
    chosen = minimum_spanning_tree(graph.tocsr()).data.astype(np.int64) - 1
    return torch.from_numpy(np.sort(chosen))
