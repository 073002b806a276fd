r"""The shortest links that make a graph connected, without all pairs of distances.

Borůvka's algorithm, with components for nodes: in each round every component but the largest takes
its shortest link to the outside. To find it, note that two different component numbers differ in
some binary digit: searching, for each digit, from the points with a zero there to those with a one
and back visits every pair of points in different components, in a few large searches.
"""

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from torch import Tensor

from .knn import search
from .points import Points


def component_labels(pair: Tensor, num_nodes: int) -> Tensor:
    """The connected component [N] of each node, numbered from zero, for undirected edges [2, M]."""
    i, j = pair.numpy()
    adjacency = coo_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(num_nodes, num_nodes))
    labels = connected_components(adjacency, directed=False)[1]
    return torch.from_numpy(labels).long()


def shortest_links(points: Points, label: Tensor) -> tuple[Tensor, Tensor]:
    """The fewest, shortest links that join all components.

    They are a minimum spanning tree of the components, in which the distance between two components
    is that of their nearest points. With C components of which the largest lacks Q points, a round
    costs at most Q N log2(C) distances; there are at most log2(C) + 1 rounds.

    Args:
        points: the N points.
        label: [N] the component of each point, numbered from zero.

    Returns:
        The links [2, C - 1] with i < j and their lengths [C - 1].

    Source: Nešetřil, Milková and Nešetřilová, "Otakar Borůvka on minimum spanning tree problem",
    Discrete Mathematics 233, 2001.
    """
    links, lengths = [torch.empty(2, 0, dtype=torch.int64)], [points.coordinates.new_empty(0)]
    while int(label.max()) > 0:
        link, length = _shortest_exits(points, label)
        tree = _spanning_tree(label[link].numpy(), int(label.max()) + 1)
        links.append(link[:, tree].sort(dim=0).values)
        lengths.append(length[tree])
        label = component_labels(label[link], int(label.max()) + 1)[label]
    return torch.cat(links, dim=1), torch.cat(lengths)


def _shortest_exits(points: Points, label: Tensor) -> tuple[Tensor, Tensor]:
    """The shortest link out of each component but the largest, from short to long."""
    link, length = _exits(points, label)
    owner = label[link[0]]
    order = torch.from_numpy(np.lexsort((owner.numpy(), length.numpy())))
    _, first = np.unique(owner[order].numpy(), return_index=True)
    chosen = order[torch.from_numpy(np.sort(first))]
    return link[:, chosen], length[chosen]


def _exits(points: Points, label: Tensor) -> tuple[Tensor, Tensor]:
    """Links from points outside the largest component to their nearest point elsewhere.

    For each binary digit, the nearest among the points whose component has the other digit; the
    nearest of all is one of these.
    """
    small = label != label.bincount().argmax()
    links = []
    for digit in range(int(label.max()).bit_length()):
        one = (label >> digit) & 1 == 1
        for side in (one, ~one):
            query, base = (small & side).nonzero()[:, 0], (~side).nonzero()[:, 0]
            if query.numel():
                links.append(torch.stack([query, search(points, query, base, 1)[:, 0]]))
    link = torch.cat(links, dim=1)
    return link, points.distance(link[0], link[1])


def _spanning_tree(pair: np.ndarray, num_components: int) -> Tensor:
    """Choose, from links [2, M] sorted by length, those of a minimum spanning forest."""
    # Two components may have chosen links between them; the first is the shorter.
    key = pair.min(0) * num_components + pair.max(0)
    key, rank = np.unique(key, return_index=True)
    # Ranks, not lengths: a length may be zero, which a sparse matrix takes for no link at all, and
    # components at equal distances would otherwise close a cycle.
    ends = (key // num_components).astype(np.int32), (key % num_components).astype(np.int32)
    graph = coo_array((rank + 1.0, ends), shape=(num_components, num_components))
    chosen = minimum_spanning_tree(graph.tocsr()).data.astype(np.int64) - 1
    return torch.from_numpy(np.sort(chosen))
