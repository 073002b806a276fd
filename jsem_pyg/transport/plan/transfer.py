"""Transfer of node attributes of one graph to the matching points of another."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from ..._checks import (
    check_between,
    check_choice,
    check_finite,
    check_float,
    check_instance,
    check_tensor,
    check_text,
)
from .plan import Plan

MODES = ("mean", "argmax")

_CLASSES = 256  # that votes are counted of at a time


def transfer_attributes(
    source: Data,
    target: Data,
    plan: Plan,
    attrs: Sequence[str] = ("y",),
    *,
    mode: str = "mean",
    fill: float | None = None,
    prefix: str = "",
) -> Data:
    """Write node attributes of the source onto the target nodes that they are matched with.

    For the other direction, swap both graphs and take ``plan.transposed()``.

    Args:
        source: a graph of N nodes, with these attributes.
        target: a graph of K nodes.
        plan: which goes where, [N, K].
        attrs: names of tensors with a row for each node.
        mode: "mean": floating-point attributes become the mean of what is matched with a node,
            weighted by mass, and gradients flow into them; of integers and bools (classes, masks)
            the value with the most mass wins, the lowest of equals, in each column by itself.
            "argmax": of all kinds, the row of the one node that most mass comes from.
        fill: what a target node gets that no mass comes to; None: that is an error.
        prefix: before the names under which the target gets them, such as `"matched_"`.

    Returns:
        A copy of `target`, which shares its other tensors and is not changed itself.

    Raises:
        TypeError: if an argument is of the wrong type, or an attribute is no tensor.
        ValueError: if the plan does not fit, the source lacks an attribute or has no row of it for
            each node, or the target has one of the same name; if a floating-point attribute is not
            finite; if nodes get no mass and there is no `fill`, or the attribute cannot hold it.

    Example:
        >>> from jsem_pyg.transport import gromov_wasserstein
        >>> x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> known, other = Data(x=x, y=torch.tensor([5, 6, 7])), Data(x=-x.flip(0))
        >>> plan = gromov_wasserstein(known, other, progress=False)
        >>> transfer_attributes(known, other, plan).y
        tensor([7, 6, 5])
    """
    check_instance("source", source, Data, "a Data")
    check_instance("target", target, Data, "a Data")
    check_instance("plan", plan, Plan, "a Plan")
    check_choice("mode", mode, MODES)
    check_text("prefix", prefix)
    if fill is not None:
        check_between("fill", fill, -math.inf, math.inf)
    if plan.shape != (source.num_nodes, target.num_nodes):
        raise ValueError(
            f"Expected 'plan' to go from the {source.num_nodes} nodes of 'source' to the "
            f"{target.num_nodes} of 'target' (got {plan.shape[0]} x {plan.shape[1]}). To fix this, "
            "swap both graphs, or take plan.transposed()."
        )
    if isinstance(attrs, str) or not isinstance(attrs, Sequence) or not attrs:
        raise TypeError(
            f"Expected 'attrs' to be names of attributes, as in ('y',) (got {attrs!r})."
        )
    received = plan.transposed()
    best = received.argmax()
    result = copy.copy(target)
    for name in attrs:
        value = _read(source, name)
        if prefix + name in target:
            raise ValueError(
                f"Expected 'target' to have no attribute {prefix + name!r} yet (got {target}). To "
                "fix this, pass a 'prefix'."
            )
        result[prefix + name] = _filled(name, _moved(received, best, value, mode), best < 0, fill)
    return result


def _read(source: Data, name: Any) -> Tensor:
    """An attribute of nodes."""
    check_text("attrs", name)
    if name not in source:
        raise ValueError(f"Expected 'source' to have the attribute {name!r} (got {source}).")
    value = source[name]
    check_tensor(name, value)
    if value.layout != torch.strided or value.dim() == 0 or value.size(0) != source.num_nodes:
        raise ValueError(
            f"Expected '{name}' of 'source' to be a dense tensor with a row for each of its "
            f"{source.num_nodes} nodes (got {value.layout}, shape {list(value.shape)})."
        )
    if value.is_complex():
        raise TypeError(f"Expected '{name}' of 'source' to be real (got {value.dtype}).")
    if value.is_floating_point():
        check_float(name, value)
        check_finite(name, value)
    return value


def _moved(received: Plan, best: Tensor, value: Tensor, mode: str) -> Tensor:
    """The rows of a value at the target's nodes; any, where these have no mass."""
    value = value.to(best.device)
    if mode == "argmax":
        return value[best.clamp(min=0)]
    columns = value.reshape(value.size(0), -1)
    if value.is_floating_point():
        means = received.apply(columns).to(value.dtype)
    else:
        votes = [_vote(received, column) for column in columns.unbind(1)]
        means = torch.stack(votes, 1) if votes else columns.new_zeros(best.numel(), 0)
    return means.reshape(best.numel(), *value.shape[1:])


def _vote(received: Plan, value: Tensor) -> Tensor:
    """The one of the values [N] that most mass comes from, for each target node: [K]."""
    classes, label = value.unique(return_inverse=True)
    most = received.scores.like.new_full((received.shape[0],), -1)
    winner = torch.zeros_like(most, dtype=torch.int64)
    for start in range(0, classes.numel(), _CLASSES):
        some = torch.arange(start, min(start + _CLASSES, classes.numel()), device=label.device)
        votes, index = received.apply((label[:, None] == some).to(most)).max(1)
        winner = torch.where(votes > most, some[index], winner)
        most = torch.maximum(votes, most)
    return classes[winner]


def _filled(name: str, value: Tensor, is_bare: Tensor, fill: float | None) -> Tensor:
    """The value, with `fill` in the rows that no mass comes to."""
    count = int(is_bare.sum())
    if count == 0:
        return value
    if fill is None:
        raise ValueError(
            f"Expected mass to come to all nodes of 'target' (got {count} without). To fix this, "
            "pass 'fill', which they get."
        )
    filling = torch.tensor(fill, device=value.device).to(value.dtype)
    if not value.is_floating_point() and float(filling) != float(fill):
        raise ValueError(f"Expected a 'fill' that {name!r}, {value.dtype}, can hold (got {fill}).")
    return torch.where(is_bare.reshape(-1, *[1] * (value.dim() - 1)), filling, value)
