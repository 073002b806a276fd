"""PyG transforms that append edge attributes: curvature, overlap and diffusion cosine."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import BaseData
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from .._checks import (
    FLOATS,
    check_bool,
    check_choice,
    check_dense,
    check_nonnegative,
    check_tensor,
)
from .._precision import unit_rows
from ..curvature import forman_curvature, jaccard_overlap, robust_standardize
from ..curvature.forman_ricci import METHODS
from ..curvature.standardize import robust_scale
from ..diffusion import heat_diffusion
from ..kernels.edge_dot import edge_dot
from ._batch import check_edges, edge_graph, record_edges


class EdgeColumns(BaseTransform):
    """Appends columns to `data.edge_attr`; a subclass computes them in `columns`.

    Args:
        norm: whether each column is standardised.
        cat: whether to keep existing edge attributes.
    """

    scale: tuple[Tensor, Tensor] | None = None  # median and spread [F] that were fitted

    def __init__(self, norm: bool, cat: bool) -> None:
        check_bool("norm", norm)
        check_bool("cat", cat)
        self.norm = norm
        self.cat = cat

    def columns(self, data: Data) -> Tensor:
        """Compute the columns [E, F], not scaled yet."""
        raise NotImplementedError

    def fit(self, data: Data | Iterable[Data]) -> Self:
        """Find the scale of these edges, and keep it for all later graphs.

        Args:
            data: a graph, a mini-batch or any iterable of graphs (a dataset), whose edges are taken
                together.
        """
        if not self.norm:
            raise ValueError(
                "Expected 'norm' to be True, as there is nothing to remember without a scale (got "
                "False)."
            )
        graphs = data if isinstance(data, Iterable) and not isinstance(data, BaseData) else [data]
        columns = [self._columns(graph) for graph in graphs]
        if not sum(each.size(0) for each in columns):
            raise ValueError(
                f"Expected 'data' to have edges to be fitted on (got {len(columns)} graph(s) and "
                "none)."
            )
        self.scale = robust_scale(torch.cat(columns))
        return self

    def forward(self, data: Data) -> Data:
        """Add the new columns to `data`; `__call__` has copied it."""
        columns = self._scaled(self._columns(data), data)
        data.edge_attr = self._append(columns, data.get("edge_attr"), data.get("x"))
        record_edges(data, "edge_attr")
        return data

    def _columns(self, data: Data) -> Tensor:
        check_edges(data)
        return self.columns(data)

    def _scaled(self, columns: Tensor, data: Data) -> Tensor:
        if not self.norm:
            return columns
        if self.scale is not None:
            median, spread = (each.to(columns.device) for each in self.scale)
            return ((columns.double() - median) / spread).to(columns.dtype)
        graph = edge_graph(data)
        scaled = [robust_standardize(column, graph) for column in columns.unbind(1)]
        return torch.stack(scaled, dim=1)

    def _append(self, columns: Tensor, edge_attr: Tensor | None, x: Tensor | None) -> Tensor:
        for pattern in (edge_attr, x):
            if isinstance(pattern, Tensor) and pattern.dtype in FLOATS:
                columns = columns.to(pattern.dtype)
                break
        if edge_attr is None or not self.cat:
            return columns
        _check_kept(edge_attr, columns.size(0))
        kept = edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr
        return torch.cat([kept, columns], dim=1)

    def _repr(self, options: str) -> str:
        fitted = "" if self.scale is None else ", fitted=True"
        norms = f"norm={self.norm!r}, cat={self.cat}"
        return f"{self.__class__.__name__}({options}, {norms}{fitted})"


def _check_kept(edge_attr: Tensor, num_edges: int) -> None:
    """Raise unless existing edge attributes can be joined with new ones."""
    check_tensor("edge_attr", edge_attr)
    check_dense("edge_attr", edge_attr)
    if edge_attr.dim() not in (1, 2) or edge_attr.size(0) != num_edges:
        raise ValueError(
            f"Expected 'edge_attr' to have shape [{num_edges}, F], a row for each column of "
            f"'edge_index' (got {list(edge_attr.shape)}). To fix this, mend it, or pass cat=False, "
            "which replaces it."
        )


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


def _diffusion_cosine(data: Data, t: float) -> Tensor:
    """Compute the cosine [E] between the diffused features of both ends of each edge."""
    x: Tensor | None = data.get("x")
    if x is None:
        raise ValueError(
            "Expected 'data' to have 'x' for 'diffusion_cosine' (got none). To fix this, set "
            "data.x, or leave 'diffusion_cosine' out of 'features'."
        )
    y = heat_diffusion(x, data.edge_index, data.get("edge_weight"), t)
    y = unit_rows(y if y.dtype == torch.float64 else y.float())
    return edge_dot(y, y, *data.edge_index).clamp(-1, 1)


FEATURES: dict[str, Callable[[Data, float], Tensor]] = {
    "jaccard": lambda data, t: jaccard_overlap(data.edge_index, data.num_nodes),
    "diffusion_cosine": _diffusion_cosine,
}


@functional_transform("edge_geometry")
class EdgeGeometry(EdgeColumns):
    r"""Appends further geometry of each edge to `data.edge_attr` (`edge_geometry`), in this order.

    * ``"jaccard"``: the part of all neighbours that both ends share,
      :func:`jsem_pyg.curvature.jaccard_overlap`.
    * ``"diffusion_cosine"``: the cosine of the ends' features after a short isotropic diffusion,
      :math:`e^{-t L} X`: it averages the noise of single points away. Needs `x`.

    Types, scales and :meth:`fit` are as in :class:`FormanCurvature`; no gradient flows through the
    columns.

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
        features: Sequence[str] = tuple(FEATURES),
        t: float = 3.0,
        norm: bool = True,
        cat: bool = True,
    ) -> None:
        super().__init__(norm, cat)
        self.features = _check_features(features)
        check_nonnegative("t", t)
        self.t = t

    @torch.no_grad()
    def columns(self, data: Data) -> Tensor:
        """Compute the features [E, F], not scaled yet."""
        return torch.stack([FEATURES[name](data, self.t) for name in self.features], dim=1)

    def __repr__(self) -> str:
        return self._repr(f"features={self.features}, t={self.t}")


def _check_features(features: Any) -> tuple[str, ...]:
    if isinstance(features, str) or not isinstance(features, Sequence):
        raise TypeError(
            f"Expected 'features' to be a list or tuple of names (got {features!r}). To fix this, "
            "put brackets around a single name."
        )
    for name in features:
        check_choice("features", name, FEATURES)
    if not features:
        raise ValueError("Expected 'features' to hold at least one name (got none).")
    return tuple(features)
