"""Order and ranks within groups: what distance ranks and standardisation share."""

import torch
from torch import Tensor


def group_order(values: Tensor, group: Tensor, count: Tensor) -> Tensor:
    """The order [E] that sorts by group, then value; `count` [G] is the size of each group."""
    order = values.argsort()
    return order if count.numel() == 1 else order[group[order].argsort(stable=True)]


def group_ranks(values: Tensor, group: Tensor, count: Tensor) -> Tensor:
    """The rank of each value in its group, from one on; equal values share their mean rank.

    Args:
        values: [E] numbers, finite.
        group: [E] the group of each value.
        count: [G] the number of values in each group.

    Returns:
        [E] float64.
    """
    order = group_order(values, group, count)
    first = torch.ones_like(order, dtype=torch.bool)  # of a run of equal values in one group
    first[1:] = (values[order].diff() != 0) | (group[order].diff() != 0)
    run = first.cumsum(0) - 1
    bounds = torch.cat([first.nonzero()[:, 0], order.new_tensor([order.numel()])])
    # The mean position of a run, counted from one, less the positions of the groups before.
    middle = (bounds[run] + bounds[run + 1] + 1).double() / 2
    start = count.cumsum(0) - count
    ranks = torch.empty_like(middle)
    ranks[order] = middle - start[group[order]]
    return ranks
