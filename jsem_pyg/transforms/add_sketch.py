"""A PyG transform: heat of random signs, as features of graphs that have none."""

from collections.abc import Sequence

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from ..diffusion import sketch_nodes
from ._node_columns import NodeColumns


@functional_transform("add_sketch")
class AddSketch(NodeColumns):
    """Adds an embedding of the nodes that is made of edges alone.

    Random signs that heat spreads (:func:`jsem_pyg.diffusion.sketch_nodes`), from `edge_index` and,
    if there is one, `edge_weight`. Sketches of different graphs cannot be compared, so a mini-batch
    is refused.

    Args:
        dim: the number of columns, a multiple of the number of times.
        t: the diffusion time >= 0, or several.
        attr_name: the attribute that gets them, [N, dim]; None appends them to `data.x`.
        seed: of the random signs.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> data = AddSketch(8)(Data(edge_index=path, num_nodes=4))
        >>> data.sketch.shape
        torch.Size([4, 8])
    """

    def __init__(
        self,
        dim: int,
        t: float | Sequence[float] = (10.0, 100.0),
        attr_name: str | None = "sketch",
        seed: int = 0,
    ) -> None:
        super().__init__("dim", dim, attr_name, seed)
        self.dim, self.t = dim, t

    def columns(self, edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> Tensor:
        """Compute the sketch [N, dim]."""
        options = {"num_nodes": num_nodes, "seed": self.seed}
        return sketch_nodes(edge_index, self.dim, edge_weight, self.t, **options)

    def __repr__(self) -> str:
        return f"AddSketch({self.dim}, t={self.t!r}, attr_name={self.attr_name!r})"
