"""The layer that diffuses on edges and does not mix channels."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from .._checks import check_bool
from ..diffusion.filters import Filter
from ..diffusion.options import HeatOptions
from ..diffusion.simplicial import read_complex, simplicial_heat
from ..diffusion.times import check_signal
from ..graph.reader import GraphReader
from ..kernels.torch_func import eager
from .diffusion_time import (
    DiffusionTime,
    check_filter,
    describe_times,
    initial_times,
    join_scales,
    number_of_scales,
    read_layer_times,
    reset_parts,
    times_of_layer,
)


class SimplicialDiffusion(torch.nn.Module):
    r"""Diffuses edge signals by the Hodge Laplacian, with times for gradients and curls.

    .. math::
        \mathbf{X}^{\prime} = e^{-t_{\mathrm{down}} \mathbf{L}_{\mathrm{down}} -
        t_{\mathrm{up}} \mathbf{L}_{\mathrm{up}}} \mathbf{X}, \qquad
        \mathbf{L}_{\mathrm{down}} = \mathbf{B}_1^{\top} \mathbf{B}_1, \quad
        \mathbf{L}_{\mathrm{up}} = \mathbf{B}_2 \mathbf{B}_2^{\top}

    (the operator: `"Hodge Laplacians on Graphs" <https://arxiv.org/abs/1507.05379>`_; triangles may
    learn how much they count, by :obj:`triangle_weight`, as attention does in `"Generalized
    Simplicial Attention Neural Networks" <https://arxiv.org/abs/2309.02138>`_). With the boundaries
    of edges and triangles, a flow has three parts that are orthogonal, its Hodge decomposition:
    differences of a potential of the nodes (gradient), which decay by L_down; flows around filled
    triangles (curl), which decay by L_up; and what flows around the holes (harmonic), which stays.

    Flipping a column of :obj:`edge_index` and the sign of its flow flips the sign of the result;
    so do odd activations and linear maps without a bias, with which this layer may be stacked.

    Args:
        t (float, list or torch.Tensor): Initial diffusion time :math:`t > 0`, by which gradients
            decay; as `degree` and `tol` in :class:`~jsem_pyg.nn.AnisotropicDiffusion`.
        t_up (float, list or torch.Tensor, optional): Initial time of the same shape, by which curls
            decay; :obj:`None` takes :obj:`t`. Both are learned by themselves.
        learn_t (bool): Whether the times are learned.
        backend (str): What evaluates the series: :obj:`"torch"`, :obj:`"reference"` (any device,
            twice differentiable) or :obj:`"auto"`, the first of these that can run.
        filter (Filter, optional): A function f of the whole Laplacian,
            :math:`f(\mathbf{L}_{\mathrm{down}} + \mathbf{L}_{\mathrm{up}}) \mathbf{X}`, in place of
            the heat; the times are then not used.

    Shapes:
        - **input:**
          flows :math:`(\ldots, |\mathcal{E}|, D)`, positive along the direction of their column,
          edge indices :math:`(2, |\mathcal{E}|)`, each edge once in either orientation,
          filled triangles :math:`(3, |\mathcal{F}|)` *(optional, else all)*,
          edge weights > 0 :math:`(|\mathcal{E}|)` *(optional)*,
          triangle weights :math:`(|\mathcal{F}|)` *(optional)*
        - **output:** flows :math:`(\ldots, |\mathcal{E}|, S \cdot D)`

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 0]])
        >>> layer = SimplicialDiffusion(t=2.0)
        >>> layer(torch.randn(4, 16), edge_index).shape
        torch.Size([4, 16])
        >>> layer
        SimplicialDiffusion(t=2.0, t_up=2.0)
    """

    def __init__(
        self,
        t: float | Sequence[float] | Tensor = 1.0,
        t_up: float | Sequence[float] | Tensor | None = None,
        learn_t: bool = True,
        degree: int | None = None,
        tol: float = 1e-6,
        backend: str = "auto",
        filter: Filter | None = None,
    ) -> None:
        super().__init__()
        check_bool("learn_t", learn_t)
        check_filter(filter)
        self.time = DiffusionTime(t, learn_t and filter is None)
        self.filter = filter
        self.options = HeatOptions(degree, tol, None, backend, domain="complex")
        self._reader = GraphReader()
        up = t if t_up is None else initial_times("t_up", t_up)
        self.time_up = DiffusionTime(up, learn_t and filter is None)
        if self.time_up.raw.shape != self.time.raw.shape:
            raise ValueError(
                f"Expected 't_up' to have the shape of 't', {list(self.time.raw.shape)} "
                f"(got {list(self.time_up.raw.shape)})."
            )

    @property
    def t_up(self) -> Tensor:
        """The times > 0 by which curls decay: 0-d, [S] scales or [S, D] with channels."""
        times: Tensor = self.time_up()
        return times

    t, num_scales, reset_parameters = times_of_layer, number_of_scales, reset_parts

    @eager
    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        triangles: OptTensor = None,
        edge_weight: OptTensor = None,
        triangle_weight: OptTensor = None,
    ) -> Tensor:
        """Diffuse the flows; see the class for shapes."""
        check_signal(x)
        times = read_layer_times(self.time, self.filter, x.size(-1))
        up = read_layer_times(self.time_up, self.filter, x.size(-1))
        weighted = read_complex(
            self._reader, edge_index, x, triangles, edge_weight, triangle_weight
        )
        return join_scales(simplicial_heat(x, weighted, times, up, self.options))

    def __repr__(self) -> str:
        up = "" if self.filter is not None else f", t_up={self.time_up}"
        return f"{self.__class__.__name__}({describe_times(self.time, self.filter)}{up})"
