"""PyG transform: an order of the nodes in which neighbours lie close in memory."""

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import is_sparse, select

from .._checks import (
    check_choice,
    check_edge_index,
    check_node_index,
    check_positive_int,
    check_tensor,
)
from ..graph import GraphStructure
from ..partition import Partition, recursive_partition
from ..partition.split import METHODS
from ._batch import check_single

# A tile of so many rows, with the rows that it gathers, stays in the L2 cache of a core.
_ROWS_OF_A_BLOCK = 1024


@functional_transform("locality_order")
class LocalityOrder(BaseTransform):
    """Permutes the nodes of a graph so that neighbours lie close in memory.

    Attributes of nodes (`x`, `y`, masks, your own) move with their nodes, as in PyG's
    `data.subgraph(order)`; edges are sorted, and their attributes move with them. Tensors that hold
    node numbers are renumbered: `face`, and what has "index" in its name, as in PyG's mini-batches.
    `data.node_order` [N] has, for each place, the former number of its node; :meth:`restore`
    brings a result back into the order of the caller.

    Every call of :func:`~jsem_pyg.diffusion.heat_diffusion` or of a layer gives the same numbers on
    the permuted graph, up to rounding, and large graphs gain speed.

    Args:
        method: how blocks are made, see :func:`~jsem_pyg.partition.recursive_partition`.
        num_parts: how many blocks; None: one for every 1,024 nodes.

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
        self._orders = 0  # different ones, of all graphs

    def forward(self, data: Data) -> Data:
        """Permute a copy of `data`; its tensors are new, the caller's tensors stay as they are."""
        check_single(data)
        for name, value in data:
            if is_sparse(value) or name == "node_order":
                raise ValueError(f"Expected 'data' to be dense, not yet permuted (got {name!r}).")
        size = data.num_nodes or 0
        check_edge_index(data.edge_index, size)
        num_parts = self.num_parts or max(1, size // _ROWS_OF_A_BLOCK)
        structure = GraphStructure(data.edge_index, size)
        partition = recursive_partition(structure, num_parts, method=self.method)
        order = partition.order.to(data.edge_index.device)
        place = partition.place.to(data.edge_index.device)

        out = data.subgraph(order)
        row, col = place[data.edge_index.long()]
        by_place = (row * size + col).argsort(stable=True)
        for key in data.edge_attrs():
            out[key] = select(data[key], by_place, dim=data.__cat_dim__(key, data[key]))
        for key, value in out.to_dict().items():
            if isinstance(value, Tensor) and ("index" in key or key == "face"):
                check_node_index(key, value, size)
                out[key] = place[value.long()].to(value.dtype)
        out.node_order = order
        last = self.partition
        self._orders += last is None or not torch.equal(last.order, partition.order)
        self.partition = partition
        return out

    def restore(self, out: Tensor, data: Data | None = None) -> Tensor:
        """Bring rows of a permuted graph back into the order of the caller.

        Args:
            out: [..., N, D] or [N], rows in the order of the permuted graph.
            data: that graph, as the transform returned it; not needed where all graphs got the
                same order.
        """
        check_tensor("out", out)
        if data is not None:
            place = data.node_order.argsort()
        elif self.partition is None:
            raise ValueError("Expected a graph that has been permuted (got none yet).")
        elif self._orders > 1:
            raise ValueError(
                f"Expected 'data' beside 'out', as the transform has given {self._orders} orders "
                "(got None). To fix this, call restore(out, data) with the permuted graph."
            )
        else:
            place = self.partition.place
        dim, size = 0 if out.dim() == 1 else -2, len(place)
        if out.dim() == 0 or out.size(dim) != size:
            raise ValueError(f"Expected 'out' to have {size} rows (got {list(out.shape)}).")
        return out.index_select(dim, place.to(out.device))

    def __repr__(self) -> str:
        return f"LocalityOrder(method={self.method!r}, num_parts={self.num_parts})"
