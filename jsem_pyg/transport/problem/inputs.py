"""What a user hands over, read and checked: sides, masses, features, known pairs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from ..._checks import (
    as_argument,
    check_finite,
    check_float,
    check_integers,
    check_node_index,
    check_points,
    check_vector,
)
from ..costs import FeatureCost, HeatCost
from ..costs.factor import Factor
from ..costs.graph_input import data_points

_SUM_TOLERANCE = 1e-3  # of masses, whose sum is one


def as_factor(name: str, side: Any, cost: Any = None) -> Factor:
    """The factor of one side, made by `cost` or by the default, or the one that is given.

    Raises:
        TypeError: if it is none of what :func:`.gromov_wasserstein` takes.
    """
    check_cost(cost)
    if isinstance(side, Factor):
        return side
    if cost is None:
        cost = _default_cost(name, side)
    with as_argument(name, "source"):  # which is what costs call it
        made = cost(side)
    if not isinstance(made, Factor):
        raise TypeError(
            f"Expected 'cost' to make a Factor (got {type(made).__name__} from {cost!r})."
        )
    return made


def check_cost(cost: Any) -> None:
    """Raise a TypeError unless `cost` is None, or can be called."""
    if cost is not None and not callable(cost):
        raise TypeError(
            "Expected 'cost' to be called with each side, and to make a Factor, as HeatCost() does "
            f"(got {type(cost).__name__})."
        )


def _default_cost(name: str, side: Any) -> Any:
    """What makes the factor of a side of this kind."""
    if isinstance(side, Data) and data_points(side) is None:
        return HeatCost()
    if isinstance(side, Data | Tensor):
        return FeatureCost(kind="kernel", center=True)
    raise TypeError(
        f"Expected '{name}' to be a Factor, a Data, or a tensor of coordinates [N, r] (got "
        f"{type(side).__name__}). To fix this, call a cost with it, such as HeatCost()."
    )


def read_masses(name: str, mass: Any, factor: Factor, bound: float | None = None) -> Tensor:
    """Masses [N] of a side, in the type of its factor; uniform ones where none are given.

    Args:
        name: of the argument.
        mass: [N] or None.
        factor: the side.
        bound: what a point has at most, where masses are bounds of a partial plan and their sum
            need not be one.
    """
    if mass is None:
        share = 1 / factor.num_points if bound is None else bound
        return torch.full_like(factor.x[:, 0].detach(), share)
    if bound is None:
        return as_shares(name, mass, factor).detach().to(factor.x.dtype)
    total, lowest = _check_masses(name, mass, factor)
    if lowest < 0 or total <= 0:
        raise ValueError(
            f"Expected '{name}' to be non-negative with a positive sum (got a sum of "
            f"{total:.6g} and a minimum of {lowest:.3g})."
        )
    return mass.detach().to(factor.x)


def as_shares(name: str, mass: Any, factor: Factor) -> Tensor:
    """Masses [N] of a side, divided by their sum: float64, differentiable."""
    total, lowest = _check_masses(name, mass, factor)
    if lowest < 0 or abs(total - 1) > _SUM_TOLERANCE:
        raise ValueError(
            f"Expected '{name}' to be non-negative with sum one (got a sum of {total:.6g} and a "
            f"minimum of {lowest:.3g}). To fix this, divide by the sum."
        )
    mass = mass.to(factor.x.device).double()
    return mass / mass.sum()


def _check_masses(name: str, mass: Any, factor: Factor) -> tuple[float, float]:
    """Their sum and their minimum."""
    check_vector(name, mass, factor.num_points, "point")
    check_finite(name, mass)
    return float(mass.detach().double().sum()), float(mass.detach().min())


def check_mass(mass: float, p: Tensor, q: Tensor) -> None:
    """Raise a ValueError unless a partial plan can send that much."""
    most = min(float(p.double().sum()), float(q.double().sum()))
    if mass > most * (1 + 1e-5):
        raise ValueError(
            f"Expected 'mass' to be at most {most:.6g}, the smaller sum of 'p' and 'q' (got "
            f"{mass})."
        )


def check_kinds(first: Factor, second: Factor) -> None:
    """Raise a ValueError unless both costs can be compared."""
    if first.kind != second.kind:
        raise ValueError(
            f"Expected 'source' and 'target' to have costs of one kind (got {first.kind!r} and "
            f"{second.kind!r}): distances and inner products cannot be compared."
        )
    if first.x.device != second.x.device or first.x.dtype != second.x.dtype:
        raise ValueError(
            "Expected 'source' and 'target' to have one type on one device (got "
            f"{first.x.dtype} on {first.x.device} and {second.x.dtype} on {second.x.device})."
        )


def read_features(features: Any, first: Factor, second: Factor) -> tuple[Tensor, Tensor]:
    """Features [N, d] and [K, d] of both sides."""
    if not isinstance(features, tuple | list) or len(features) != 2:
        raise TypeError(
            "Expected 'features' to be two tensors [N, d] and [K, d] (got "
            f"{type(features).__name__})."
        )
    for each, factor in zip(features, (first, second), strict=True):
        check_float("features", each)
        check_points("features", each)
        if each.size(0) != factor.num_points or each.size(1) != features[0].size(1):
            raise ValueError(
                f"Expected 'features' to be [{first.num_points}, d] and [{second.num_points}, d] "
                f"(got {list(features[0].shape)} and {list(features[1].shape)})."
            )
    return features[0].to(first.x), features[1].to(second.x)


def check_known_pairs(pairs: Any, first: Factor, second: Factor) -> None:
    """Raise unless `pairs` is [2, M] with a source and a target point in each column."""
    check_integers("known_pairs", pairs)
    if pairs.dim() != 2 or pairs.size(0) != 2 or pairs.size(1) == 0:
        raise ValueError(
            "Expected 'known_pairs' to be [2, M], a source and a target point in each column "
            f"(got shape {list(pairs.shape)})."
        )
    check_node_index("known_pairs", pairs[0], first.num_points)
    check_node_index("known_pairs", pairs[1], second.num_points)


def read_start_names(starts: Any, known: Sequence[str]) -> tuple[str, ...]:
    """The names of starts."""
    if isinstance(starts, str) or not isinstance(starts, Sequence) or not starts:
        raise TypeError(
            f"Expected 'starts' to be a Plan, or some of {', '.join(map(repr, known))} (got "
            f"{starts!r})."
        )
    for name in starts:
        if name not in known:
            raise ValueError(
                f"Expected 'starts' to be some of {', '.join(map(repr, known))} (got {name!r})."
            )
    return tuple(starts)
