"""A PyG transform: overlap and diffusion cosine as edge features."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform

from .._checks import check_choice, check_nonnegative
from .._precision import unit_rows
from ..curvature import jaccard_overlap
from ..diffusion import heat_diffusion
from ..kernels.edge_dot import edge_dot
from ._edge_columns import EdgeColumns


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
    if not features or len(set(features)) < len(features):
        raise ValueError(
            f"Expected 'features' to hold at least one name, none of them twice (got {features})."
        )
    return tuple(features)
