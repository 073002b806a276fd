"""Check what describes a graph: pairs of nodes, and the numbers of its edges."""

from typing import Any

import scipy.sparse
import torch
from torch import Tensor

from .tensors import (
    check_dense,
    check_finite,
    check_integers,
    check_tensor,
    check_vector,
    check_weight_range,
    numbers_of,
)
from .values import check_nonnegative_int

INDICES = (torch.int64, torch.int32)

# How far values may differ between both directions of an edge: relative to the entry, and, of the
# largest entry, by a few units of the last place of their type. Rounding and the small steps of
# numerical differentiation pass, real asymmetry does not.
_SYMMETRY_RTOL, _SYMMETRY_ULPS = 1e-4, 4


def check_pairs(name: str, value: Any, columns: str) -> None:
    """Raise unless `value` is an integer tensor of shape [2, `columns`]."""
    check_tensor(name, value, f"a [2, {columns}] integer tensor")
    if value.dim() != 2 or value.size(0) != 2:
        raise ValueError(
            f"Expected '{name}' to have shape [2, {columns}] (got {list(value.shape)})."
        )
    if value.dtype not in INDICES:
        raise ValueError(
            f"Expected '{name}' to be of integer type, int64 or int32 (got {value.dtype})."
        )
    check_dense(name, value)


def check_edge_index_shape(edge_index: Any, name: str = "edge_index") -> None:
    """Raise unless `edge_index` is an integer tensor of shape [2, E]."""
    if scipy.sparse.issparse(edge_index):
        raise TypeError(
            f"Expected '{name}' to be a [2, E] integer tensor (got a sparse matrix of SciPy's). "
            "To fix this, call torch_geometric.utils.from_scipy_sparse_matrix(matrix)."
        )
    check_pairs(name, edge_index, "E")


def check_node_index(name: str, index: Tensor, num_nodes: int) -> None:
    """Raise unless all entries of `index` are in [0, num_nodes)."""
    if index.numel() > 0:
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= num_nodes:
            raise ValueError(
                f"Expected '{name}' to hold node indices in [0, {num_nodes}) "
                f"(got values from {low} to {high})."
            )


def read_nodes(name: str, nodes: Any, num_nodes: int) -> Tensor:
    """Return nodes [M] as int64; raise unless they are integers in [0, num_nodes)."""
    check_integers(name, nodes)
    if nodes.dim() != 1:
        raise ValueError(f"Expected '{name}' to have shape [M] (got {list(nodes.shape)}).")
    nodes = nodes.long()
    check_node_index(name, nodes, num_nodes)
    return nodes


def check_edge_index(edge_index: Any, num_nodes: int) -> None:
    """Raise unless `edge_index` is a [2, E] integer tensor with entries in [0, num_nodes)."""
    check_edge_index_shape(edge_index)
    check_nonnegative_int("num_nodes", num_nodes)
    check_node_index("edge_index", edge_index, num_nodes)


def check_num_nodes(prepared: int, num_nodes: int) -> None:
    """Raise unless x has as many nodes as a prepared graph."""
    if num_nodes != prepared:
        raise ValueError(
            f"Expected 'x' to have {prepared} nodes, as the prepared 'edge_index' "
            f"(got {num_nodes})."
        )


def check_edge_vector(name: str, value: Any, num_edges: int) -> None:
    """Raise unless `value` is a floating-point tensor of shape [num_edges]."""
    is_wide = isinstance(value, Tensor) and value.dim() == 2
    cure = f" To fix this, pass {name}.squeeze(-1), or features, to a layer, as edge_attr=."
    check_vector(name, value, num_edges, "column of 'edge_index'", cure if is_wide else "")


def check_edge_weight(edge_weight: Any, num_edges: int, name: str = "edge_weight") -> None:
    """Raise unless `edge_weight` holds [num_edges] weights in the supported range."""
    check_edge_vector(name, edge_weight, num_edges)
    check_weight_range(name, edge_weight)


def check_conductance(name: str, value: Any, num_edges: int) -> None:
    """Raise unless `value` holds [num_edges] conductances in [0, 1]."""
    check_edge_vector(name, value, num_edges)
    check_finite(name, value)
    low, high = (float(value.min()), float(value.max())) if num_edges else (0, 0)
    if low < 0 or high > 1:
        raise ValueError(f"Expected '{name}' to lie in [0, 1] (got values from {low} to {high}).")


def check_edge_type(edge_type: Any, num_edges: int, num_relations: int | None = None) -> None:
    """Raise unless `edge_type` [num_edges] holds relations in [0, num_relations)."""
    cure = (
        "To fix this where to_undirected added types up or took their mean, take "
        "jsem_pyg.transforms.BothDirections(), which keeps them."
    )
    if isinstance(edge_type, Tensor) and edge_type.is_floating_point():
        raise TypeError(
            f"Expected 'edge_type' to be of integer type (got {edge_type.dtype}). {cure}"
        )
    check_integers("edge_type", edge_type)
    if edge_type.dim() != 1 or edge_type.numel() != num_edges:
        raise ValueError(
            f"Expected 'edge_type' to have shape [{num_edges}], one relation for each column of "
            f"'edge_index' (got {list(edge_type.shape)})."
        )
    low, high = (int(edge_type.min()), int(edge_type.max())) if num_edges else (0, 0)
    if low < 0 or (num_relations is not None and high >= num_relations):
        raise ValueError(
            f"Expected 'edge_type' to hold relations in [0, {num_relations or 'R'}), as "
            f"'num_relations' says (got values from {low} to {high}). {cure}"
        )


def check_symmetric(
    name: str, forward: Tensor, backward: Tensor, dtype: torch.dtype | None = None
) -> None:
    """Raise a ValueError unless edges have the same values [E] as their reverses, to rounding."""
    forward, backward = numbers_of(forward), numbers_of(backward)
    if torch.equal(forward, backward):
        return
    largest = forward.abs().max()
    rounding = _SYMMETRY_ULPS * torch.finfo(forward.dtype if dtype is None else dtype).eps
    differs = (forward - backward).abs() > _SYMMETRY_RTOL * forward.abs() + rounding * largest
    if bool(differs.any()):
        difference = float((forward - backward).abs().max())
        raise ValueError(
            f"Expected '{name}' to be the same in both directions of an edge (got "
            f"{int(differs.sum())} entries that differ, by up to {difference:.3g}). To "
            f"fix this, call torch_geometric.utils.to_undirected(edge_index, {name}, "
            "reduce='mean')."
        )
