"""The cost of the features themselves: the factor is what the user has."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_bool, check_choice
from ...kernels.torch_func import without_autocast
from .factor import KINDS, Factor
from .graph_input import read_points


@dataclass(frozen=True)
class FeatureCost:
    r"""Takes squared distances, or inner products, of the points' features as costs.

    .. math::
        C_{ik} = ||\mathbf{x}_i - \mathbf{x}_k||^2 \quad \mathrm{or} \quad
        C_{ik} = \langle \mathbf{x}_i, \mathbf{x}_k \rangle

    Exact, and differentiable in the features.

    Args:
        kind: "sqdist" or "kernel".
        normalize: whether rows are brought to unit length first: inner products are cosines then,
            and squared distances twice the cosine distance.
        center: whether the mean of all rows is subtracted first. Inner products then depend on
            distances alone, as squared distances do.

    Example:
        >>> FeatureCost()(torch.tensor([[0.0], [1.0], [3.0]])).dense()
        tensor([[0., 1., 9.],
                [1., 0., 4.],
                [9., 4., 0.]])
    """

    kind: str = "sqdist"
    normalize: bool = False
    center: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_bool("normalize", self.normalize)
        check_bool("center", self.center)

    @without_autocast
    def __call__(self, source: Any) -> Factor:
        """Make the factor of points [N, D], or of the points in `x` (or `pos`) of a `Data`.

        The factor keeps the edges of the `Data`, if it has some.
        """
        x, edge_index = read_points(source)
        if self.center:
            apart = x.double() - x[0].detach()  # copies of one point are zero, not rounding
            x = (apart - apart.mean(0)).to(x.dtype)
        return Factor(_unit_rows(x) if self.normalize else x, self.kind, edge_index=edge_index)


def _unit_rows(x: Tensor) -> Tensor:
    zero = int((x == 0).all(1).sum())
    if zero:
        raise ValueError(
            f"Expected rows of 'source' that have a direction, for normalize=True (got {zero} that "
            "are zero). To fix this, leave these points out, or take normalize=False."
        )
    return torch.nn.functional.normalize(x, dim=1, eps=1e-30)
