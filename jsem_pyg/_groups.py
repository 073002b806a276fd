"""Sorts and ranks within groups: an entry i has a group `group[i]` in [0, G), such as a row."""

import torch
from torch import Tensor


def group_order(values: Tensor, group: Tensor | None, *, descending: bool = False) -> Tensor:
    """The order [M] that sorts by group, and within a group by value; equals keep their order.

    Without groups [M] there is only one, which saves half the time.
    """
    order = values.argsort(descending=descending, stable=True)
    return order if group is None else order[group[order].argsort(stable=True)]


def group_starts(group: Tensor, num_groups: int) -> Tensor:
    """First index of each group of sorted entries, and the end of the last: [G + 1], from 0 to M.

    With the sizes of the groups as its differences, this is the row pointer of a CSR matrix.
    """
    size = torch.bincount(group, minlength=num_groups)
    return torch.cat([size.new_zeros(1), size.cumsum(0)])


def group_places(
    values: Tensor, group: Tensor, num_groups: int, *, descending: bool = False
) -> Tensor:
    """The place [M] of each entry in its group, from zero on; of equals, the first comes first."""
    order = group_order(values, group, descending=descending)
    start = group_starts(group, num_groups)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel(), device=order.device) - start[group[order]]
    return place


def group_firsts(group: Tensor) -> Tensor:
    """True [M] if an entry is the first of its group, where entries are sorted by group."""
    first = torch.ones(group.numel(), dtype=torch.bool, device=group.device)
    first[1:] = group.diff() != 0
    return first
