"""A PyG transform: curvature as an edge feature."""

from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform

from .._checks import check_choice
from ..curvature import forman_curvature
from ..curvature.forman_ricci import METHODS
from ._edge_columns import EdgeColumns


@functional_transform("forman_curvature")
class FormanCurvature(EdgeColumns):
    """Appends the Forman-Ricci curvature of each edge to `data.edge_attr` (`forman_curvature`).

    Reads `edge_index` and, if there is one, `edge_weight`. The column has the type of an
    existing `edge_attr`, else of `x`, if these are floating-point. An `edge_attr` of shape [E]
    counts as [E, 1].

    Every graph, in a mini-batch too, is standardised by itself, until :meth:`fit` has made the
    transform remember the scale of the graphs it was given.

    Args:
        method: "augmented", "1d" or "balanced", see :func:`jsem_pyg.curvature.forman_curvature`.
        norm: whether to standardise by median and median absolute deviation
            (:func:`jsem_pyg.curvature.robust_standardize`).
        cat: whether to keep existing edge attributes; False replaces them.

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> data = FormanCurvature(norm=False)(Data(edge_index=edge_index, num_nodes=4))
        >>> data.edge_attr.flatten()
        tensor([3., 3., 2., 2., 2., 2., 0., 0.])
        >>> FormanCurvature().fit(data)
        FormanCurvature(method='augmented', norm=True, cat=True, fitted=True)
    """

    def __init__(self, method: str = "augmented", norm: bool = True, cat: bool = True) -> None:
        check_choice("method", method, METHODS)
        super().__init__(norm, cat)
        self.method = method

    def columns(self, data: Data) -> Tensor:
        """Compute the curvature [E, 1], not scaled yet."""
        weight = data.get("edge_weight")
        return forman_curvature(data.edge_index, weight, data.num_nodes, self.method)[:, None]

    def __repr__(self) -> str:
        return self._repr(f"method={self.method!r}")
