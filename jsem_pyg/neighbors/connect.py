"""Joins the components of a graph by their shortest links, without all pairs of distances.

Borůvka's algorithm, with components for nodes: in each round every component but the largest
takes its shortest link to the outside.
"""

import logging

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from torch import Tensor

from .component_links import component_links, shortest_of_each
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


def shortest_links(points: Points, label: Tensor) -> tuple[Tensor, Tensor]:
    """Find the fewest, shortest links [2, M] that join the components, and their lengths [M].

    They are a minimum spanning tree of the components: two components are as far apart as their
    nearest points. With C components and Q points outside the largest, a round costs Q N distances;
    there are at most log2(C) + 1 rounds. If Q N F exceeds a budget, each component searches from
    some of its points only, see `component_links.py`.

    Source: Nešetřil, Milková and Nešetřilová, "Otakar Borůvka on minimum spanning tree problem",
    Discrete Mathematics 233, 2001.
    """
    links, lengths = [torch.empty(2, 0, dtype=torch.int64)], [points.coordinates.new_empty(0)]
    while (count := int(label.max()) + 1) > 1:
        logger.info("Joining %d components.", count)
        is_small = torch.ones(count, dtype=torch.bool)
        is_small[label.bincount().numpy().argmax()] = False  # the first of the largest
        link = component_links(points, label, is_small)
        link = shortest_of_each(label[link[0]], points.distance(*link), link)
        length, order = points.distance(*link).sort(stable=True)
        link = link[:, order]
        tree = _spanning_tree(label[link].numpy(), count)
        links.append(link[:, tree].sort(dim=0).values)
        lengths.append(length[tree])
        label = component_labels(label[link], count)[label]
    return torch.cat(links, dim=1), torch.cat(lengths)


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
