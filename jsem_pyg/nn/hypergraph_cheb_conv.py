"""The stackable layer on hypergraphs: diffusion at one or several scales, then a linear map."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch_geometric.nn.inits import zeros
from torch_geometric.typing import OptTensor

from .._checks import check_keywords
from ..diffusion.hypergraph import hypergraph_heat
from ..diffusion.times import check_signal
from ..kernels.torch_func import eager
from .anisotropic_cheb_conv import check_channels, make_map, maps_first
from .diffusion_time import join_scales, read_layer_times
from .hypergraph_diffusion import HypergraphDiffusion


class HypergraphChebConv(HypergraphDiffusion):
    r"""Convolves features on a hypergraph by heat kernels with learned times.

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
        check_keywords(self, kwargs, "learn_t normalization degree tol backend filter")
        super().__init__(num_hyperedges, t, **kwargs)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.lin, self.bias = make_map(in_channels, out_channels, self.num_scales, bias)
        self.reset_parameters()

    @eager
    def forward(
        self, x: Tensor, hyperedge_index: Any, hyperedge_weight: OptTensor = None
    ) -> Tensor:
        """Diffuse the node features and map their channels; see the class for shapes."""
        check_signal(x, may_be_sparse=True)
        is_first = maps_first(x, self.lin, self.out_channels, self.num_scales, self.time)
        check_channels(x, self.lin, self.in_channels, self.num_scales)
        times = read_layer_times(self.time, self.filter, x.size(-1))
        graph = self.read(x, hyperedge_index, hyperedge_weight)
        out = hypergraph_heat(self.lin(x) if is_first else x, *graph, times, self.options)
        out = out.squeeze(-3) if is_first else self.lin(join_scales(out))
        return out if self.bias is None else out + self.bias

    def reset_parameters(self) -> None:
        """Draw the linear map anew, and go back to equal weights and the initial times."""
        super().reset_parameters()
        zeros(self.bias)

    def _describe(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, {super()._describe()}"
