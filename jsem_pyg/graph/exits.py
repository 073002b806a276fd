"""The way out of a component: the nearest point that belongs to another one."""

import torch
from torch import Tensor

from .points import Points
from .searcher import exact_neighbors

# How many multiplications one round of searches may cost, about 8 s on two idle cores. With 100,000
# points in 194 far clusters the links of a tenth of what is exact were 1.3 % longer in all.
BUDGET = 5 * 10**11

# Points that are searched for together, and products of theirs that are held at once.
_CHUNK_POINTS, _CHUNK_NUMBERS = 1024, 1 << 24

# How often an approximate exit is improved from its ends.
_MOST_IMPROVEMENTS = 8


def component_exits(points: Points, label: Tensor, small: Tensor, budget: int) -> Tensor:
    """Links out of components, among them the shortest one of each, or nearly so.

    Exact as long as searching from all points of these components costs no more than the budget:
    Q N F for Q points. Otherwise the search begins at a few points of each component, and goes on
    from the best link found: from its far end to the nearest point of the component, from there to
    the nearest point outside, as long as the links become shorter. They may remain longer than the
    shortest.

    Args:
        points: the N points.
        label: [N] the component of each point, numbered from zero.
        small: [C] whether the way out of a component is asked for.
        budget: multiplications.

    Returns:
        Links [2, M], at least one from each of these components.
    """
    query = small[label].nonzero()[:, 0]
    most = budget // points.coordinates.numel()
    outside = Outside(points, label)
    if query.numel() <= most:
        return torch.stack([query, outside.nearest(query)])
    query = _some_of_each(query, label, max(1, most // int(small.sum())))
    link = torch.stack([query, outside.nearest(query)])
    return _improved(points, label, small, outside, link)


class Outside:
    """Finds the nearest point outside the component of a point, exactly."""

    def __init__(self, points: Points, label: Tensor) -> None:
        self.order = label.argsort(stable=True)
        self.label = label[self.order]
        self.rows = points.centred(self.order)
        self.device = points.device
        count = label.bincount()
        self.end = count.cumsum(0)
        self.begin = self.end - count
        self.place = torch.empty_like(self.order)
        self.place[self.order] = torch.arange(label.numel())

    def nearest(self, query: Tensor) -> Tensor:
        """The nearest point [Q] outside the component of each of the points `query` [Q]."""
        place, back = self.place[query].sort()
        found = torch.cat([self._nearest(chunk) for chunk in place.split(_CHUNK_POINTS)])
        result = torch.empty_like(query)
        result[back] = self.order[found]
        return result

    def _nearest(self, place: Tensor) -> Tensor:
        """As :meth:`nearest`, in places: points in the order of their components.

        A chunk of points touches consecutive components: before and behind them there is nothing
        to leave out.
        """
        low = int(self.begin[self.label[place[0]]])
        high = int(self.end[self.label[place[-1]]])
        candidates = []
        if self.label[place[0]] != self.label[place[-1]]:
            candidates.append(self._between(place, low, high))
        for begin, end in ((0, low), (high, self.label.numel())):
            if end > begin:
                base = self.rows[begin:end]
                candidates.append(begin + exact_neighbors(self.rows[place], base, 1, self.device))
        return self._best(place, torch.cat(candidates, dim=1))

    def _between(self, place: Tensor, low: int, high: int) -> Tensor:
        """The nearest place [Q, 1] in [low, high) with another label, any if there is none."""
        base, base_label = self.rows[low:high], self.label[low:high]
        norm, found = base.square().sum(1), []
        for chunk in place.split(max(1, _CHUNK_NUMBERS // (high - low))):
            rank = torch.addmm(norm, self.rows[chunk], base.T, alpha=-2)
            rank.masked_fill_(self.label[chunk][:, None] == base_label, torch.inf)
            found.append(low + rank.argmin(1))
        return torch.cat(found)[:, None]

    def _best(self, place: Tensor, candidate: Tensor) -> Tensor:
        """The nearest [Q] of the candidates [Q, c] with another label."""
        apart = (self.rows[place][:, None] - self.rows[candidate]).square().sum(2)
        apart.masked_fill_(self.label[candidate] == self.label[place][:, None], torch.inf)
        return candidate.gather(1, apart.argmin(1)[:, None])[:, 0]


def _some_of_each(query: Tensor, label: Tensor, count: int) -> Tensor:
    """At most `count` points of each component, at random but always the same."""
    generator = torch.Generator().manual_seed(0)
    query = query[torch.randperm(query.numel(), generator=generator)]
    query = query[label[query].argsort(stable=True)]
    size = label[query].bincount()
    rank = torch.arange(query.numel()) - (size.cumsum(0) - size)[label[query]]
    return query[rank < count]


def _improved(
    points: Points, label: Tensor, small: Tensor, outside: Outside, link: Tensor
) -> Tensor:
    """Shorten the best link of each component from its ends, as long as that helps."""
    member = small[label].nonzero()[:, 0]
    link = shortest_of_each(label[link[0]], points.distance(*link), link)
    length = points.distance(*link)
    for _ in range(_MOST_IMPROVEMENTS):
        far = torch.empty_like(small, dtype=torch.int64)
        far[label[link[0]]] = link[1]
        inwards = torch.stack([member, far[label[member]]])
        near = shortest_of_each(label[member], points.distance(*inwards), inwards)[0]
        link = torch.stack([near, outside.nearest(near)])
        shorter = points.distance(*link)
        if not bool((shorter < length).any()):
            break
        length = shorter
    return link


def shortest_of_each(owner: Tensor, length: Tensor, link: Tensor) -> Tensor:
    """The shortest of the links [2, M] of each owner [M], in the order of the owners."""
    order = length.argsort(stable=True)
    order = order[owner[order].argsort(stable=True)]
    first = torch.ones(order.numel(), dtype=torch.bool)
    first[1:] = owner[order].diff() != 0
    return link[:, order[first]]
