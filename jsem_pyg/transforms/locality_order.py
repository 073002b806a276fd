"""PyG transform: an order of the nodes in which neighbours lie close in memory."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.typing import SparseTensor

from .._checks import (
    INDICES,
    check_choice,
    check_dense,
    check_edge_index,
    check_edge_index_shape,
    check_node_index,
    check_positive_int,
    check_tensor,
)
from ..graph import GraphStructure
from ..partition import Partition, recursive_partition
from ..partition.split import METHODS, check_order
from ._batch import check_data, check_single, count_nodes

# A tile of so many rows, with the rows that it gathers, stays in the L2 cache of a core.
_ROWS_OF_A_BLOCK = 1024


@functional_transform("locality_order")
class LocalityOrder(BaseTransform):
    """Permutes the nodes of a graph so that neighbours lie close in memory.

    Attributes with a row for each node (`x`, `y`, masks, your own) move with their nodes. Columns
    of `edge_index` are renumbered and sorted, and attributes with a row for each edge move with
    their columns, as PyG's `is_node_attr` and `is_edge_attr` tell them apart. Other tensors that
    hold node numbers are renumbered and keep their order: `face`, and what has "index" in its name,
    such as `edge_label_index` (with its `edge_label`), as in PyG's mini-batches.
    `data.node_order` [N] has, for each place, the former number of its node; :meth:`restore`
    brings a result back into the order of the caller.

    Every call of :func:`~jsem_pyg.diffusion.heat_diffusion` or of a layer gives the same numbers on
    the permuted graph, up to rounding, and large graphs gain speed.

    Args:
        method: how blocks are made, see :func:`~jsem_pyg.partition.recursive_partition`.
        num_parts: how many blocks; None: one for every 1,024 nodes.

    Raises:
        TypeError: if `data` is not a homogeneous graph.
        ValueError: if `method` is none of these or cannot run, or if the graph is malformed, has no
            edges, is a mini-batch, or has a `node_order` already.

    Example:
        A path whose nodes come in no order.

        >>> edge_index = torch.tensor([[0, 3, 3, 1, 1, 2], [3, 0, 1, 3, 2, 1]])
        >>> data = Data(x=torch.arange(4.0)[:, None], edge_index=edge_index)
        >>> transform = LocalityOrder(method="bandwidth")
        >>> permuted = transform(data)
        >>> (permuted.edge_index[0] - permuted.edge_index[1]).abs()
        tensor([1, 1, 1, 1, 1, 1])
        >>> transform.restore(permuted.x).flatten()
        tensor([0., 1., 2., 3.])
    """

    def __init__(self, method: str = "auto", num_parts: int | None = None) -> None:
        check_choice("method", method, METHODS)
        if num_parts is not None:
            check_positive_int("num_parts", num_parts)
        self.method, self.num_parts = method, num_parts
        self.partition: Partition | None = None  # of the last graph

    def forward(self, data: Data) -> Data:
        """Permute a copy of `data`; its tensors are new, those of the caller stay as they are."""
        check_single(data, "data", "apply LocalityOrder() to each graph before they are joined")
        _check(data)
        size = count_nodes(data)
        check_edge_index(data.edge_index, size)
        structure = GraphStructure(data.edge_index, size)
        num_parts = self.num_parts or max(1, size // _ROWS_OF_A_BLOCK)
        partition = recursive_partition(structure, num_parts, method=self.method)
        order, place = (
            each.to(data.edge_index.device) for each in (partition.order, partition.place)
        )
        moved = place[data.edge_index.long()]
        by_place = (moved[0] * size + moved[1]).argsort(stable=True)
        out = copy.copy(data)
        for key in set(data.keys()) - {"edge_index"}:
            value, dim = data[key], data.__cat_dim__(key, data[key])
            if _holds_nodes(data, key, value):
                check_node_index(key, value, size)
                out[key] = place.to(value.device)[value.long()].to(value.dtype)
            elif key.startswith("edge_label"):
                continue  # one for each column of `edge_label_index`, which keep their order
            # As many edges as nodes: the name tells which question comes first, whose answer PyG
            # keeps. Of a sparse x, `is_node_attr` is false.
            elif ("edge" in key or not data.is_node_attr(key)) and data.is_edge_attr(key):
                out[key] = _take(value, by_place, dim)
            elif data.is_node_attr(key) or (
                isinstance(value, SparseTensor) and value.size(0) == size
            ):
                out[key] = _take(value, order, dim)
        out.edge_index = moved[:, by_place].to(data.edge_index.dtype)
        out.node_order = order
        self.partition = partition
        return out

    def restore(self, out: Tensor, data: Data | None = None) -> Tensor:
        """Bring rows back into the order of the caller.

        Args:
            out: [..., N, D] or [N], rows in the order of a permuted graph.
            data: this graph, or a mini-batch of permuted graphs; None: the last graph that this
                transform has permuted.

        Returns:
            A tensor like `out`; differentiable.

        Raises:
            TypeError: if `out` is no tensor, or `data` no graph.
            ValueError: if there is no permutation, or it is of another length.
        """
        check_tensor("out", out)
        check_dense("out", out)
        order = self._last_order() if data is None else _order_of(data)
        dim = 0 if out.dim() == 1 else -2
        if out.dim() == 0 or out.size(dim) != order.numel():
            raise ValueError(
                f"Expected 'out' to have {order.numel()} rows, as 'node_order' has entries "
                f"(got shape {list(out.shape)})."
            )
        place = torch.empty_like(order)
        place[order] = torch.arange(order.numel(), device=order.device)
        return out.index_select(dim, place.to(out.device))

    def _last_order(self) -> Tensor:
        if self.partition is None:
            raise ValueError(
                "Expected a graph that has been permuted (got none yet). To fix this, call the "
                "transform first, or pass 'data'."
            )
        return self.partition.order

    def __repr__(self) -> str:
        return f"LocalityOrder(method={self.method!r}, num_parts={self.num_parts})"


def _holds_nodes(data: Data, key: str, value: Any) -> bool:
    """True for tensors of node numbers, to which PyG's `Batch` adds those of the graphs before."""
    is_index = isinstance(value, Tensor) and value.dtype in INDICES and "batch" not in key
    return is_index and isinstance(added := data.__inc__(key, value), int) and added > 0


def _check(data: Data) -> None:
    """Raise unless all that belongs to the edges of a graph will be permuted with them."""
    if data.get("edge_index") is None:
        raise ValueError(
            "Expected 'data' to have an 'edge_index' (got none). To fix this, apply "
            "FaissKNNGraph() first."
        )
    check_edge_index_shape(data.edge_index)
    num_edges = data.edge_index.size(1)
    for name in ("edge_weight", "edge_attr"):
        value = data.get(name)
        if value is None:
            continue
        check_tensor(name, value)
        check_dense(name, value)
        if value.dim() == 0 or value.size(0) != num_edges:
            raise ValueError(
                f"Expected '{name}' to have a row for each of the {num_edges} columns of "
                f"'edge_index' (got shape {list(value.shape)})."
            )
    for name in ("adj", "adj_t"):
        if data.get(name) is not None:
            raise ValueError(
                f"Expected 'data' to have its edges in 'edge_index' (got '{name}' beside it). "
                "To fix this, apply torch_geometric.transforms.ToSparseTensor() after this."
            )
    if data.get("node_order") is not None:
        raise ValueError(
            "Expected 'data' without a 'node_order' (got one: its nodes are permuted already). "
            "To fix this, delete it, once it is of no use any more."
        )


def _take(value: Any, index: Tensor, dim: Any) -> Any:
    """The entries at some places along `dim`, of any type that PyG keeps for nodes or edges."""
    if isinstance(value, Tensor):
        return value.index_select(dim, index.to(value.device))
    if isinstance(value, SparseTensor):
        index = index.to(value.device())
        for each in dim if isinstance(dim, tuple) else (dim,):  # of a matrix of pairs, both
            value = value.index_select(each, index)
        return value
    if isinstance(value, np.ndarray):
        return value.take(index.cpu().numpy(), axis=dim)
    return type(value)(value[at] for at in index.tolist())  # a list or tuple


def _order_of(data: Data) -> Tensor:
    """The permutation that a graph or a mini-batch carries."""
    check_data(data)
    order = data.get("node_order")
    if order is None:
        raise ValueError(
            "Expected 'data' to have a 'node_order' (got none). To fix this, pass what this "
            "transform has returned."
        )
    batch = data.get("batch")
    if batch is not None:
        check_tensor("node_order", order)
        order = order + data.ptr[batch]
    check_order("node_order", order)
    return order
