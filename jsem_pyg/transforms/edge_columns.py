"""PyG transforms that append edge attributes: curvature, overlap and diffusion cosine."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from .._checks import FLOATS, check_bool, check_choice, check_nonnegative, check_rows
from .._precision import unit_rows
from ..curvature import forman_curvature, jaccard_overlap, robust_standardize
from ..curvature.forman_ricci import METHODS
from ..diffusion import heat_diffusion
from ..graph.reader import check_data
from ..kernels.edge_dot import edge_dot
from ._batch import edge_graph, record_edges

FEATURES = ("jaccard", "diffusion_cosine")


class EdgeColumns(BaseTransform):
    """Appends columns to `data.edge_attr`; a subclass computes them in `columns`.

    Args:
        norm: whether each column is standardised.
        cat: whether to keep existing edge attributes.
    """

    def __init__(self, norm: bool, cat: bool) -> None:
        check_bool("norm", norm)
        check_bool("cat", cat)
        self.norm = norm
        self.cat = cat

    def columns(self, data: Data) -> Tensor:
        """Compute the columns [E, F], not scaled yet."""
        raise NotImplementedError

    def forward(self, data: Data) -> Data:
        """Add the new columns to `data`; `__call__` has copied it."""
        check_data(data, "edge_index")
        columns = self.columns(data)
        if self.norm:
            graph = edge_graph(data)
            scaled = [robust_standardize(column, graph) for column in columns.unbind(1)]
            columns = torch.stack(scaled, dim=1)
        kept = data.get("edge_attr")
        for pattern in (kept, data.get("x")):
            if isinstance(pattern, Tensor) and pattern.dtype in FLOATS:
                columns = columns.to(pattern.dtype)
                break
        if kept is not None and self.cat:
            check_rows("data.edge_attr", kept.to(columns.dtype), len(columns), "edge")
            columns = torch.cat([kept[:, None] if kept.dim() == 1 else kept, columns], dim=1)
        data.edge_attr = columns
        record_edges(data, "edge_attr")
        return data


@functional_transform("forman_curvature")
class FormanCurvature(EdgeColumns):
    """Appends the Forman-Ricci curvature of each edge to `data.edge_attr` (`forman_curvature`).

    Reads `edge_index` and, if there is one, `edge_weight`. The column has the type of an
    existing `edge_attr`, else of `x`, if these are floating-point. An `edge_attr` of shape [E]
    counts as [E, 1]. Every graph, in a mini-batch too, is standardised by itself.

    Args:
        method: "augmented", "1d" or "balanced", see :func:`jsem_pyg.curvature.forman_curvature`.
        norm: whether to standardise by median and median absolute deviation
            (:func:`jsem_pyg.curvature.robust_standardize`).
        cat: whether to keep existing edge attributes; False replaces them.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> data = FormanCurvature(norm=False)(Data(edge_index=edge_index, num_nodes=4))
        >>> data.edge_attr.flatten()
        tensor([3., 3., 2., 2., 2., 2., 0., 0.])
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
        return f"FormanCurvature(method={self.method!r}, norm={self.norm}, cat={self.cat})"


@functional_transform("edge_geometry")
class EdgeGeometry(EdgeColumns):
    r"""Appends overlap of neighbours and cosine of both ends to `data.edge_attr` (`edge_geometry`).

    * ``"jaccard"``: the part of all neighbours that both ends share,
      :func:`jsem_pyg.curvature.jaccard_overlap`.
    * ``"diffusion_cosine"``: the cosine of the ends' features after a short isotropic diffusion,
      :math:`e^{-t L} X`: it averages the noise of single points away. Needs `x`.

    Types and scales are as in :class:`FormanCurvature`; no gradient flows through the columns.

    Args:
        features: names of the above, one column for each name, in this order.
        t: the diffusion time of ``"diffusion_cosine"``, >= 0.
        norm, cat: as in :class:`FormanCurvature`.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
        >>> data = Data(edge_index=edge_index, num_nodes=4)
        >>> EdgeGeometry(["jaccard"], norm=False)(data).edge_attr[::2, 0]
        tensor([0.3333, 0.2500, 0.2500, 0.0000])
    """

    def __init__(
        self,
        features: Sequence[str] = FEATURES,
        t: float = 3.0,
        norm: bool = True,
        cat: bool = True,
    ) -> None:
        super().__init__(norm, cat)
        if isinstance(features, str) or not isinstance(features, Sequence) or not features:
            raise TypeError(f"Expected 'features' to be a list of names (got {features!r}).")
        for name in features:
            check_choice("features", name, FEATURES)
        check_nonnegative("t", t)
        self.features = tuple(features)
        self.t = t

    @torch.no_grad()
    def columns(self, data: Data) -> Tensor:
        """Compute the features [E, F], not scaled yet."""
        found = {}
        if "jaccard" in self.features:
            found["jaccard"] = jaccard_overlap(data.edge_index, data.num_nodes)
        if "diffusion_cosine" in self.features:
            check_data(data, "x")
            y = heat_diffusion(data.x, data.edge_index, data.get("edge_weight"), self.t)
            y = unit_rows(y if y.dtype == torch.float64 else y.float())
            found["diffusion_cosine"] = edge_dot(y, y, *data.edge_index).clamp(-1, 1)
        return torch.stack([found[name] for name in self.features], dim=1)

    def __repr__(self) -> str:
        return f"EdgeGeometry({self.features}, t={self.t}, norm={self.norm}, cat={self.cat})"
