"""Finds the nearest point outside a component, to link components."""

import torch
from torch import Tensor

from .._groups import group_firsts, group_order, group_places
from .points import Points
from .tree_search import TreeSearch

# How many multiplications one round of searches may cost, about 10 s on one core.
_BUDGET = 25 * 10**10

# With fewer features than this, the time does not fall any more.
_LEAST_FEATURES = 64

# The size of a tile of distances: 16 MB.
_QUERIES, _BASE = 1024, 4096

# Among how many points a tree looks for a link.
_NEAREST = 64


def component_links(points: Points, label: Tensor, small: Tensor) -> Tensor:
    """Find links [2, M] out of the `small` [C] components, among them the shortest, or nearly.

    All points of these components look for the nearest point outside (in few dimensions, only if
    none is near), unless that costs more than the budget: Q N F multiplications for Q points. Then
    only a few points of each component do.

    Args:
        points: N points.
        label: [N] the component of each point.
        small: [C] which components need a link.
    """
    query = small[label].nonzero()[:, 0]
    near = query.new_empty(2, 0)
    if TreeSearch.suits(points):
        near, query = _near_links(points, label, query)
    if query.numel() == 0:
        return near
    num_points, num_features = points.coordinates.shape
    most = _BUDGET // (num_points * max(num_features, _LEAST_FEATURES))
    outside = Outside(points, label)
    if query.numel() > most:
        query = _some_of_each(query, label, max(1, most // int(small.sum())))
    link = torch.stack([query, outside.nearest(query)])
    return torch.cat([near, link], dim=1)


def _near_links(points: Points, label: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """Look for links among the nearest points of each point, in few dimensions.

    Returns the links [2, M], and the points that may have a shorter one to a point farther away.
    """
    found = TreeSearch(points, seed=0).find(points.centred(query), _NEAREST)
    outside = label[found] != label[query][:, None]
    has_link = outside.any(1)
    first = found.gather(1, outside.long().argmax(1, keepdim=True))[:, 0]
    link = torch.stack([query, first])[:, has_link]
    length = points.distance(*link)
    shortest = length.new_full((int(label.max()) + 1,), torch.inf)
    shortest = shortest.scatter_reduce(0, label[link[0]], length, "amin")
    seen = points.distance(query, found[:, -1])
    return link, query[~has_link & (seen < shortest[label[query]])]


class Outside:
    """Finds the nearest point outside the component of a point, by comparing it with all.

    Points lie in the order of their components, so that few tiles of distances touch a component
    from both sides; only in these something is left out.
    """

    def __init__(self, points: Points, label: Tensor) -> None:
        self.points = points
        self.order = label.argsort(stable=True)
        self.label = label[self.order].to(points.device)
        # What is mapped is read again for every tile.
        self.rows = None if points.is_mapped else points.centred(self.order).to(points.device)
        self.place = torch.empty_like(self.order)
        self.place[self.order] = torch.arange(label.numel())

    def nearest(self, query: Tensor) -> Tensor:
        """Find the nearest point [Q] outside the component of each of the points `query` [Q]."""
        place, back = self.place[query].sort()
        found = torch.cat([self._nearest(chunk) for chunk in place.split(_QUERIES)])
        result = torch.empty_like(query)
        result[back] = self.order[found]
        return result

    def _nearest(self, place: Tensor) -> Tensor:
        """Do the same for ascending places in the order of the components."""
        query, own = self._rows(place), self.label[place]
        best = query.new_full((place.numel(),), torch.inf)
        found = torch.zeros_like(own)
        # One buffer for all tiles: taking new memory for each costs as much as filling it.
        buffer = query.new_empty(place.numel(), min(_BASE, self.label.numel()))
        for begin in range(0, self.label.numel(), _BASE):
            tile = slice(begin, begin + _BASE)
            base, label = self._rows(tile), self.label[tile]
            out = buffer[:, : base.size(0)]
            # The squared distance, less what is the same for all of a query's candidates.
            torch.addmm(base.square().sum(1), query, base.T, alpha=-2, out=out)
            if label[0] <= own[-1] and label[-1] >= own[0]:
                out.masked_fill_(own[:, None] == label, torch.inf)
            least, index = out.min(1)
            nearer = least < best
            best = torch.where(nearer, least, best)
            found = torch.where(nearer, index + begin, found)
        return found.cpu()

    def _rows(self, place: Tensor | slice) -> Tensor:
        """Return the points at some places in the order of the components."""
        return self.points.centred(self.order[place]) if self.rows is None else self.rows[place]


def _some_of_each(query: Tensor, label: Tensor, count: int) -> Tensor:
    """Choose at most `count` points of each component, at random but always the same."""
    generator = torch.Generator().manual_seed(0)
    query = query[torch.randperm(query.numel(), generator=generator)]
    component = label[query]
    position = torch.arange(query.numel())
    chosen = query[group_places(position, component, int(label.max()) + 1) < count]
    return chosen[label[chosen].argsort(stable=True)]


def shortest_of_each(owner: Tensor, length: Tensor, link: Tensor) -> Tensor:
    """Choose the shortest of the links [2, M] of each owner [M], in the order of the owners."""
    order = group_order(length, owner)
    return link[:, order[group_firsts(owner[order])]]
