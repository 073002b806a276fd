"""Sorting and ranking within groups: many lists of different length in one tensor.

An entry i has a group `group[i]` in [0, G): the row of an edge, the class of a node, the graph of a
point. Nothing here loops over groups, and all of it runs on any device.
"""

import torch
from torch import Tensor


def group_order(values: Tensor, group: Tensor | None, *, descending: bool = False) -> Tensor:
    """The order that sorts by group, and within a group by value; equals keep their order.

    Args:
        values: [M] what to sort by.
        group: [M] the group of each entry; None where there is only one, which saves half the time.
        descending: Whether the largest value of a group comes first.

    Returns:
        [M] indices.

    Example:
        >>> group_order(torch.tensor([5, 3, 4]), torch.tensor([1, 0, 1]))
        tensor([1, 2, 0])
    """
    order = values.argsort(descending=descending, stable=True)
    return order if group is None else order[group[order].argsort(stable=True)]


def group_starts(group: Tensor, num_groups: int) -> Tensor:
    """First index of each group of sorted entries, and the end of the last.

    With the sizes of the groups as its differences, this is the row pointer of a CSR matrix.

    Args:
        group: [M] the group of each entry, in any order.
        num_groups: The number G of groups; those without an entry count too.

    Returns:
        [G + 1] int64, from 0 to M.

    Example:
        >>> group_starts(torch.tensor([1, 0, 1]), num_groups=3)
        tensor([0, 1, 3, 3])
    """
    size = torch.bincount(group, minlength=num_groups)
    return torch.cat([size.new_zeros(1), size.cumsum(0)])


def group_places(
    values: Tensor, group: Tensor, num_groups: int, *, descending: bool = False
) -> Tensor:
    """The place of each entry in its group, from zero on; of equals, the first comes first.

    Args:
        values: [M] what to sort by.
        group: [M] the group of each entry.
        num_groups: The number of groups.
        descending: Whether the largest value of a group has place zero.

    Returns:
        [M] int64, in the order of the entries.

    Example:
        >>> group_places(torch.tensor([5, 3, 4]), torch.tensor([1, 0, 1]), num_groups=2)
        tensor([1, 0, 0])
    """
    order = group_order(values, group, descending=descending)
    start = group_starts(group, num_groups)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel(), device=order.device) - start[group[order]]
    return place


def group_ranks(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """The rank of each value in its group, from one on; equal values share their mean rank.

    Args:
        values: [M] numbers, finite.
        group: [M] the group of each value.
        num_groups: The number of groups.

    Returns:
        [M] float64.

    Example:
        >>> group_ranks(torch.tensor([5.0, 3.0, 5.0]), torch.tensor([0, 0, 0]), num_groups=1)
        tensor([2.5000, 1.0000, 2.5000], dtype=torch.float64)
    """
    order = group_order(values, None if num_groups == 1 else group)
    first = torch.ones_like(order, dtype=torch.bool)  # of a run of equal values in one group
    first[1:] = (values[order].diff() != 0) | (group[order].diff() != 0)
    run = first.cumsum(0) - 1
    bounds = torch.cat([first.nonzero()[:, 0], order.new_tensor([order.numel()])])
    # The mean position of a run, counted from one, less the positions of the groups before.
    middle = (bounds[run] + bounds[run + 1] + 1).double() / 2
    ranks = torch.empty_like(middle)
    ranks[order] = middle - group_starts(group, num_groups)[group[order]]
    return ranks


def group_firsts(group: Tensor) -> Tensor:
    """True if an entry is the first of its group, where entries are sorted by group.

    Args:
        group: [M] the group of each entry, the same ones side by side.

    Returns:
        [M] booleans.

    Example:
        >>> group_firsts(torch.tensor([0, 0, 2]))
        tensor([ True, False,  True])
    """
    first = torch.ones(group.numel(), dtype=torch.bool, device=group.device)
    first[1:] = group.diff() != 0
    return first
