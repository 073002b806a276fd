"""The layer that diffuses and does not mix channels."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import Adj, OptTensor, PairTensor

from ..diffusion.filters import Filter
from ..diffusion.options import HeatOptions
from ..diffusion.times import check_signal
from ..kernels.table import CHEBYSHEV, lists_backends
from .diffusion_layer import DiffusionLayer, single_node_set
from .heat_layer import join_scales

# At t = 5 the time moves by the learning rate in every step of Adam, as the slope does.
_TIME_RATE = 0.2


@lists_backends(CHEBYSHEV)
class AnisotropicDiffusion(DiffusionLayer):
    r"""Heat diffusion on a graph whose edges learn how well they conduct.

    .. math::
        \mathbf{X}^{\prime} = e^{-t \mathbf{L}_{\theta}} \mathbf{X}, \qquad
        w^{\prime}_{ij} = w_{ij} \, h_{\theta}(\mathbf{a}_{ij})

    where :math:`\mathbf{L}_{\theta}` is the Laplacian of the weights :math:`w^{\prime}`, and the
    conductance :math:`0 < h_{\theta} \le 1` looks at the features :math:`\mathbf{a}_{ij}` of an
    edge, first of all its curvature (:class:`~jsem_pyg.transforms.FormanCurvature`). A new layer is
    isotropic: its conductance is constant. The exponential is evaluated as in
    :func:`~jsem_pyg.diffusion.heat_diffusion`, by fused products of sparse and dense matrices, or
    through `propagate` where messages are observed (explainers, hooks, ``fuse=False``).

    The last graph is remembered, and prepared anew once it changes. A change of its tensors in
    place is seen, but not one through `.data` or an array of NumPy's that shares their memory. For
    these, prepare a :class:`~jsem_pyg.graph.GraphStructure` after each change, and pass it as
    `edge_index`.

    Args:
        edge_dim (int): Number :math:`F` of edge features; 0 for none, so that only :math:`t` is
            learned.
        t (float, list or torch.Tensor): Initial diffusion time :math:`t > 0`: a number, a list or
            tensor of :math:`S` scales (their results are concatenated on the channel axis), or a
            tensor of shape :math:`(S, D)` with a time for every scale and channel.
        learn_t (bool): Whether :math:`t` is learned.
        conductance (str or torch.nn.Module): :math:`h_{\theta}`: :obj:`"sigmoid"`
            (:class:`~jsem_pyg.nn.SigmoidConductance`), :obj:`"mlp"`
            (:class:`~jsem_pyg.nn.MLPConductance`), or a module that maps `(edge_attr)` or
            `(edge_attr, x_i, x_j)` to :math:`[0, 1]`. The operator takes the mean of both
            directions of an edge.
        normalization (str, optional): :obj:`"sym"`, :obj:`"rw"` or :obj:`None`, see
            :func:`~jsem_pyg.diffusion.heat_diffusion`.
        degree (int, optional): Number of terms of the series; :obj:`None` takes as many as
            :obj:`tol` needs.
        tol (float): Relative error allowed.
        backend (str): What evaluates the series on the fused path: {backends}.
        fuse (bool): If set to :obj:`False`, always goes through `propagate`.
        filter (Filter, optional): A function of :math:`\mathbf{L}_{\theta}` in place of the heat,
            such as :class:`~jsem_pyg.diffusion.filters.Learned`, whose parameters become those of
            the layer; a bank of :math:`S` filters gives :math:`S` results. Times are then not used.
        rate (float): How fast the conductance learns beside other parameters, :math:`r` in
            :class:`~jsem_pyg.nn.SigmoidConductance`; a module of your own has its own.
        **kwargs (optional): Additional arguments of
            :class:`torch_geometric.nn.conv.MessagePassing`.

    Shapes:
        - **input:**
          node features :math:`(\ldots, |\mathcal{V}|, D)`,
          edge indices :math:`(2, |\mathcal{E}|)`, both directions of every edge,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          edge features :math:`(|\mathcal{E}|, F)`; without them every edge conducts alike,
          masses of the nodes :math:`(|\mathcal{V}|)` *(optional)*, with normalization=None
        - **output:** node features :math:`(\ldots, |\mathcal{V}|, S \cdot D)`

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> curvature = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
        >>> layer = AnisotropicDiffusion(t=2.0)
        >>> layer(torch.eye(3), edge_index, edge_attr=curvature).shape
        torch.Size([3, 3])
    """

    def __init__(
        self,
        edge_dim: int = 1,
        t: float | Sequence[float] | Tensor = 5.0,
        learn_t: bool = True,
        conductance: str | torch.nn.Module = "sigmoid",
        normalization: str | None = "sym",
        degree: int | None = None,
        tol: float = 1e-6,
        backend: str = "auto",
        fuse: bool = True,
        filter: Filter | None = None,
        rate: float = 1.0,
        **kwargs: Any,
    ) -> None:
        options = HeatOptions(degree, tol, normalization, backend)
        super().__init__(
            edge_dim, t, learn_t, conductance, options, fuse, rate, _TIME_RATE, filter, **kwargs
        )

    def forward(
        self,
        x: Tensor | PairTensor,
        edge_index: Adj,
        edge_weight: OptTensor = None,
        edge_attr: OptTensor = None,
        node_mass: OptTensor = None,
    ) -> Tensor:
        """Diffuse the node features; see the class for shapes."""
        x = single_node_set(x)
        check_signal(x)
        times = self.times(x)
        operator = self.operator(x, times, edge_index, edge_weight, edge_attr, node_mass)
        return join_scales(self.diffuse(x, operator, times))

    @property
    def sketchable(self) -> bool:
        """True if all channels diffuse alike, so that a projection of them may be trained on."""
        return self.time.num_channels is None and not self.sees_nodes
