"""The edges that a graph can spare: those that hardly conduct, within a share of each degree."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_number
from ..._groups import group_firsts, group_order
from ...graph import GraphStructure

MAX_SHARE = 0.05


def check_share(max_share: Any) -> None:
    """Raise unless `max_share` is a number in (0, 1]."""
    check_number("max_share", max_share)
    if not 0 < max_share <= 1:
        raise ValueError(f"Expected 'max_share' to lie in (0, 1] (got {max_share!r}).")


def conducting_weight(
    structure: GraphStructure, edge_weight: Tensor, conductance: Tensor
) -> Tensor:
    """The weights times the conductance, [nnz] in float64, the mean of both directions."""
    product = edge_weight.detach().double() * conductance.detach().double()
    return structure.symmetric(structure.to_slots(product))


def closed_slots(
    structure: GraphStructure, conductances: Sequence[Tensor], threshold: float
) -> Tensor:
    """Mask [nnz] of slots below the threshold in all layers, directions and parallel columns."""
    opened = [conductance >= threshold for conductance in conductances]
    open_edges = torch.stack(opened).any(0).double()
    is_open = structure.to_slots(open_edges) > 0
    return ~(is_open | is_open.index_select(0, structure.reverse))


def slots_to_keep(
    structure: GraphStructure, weights: Sequence[Tensor], closed: Tensor, max_share: float
) -> Tensor:
    """All slots [nnz], except the closed ones that both ends can spare in every layer.

    The largest share of a node's degree that may go is that of the `weights` [nnz] of each layer.
    """
    spare = closed
    for weight in weights:
        spare = spare & _spare_slots(structure, weight, closed, max_share)
    return ~(spare & spare.index_select(0, structure.reverse))


def _spare_slots(
    structure: GraphStructure, weight: Tensor, closed: Tensor, max_share: float
) -> Tensor:
    """The closed slots that their rows can spare: the weakest ones, and never the best one."""
    row = structure.row.long()
    degree = weight.new_zeros(structure.num_nodes).index_add(0, row, weight)
    share = weight / torch.where(degree > 0, degree, 1.0).index_select(0, row)
    slots = (closed & ~_is_best(structure, weight)).nonzero()[:, 0]
    slots = slots[group_order(share[slots], row[slots])]
    gone = _sums_within(share[slots], row[slots])
    spare = torch.zeros_like(closed)
    spare[slots[gone <= max_share]] = True
    return spare


def _is_best(structure: GraphStructure, weight: Tensor) -> Tensor:
    """True if a slot is the one of its row that conducts best; the first of equals."""
    row = structure.row.long()
    highest = weight.new_zeros(structure.num_nodes).scatter_reduce(0, row, weight, "amax")
    slots = (weight == highest.index_select(0, row)).nonzero()[:, 0]
    best = torch.zeros(weight.numel(), dtype=torch.bool, device=weight.device)
    best[slots[group_firsts(row[slots])]] = True
    return best


def _sums_within(values: Tensor, group: Tensor) -> Tensor:
    """Cumulative sums that begin anew with each group, where groups lie side by side."""
    total = values.cumsum(0)
    first = group_firsts(group)
    return total - (total - values)[first][first.cumsum(0) - 1]
