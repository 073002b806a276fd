"""The sides of a problem, features and known pairs, checked."""

import warnings
from typing import Any, Protocol

import torch
from torch import Tensor
from torch_geometric.data import Data

from ..._checks import (
    as_argument,
    check_device,
    check_float,
    check_instance,
    check_integers,
    check_points,
    read_nodes,
)
from ..costs import ColumnCost, Factor, FeatureCost, HeatCost
from ..costs.graph_input import data_points, is_points


class Sized(Protocol):
    """A side with a number of points."""

    @property
    def num_points(self) -> int:
        """Count the points."""


def as_factor(name: str, side: Any, cost: Any = None) -> Factor:
    """Make the factor of one side, unless it is one: by `cost`, or by the default."""
    if cost is not None and not callable(cost):
        raise TypeError(
            "Expected 'cost' to be called with each side, and to make a Factor, as HeatCost() does "
            f"(got {type(cost).__name__})."
        )
    if isinstance(side, Factor):
        return side
    if isinstance(side, ColumnCost):
        return side.factor()
    if cost is None:
        cost = _default_cost(name, side)
    with as_argument(name, "source"):  # which is what costs call it
        made = cost(side)
    if not isinstance(made, Factor):
        raise TypeError(f"Expected 'cost' to make a Factor (got {type(made).__name__}: {cost!r}).")
    return made


def _default_cost(name: str, side: Any) -> Any:
    """Choose the cost of a side that none was given for."""
    if isinstance(side, Data) and data_points(side) is None:
        return HeatCost()
    check_instance(
        name, side, (Data, Tensor), "a Factor, a Data, or a tensor of coordinates [N, r]"
    )
    if is_points(side) and side.dim() == 2 and len(side) == side.size(1) > 0:
        x = side.detach()
        largest = x.abs().max()  # to rounding, which `torch.cdist` has
        if max(100 * x.diagonal().abs().max(), 1e3 * (x - x.T).abs().max()) <= largest > 0:
            warnings.warn(
                f"'{name}' is read as coordinates [N, r], and looks like a matrix of distances. "
                "If it is one, pass cost=MatrixCost().",
                stacklevel=6,
            )
    return FeatureCost(kind="kernel", center=True)


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
    """Check and centre features [N, d] and [K, d] of both sides."""
    if not isinstance(features, tuple | list) or len(features) != 2:
        raise TypeError(
            "Expected 'features' to be two tensors [N, d] and [K, d] (got "
            f"{type(features).__name__})."
        )
    for each, factor in zip(features, (first, second), strict=True):
        check_float("features", each)
        check_points("features", each)
        check_device("features", each.device, factor.x.device, "source")
        if each.size(0) != factor.num_points or each.size(1) != features[0].size(1):
            raise ValueError(
                f"Expected 'features' to be [{first.num_points}, d] and [{second.num_points}, d] "
                f"(got {list(features[0].shape)} and {list(features[1].shape)})."
            )
    centre = features[0].detach().double().mean(0)  # differences count, and numbers stay small
    first_features, second_features = ((each.double() - centre).to(first.x) for each in features)
    return first_features, second_features


def read_known_pairs(pairs: Any, first: Sized, second: Sized) -> Tensor | None:
    """Check pairs [2, M], a source and a target point in each column; as int64; None for none."""
    if pairs is None:
        return None
    if not isinstance(pairs, Tensor) or pairs.dim() != 2 or pairs.size(0) != 2:
        is_tensor = isinstance(pairs, Tensor)
        found = f"shape {list(pairs.shape)}" if is_tensor else type(pairs).__name__
        raise (ValueError if is_tensor else TypeError)(
            "Expected 'known_pairs' to be a tensor [2, M], a source and a target point in each "
            f"column (got {found}). To fix this, pass torch.tensor(pairs).T of a list of pairs."
        )
    check_integers("known_pairs", pairs)
    if pairs.size(1) == 0:
        return None
    sides = zip(pairs, (first, second), strict=True)
    return torch.stack([read_nodes("known_pairs", each, side.num_points) for each, side in sides])
