"""The stackable layer on hypergraphs: diffusion at one or several scales, then a linear map."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import zeros
from torch_geometric.typing import OptTensor

from .hypergraph_layer import Flow, HypergraphLayer


class HypergraphChebConv(HypergraphLayer):
    r"""A hypergraph convolution whose filters are heat kernels with learned times.

    .. math::
        \mathbf{X}^{\prime} = \sum_{s=1}^{S} e^{-t_s (\mathbf{I} - \mathbf{S})} \mathbf{X}
        \mathbf{\Theta}_s + \mathbf{b}

    with the operator of :class:`~jsem_pyg.nn.HypergraphDiffusion`; to hypergraphs what
    :class:`~jsem_pyg.nn.AnisotropicChebConv` is to graphs. Where the output is narrower than the
    input, the linear map comes first: the result is the same, with fewer columns to diffuse.

    Args:
        in_channels (int): Size of each input sample, or :obj:`-1` to derive the size from the
            first input(s) to the forward method.
        out_channels (int): Size of each output sample.
        hyperedge_dim (int): Number :math:`F` of hyperedge features; 0 for none.
        num_hyperedges (int, optional): Learn a weight for each of so many hyperedges.
        t (float, list or torch.Tensor): Initial diffusion time: a number, a list of :math:`S`
            scales, or a tensor of shape :math:`(C_{in})` with a time for every input channel.
        learn_t (bool): Whether the times are learned.
        conductance (str or torch.nn.Module): See :class:`~jsem_pyg.nn.HypergraphDiffusion`, as for
            all that follow.
        normalization (str): :obj:`"sym"` or :obj:`"rw"`.
        degree (int, optional): Number of terms of the series; :obj:`None` takes as many as
            :obj:`tol` needs.
        tol (float): Relative error allowed.
        method (str): :obj:`"auto"`, :obj:`"dense"`, :obj:`"csr"` or :obj:`"incidence"`.
        backend (str): What evaluates the series.
        bias (bool): If set to :obj:`False`, the layer will not learn an additive bias.

    Shapes:
        - **input:**
          node features :math:`(\ldots, |\mathcal{V}|, C_{in})`,
          memberships :math:`(2, M)`, or another form of hypergraph,
          hyperedge weights :math:`(|\mathcal{E}|)` *(optional)*,
          hyperedge features :math:`(|\mathcal{E}|, F)` *(optional)*
        - **output:** node features :math:`(\ldots, |\mathcal{V}|, C_{out})`

    Example:
        >>> hyperedge_index = torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])
        >>> conv = HypergraphChebConv(16, 8, t=[1.0, 4.0])
        >>> conv(torch.randn(100, 4, 16), hyperedge_index).shape
        torch.Size([100, 4, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hyperedge_dim: int = 0,
        num_hyperedges: int | None = None,
        t: float | Sequence[float] | Tensor = 1.0,
        learn_t: bool = True,
        conductance: str | torch.nn.Module = "sigmoid",
        normalization: str = "sym",
        degree: int | None = None,
        tol: float = 1e-6,
        method: str = "auto",
        backend: str = "auto",
        bias: bool = True,
    ) -> None:
        super().__init__(
            hyperedge_dim,
            num_hyperedges,
            t,
            learn_t,
            conductance,
            normalization,
            degree,
            tol,
            method,
            backend,
        )
        self.in_channels = in_channels
        self.out_channels = out_channels
        width = in_channels * self.time.num_scales if in_channels > 0 else -1
        self.lin = Linear(width, out_channels, bias=False, weight_initializer="glorot")
        if bias:
            self.bias = Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the linear map anew, and go back to equal weights and the initial times."""
        super().reset_parameters()
        self.lin.reset_parameters()
        zeros(self.bias)

    def forward(
        self,
        x: Tensor,
        hyperedge_index: Any,
        hyperedge_weight: OptTensor = None,
        hyperedge_attr: OptTensor = None,
        num_hyperedges: int | None = None,
    ) -> Tensor:
        """Diffuse and map the node features; see the class for shapes."""
        hypergraph = (hyperedge_index, hyperedge_weight, hyperedge_attr, num_hyperedges)
        flow = self._flow(x, *hypergraph)
        if self._narrows(x):
            out = self._map_then_diffuse(x, flow)
            return out if self.bias is None else out + self.bias
        return self._diffuse_then_map(x, flow)

    def _narrows(self, x: Tensor) -> bool:
        """Whether mapping first leaves fewer columns to diffuse."""
        mapped = self.time.num_scales * self.out_channels
        is_initialized = self.lin.in_channels > 0  # a lazy map learns its size in `lin` itself
        return is_initialized and self.time.num_channels is None and mapped < x.size(-1)

    def _diffuse_then_map(self, x: Tensor, flow: Flow) -> Tensor:
        diffused = flow(x, self.t).transpose(-3, -2).flatten(-2)
        if self.bias is None or self.lin.in_channels < 0:  # a lazy map has no weight yet
            out = self.lin(diffused)
            return out if self.bias is None else out + self.bias
        return F.linear(diffused, self.lin.weight, self.bias)  # the bias in the same pass

    def _map_then_diffuse(self, x: Tensor, flow: Flow) -> Tensor:
        # Theta_1, ..., Theta_S side by side.
        theta = self.lin.weight.unflatten(1, (self.time.num_scales, -1)).transpose(0, 1)
        mapped = F.linear(x, theta.flatten(0, 1)).split(self.out_channels, dim=-1)
        parts = [
            flow(part, t).squeeze(-3) for part, t in zip(mapped, self.t.reshape(-1), strict=True)
        ]
        return torch.stack(parts).sum(0) if len(parts) > 1 else parts[0]

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.out_channels}, "
            f"{self._describe()})"
        )
