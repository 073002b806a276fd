"""PyG transform: an order of the nodes in which neighbours lie close in memory."""

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform
from torch_geometric.utils import is_sparse, select

from .._checks import (
    check_choice,
    check_dense,
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

    Raises:
        ValueError: if `data` is a mini-batch, is malformed, has sparse attributes, or is permuted
            already.

    Example:
        A path whose nodes come in no order.

        >>> import torch
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
        """Permute a copy of `data`; its tensors are new, the caller's tensors stay as they are."""
        check_single(data, "data", "apply LocalityOrder() to each graph before they are joined")
        _check(data)
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
        self.partition = partition
        return out

    def restore(self, out: Tensor) -> Tensor:
        """Bring rows of the last graph back into the order of the caller.

        Args:
            out: [..., N, D] or [N], rows in the order of the permuted graph. Those of an earlier
                graph are restored by indexing: ``out[data.node_order.argsort()]``.

        Returns:
            A tensor like `out`; differentiable.

        Raises:
            ValueError: if no graph has been permuted, or it is of another size.
        """
        check_tensor("out", out)
        check_dense("out", out)
        if self.partition is None:
            raise ValueError(
                "Expected a graph that has been permuted (got none yet). To fix this, call the "
                "transform first."
            )
        dim, size = 0 if out.dim() == 1 else -2, self.partition.num_nodes
        if out.dim() == 0 or out.size(dim) != size:
            raise ValueError(
                f"Expected 'out' to have {size} rows, as the last graph has nodes (got shape "
                f"{list(out.shape)})."
            )
        return out.index_select(dim, self.partition.place.to(out.device))

    def __repr__(self) -> str:
        return f"LocalityOrder(method={self.method!r}, num_parts={self.num_parts})"


def _check(data: Data) -> None:
    """Raise unless all that belongs to the edges of a graph will be permuted with them."""
    if data.get("edge_index") is None:
        raise ValueError(
            "Expected 'data' to have an 'edge_index' (got none). To fix this, apply "
            "FaissKNNGraph() first."
        )
    for name, value in data:
        if is_sparse(value):
            raise ValueError(
                f"Expected 'data' to have dense attributes (got a sparse '{name}'). To fix this, "
                "apply torch_geometric.transforms.ToSparseTensor() after this."
            )
    for name in ("edge_weight", "edge_attr"):
        if data.get(name) is not None and not data.is_edge_attr(name):
            raise ValueError(
                f"Expected '{name}' to have a row for each of the {data.num_edges} columns of "
                f"'edge_index' (got {data[name]})."
            )
    if data.get("node_order") is not None:
        raise ValueError(
            "Expected 'data' without a 'node_order' (got one: its nodes are permuted already). "
            "To fix this, delete it, once it is of no use any more."
        )
