"""Checks of edges and of what they carry."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .arguments import check_nonnegative_int
from .tensors import INDICES, check_dense, check_integers, check_tensor, check_vector
from .values import check_nonnegative_entries, numbers_of

# How far values may differ between both directions of an edge: relative to the entry, and, of the
# largest entry, by a few units of the last place of their type. Rounding and the small steps of
# numerical differentiation pass, real asymmetry does not.
SYMMETRY_RTOL, SYMMETRY_ULPS = 1e-4, 4

# Float32 has fewer digits below 1e-38, and halves of its smallest numbers are zero.
_TINY = 1e-30


def check_pairs(name: str, value: Any, columns: str) -> None:
    """Raise unless `value` is an integer tensor of shape [2, `columns`]."""
    check_tensor(name, value, f"a [2, {columns}] integer tensor")
    if value.dim() != 2 or value.size(0) != 2:
        raise ValueError(
            f"Expected '{name}' to have shape [2, {columns}] (got {list(value.shape)})."
        )
    if value.dtype not in INDICES:
        raise ValueError(f"Expected '{name}' to be of integer type (got {value.dtype}).")
    check_dense(name, value)


def check_edge_index_shape(edge_index: Any) -> None:
    """Raise unless `edge_index` is an integer tensor of shape [2, E]."""
    check_pairs("edge_index", edge_index, "E")


def check_node_index(name: str, index: Tensor, num_nodes: int) -> None:
    """Raise unless all entries of `index` are in [0, num_nodes)."""
    if index.numel() > 0:
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= num_nodes:
            raise ValueError(
                f"Expected '{name}' to hold node indices in [0, {num_nodes}) "
                f"(got values from {low} to {high})."
            )


def check_nodes(name: str, nodes: Any, num_nodes: int) -> None:
    """Raise unless `nodes` is an integer tensor [M] with entries in [0, num_nodes)."""
    check_integers(name, nodes)
    if nodes.dim() != 1:
        raise ValueError(f"Expected '{name}' to have shape [M] (got {list(nodes.shape)}).")
    check_node_index(name, nodes, num_nodes)


def check_edge_index(edge_index: Any, num_nodes: int) -> None:
    """Raise unless `edge_index` is a [2, E] integer tensor with entries in [0, num_nodes)."""
    check_edge_index_shape(edge_index)
    check_nonnegative_int("num_nodes", num_nodes)
    check_node_index("edge_index", edge_index, num_nodes)


def check_edge_vector(name: str, value: Any, num_edges: int) -> None:
    """Raise unless `value` is a floating-point tensor of shape [num_edges]."""
    check_vector(name, value, num_edges, "column of 'edge_index'")


def check_edge_weight(edge_weight: Any, num_edges: int, name: str = "edge_weight") -> None:
    """Raise unless `edge_weight` is a finite, non-negative float tensor of shape [num_edges]."""
    check_edge_vector(name, edge_weight, num_edges)
    check_nonnegative_entries(name, edge_weight)


def check_degree(
    name: str, weight: Tensor, num_terms: int, degree: Callable[[Tensor], Tensor]
) -> None:
    """Raise a ValueError if `degree(weight)`, sums of at most `num_terms` weights, overflows.

    An operator would take the inverse root of an infinite degree for that of a node without edges.
    """
    weight = numbers_of(weight)
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    highest, largest = float(weight.max()) if weight.numel() else 0.0, torch.finfo(weight.dtype).max
    if highest * num_terms <= largest:
        return
    overflown = int((~degree(weight).isfinite()).sum())
    if overflown:
        raise ValueError(
            f"Expected '{name}' to have sums below {largest:.3g} at every node (got {overflown} "
            f"nodes whose weighted degree overflows, and a maximum of {highest:.3g}). To fix this, "
            "divide the weights by their maximum."
        )


def has_tiny(weight: Tensor) -> bool:
    """True if weights of float32 are so small that sums of them would lose digits."""
    weight = numbers_of(weight)
    if weight.dtype == torch.float64 or weight.numel() == 0 or float(weight.min()) > _TINY:
        return False
    return bool(((weight > 0) & (weight < _TINY)).any())


def uneven(forward: Tensor, backward: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Mask of values that differ from the other direction by more than rounding to `dtype`."""
    largest = forward.abs().max() if forward.numel() else 0
    rounding = SYMMETRY_ULPS * torch.finfo(forward.dtype if dtype is None else dtype).eps
    return (forward - backward).abs() > SYMMETRY_RTOL * forward.abs() + rounding * largest


def check_symmetric(
    name: str, forward: Tensor, backward: Tensor, dtype: torch.dtype | None = None
) -> None:
    """Raise a ValueError unless edges have the same values [E] as their reverses, to rounding."""
    forward, backward = numbers_of(forward), numbers_of(backward)
    if torch.equal(forward, backward):
        return
    differs = uneven(forward, backward, dtype)
    if bool(differs.any()):
        difference = float((forward - backward).abs().max())
        raise ValueError(
            f"Expected '{name}' to be the same in both directions of an edge (got "
            f"{int(differs.sum())} entries that differ, by up to {difference:.3g}). To "
            f"fix this, call torch_geometric.utils.to_undirected(edge_index, {name}, "
            "reduce='mean')."
        )
