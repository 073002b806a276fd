"""The stackable layer on hypergraphs: diffusion at one or several scales, then a linear map."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from .channel_map import ChannelMap
from .hypergraph_diffusion import HypergraphDiffusion


class HypergraphChebConv(ChannelMap, HypergraphDiffusion):
    r"""A hypergraph convolution whose filters are heat kernels with learned times.

    .. math::
        \mathbf{X}^{\prime} = \sum_{s=1}^{S} e^{-t_s (\mathbf{I} - \mathbf{S})} \mathbf{X}
        \mathbf{\Theta}_s + \mathbf{b}

    with the operator of :class:`~jsem_pyg.nn.HypergraphDiffusion`; to hypergraphs what
    :class:`~jsem_pyg.nn.AnisotropicChebConv` is to graphs. With a single scale and an output
    narrower than the input, the linear map comes first: the result is the same, with fewer columns
    to diffuse.

    Args:
        in_channels (int): As `out_channels`, `t` and `bias` in
            :class:`~jsem_pyg.nn.AnisotropicChebConv`.
        num_hyperedges (int, optional): Number of hyperedges; if given, each learns a weight.
        **kwargs (optional): `learn_t`, `normalization`, `degree`, `tol`, `backend` and `filter`, as
            in :class:`~jsem_pyg.nn.HypergraphDiffusion`.

    Shapes:
        - **input:** as of :class:`~jsem_pyg.nn.HypergraphDiffusion`, with node features
          :math:`(\ldots, |\mathcal{V}|, C_{in})`
        - **output:** node features :math:`(\ldots, |\mathcal{V}|, C_{out})`

    Example:
        >>> import torch
        >>> hyperedge_index = torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])
        >>> conv = HypergraphChebConv(16, 8, t=[1.0, 4.0])
        >>> conv(torch.randn(100, 4, 16), hyperedge_index).shape
        torch.Size([100, 4, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_hyperedges: int | None = None,
        t: float | Sequence[float] | Tensor = 1.0,
        *,
        bias: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_hyperedges, t, **kwargs)
        self._make_map(in_channels, out_channels, bias)
