"""How well an edge conducts, from the features of its two ends."""

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.dense.linear import Linear

from .._checks import check_between, check_positive, check_positive_int
from .._precision import check_type_of_layer, full_precision
from .conductance import FLOOR
from .node_conductance import NodeConductance


class EndpointConductance(NodeConductance):
    r"""A conductance of the features of both ends of an edge, the same from either side.

    .. math::
        h_{ij} = \epsilon + (1 - \epsilon) \, \sigma(r \, u_{ij}), \qquad
        u_{ij} = \mathbf{a}^{\top} |\mathbf{z}_i - \mathbf{z}_j| +
        \mathbf{b}^{\top} (\mathbf{z}_i \odot \mathbf{z}_j) +
        \mathbf{c}^{\top} (\mathbf{z}_i + \mathbf{z}_j) + d, \qquad
        \mathbf{z}_i = \mathbf{\Theta} \mathbf{x}_i

    how far the ends are apart, how far they are alike, and on each end alone. It is given to
    a layer as its `conductance`; the features are those that the layer diffuses.

    Args:
        in_channels: the number D of features, or -1 to take it from the first call.
        hidden_channels: the number K of features that edges look at.
        floor: :math:`\epsilon`.
        rate: :math:`r > 0`, how fast it learns next to other parameters.

    Shapes:
        - **input:** features of the nodes :math:`(|\mathcal{V}|, D)`; edge indices
          :math:`(2, |\mathcal{E}|)`
        - **output:** conductance :math:`(|\mathcal{E}|)`

    Example:
        >>> from jsem_pyg.nn import AnisotropicChebConv
        >>> conv = AnisotropicChebConv(5, 8, edge_dim=0, conductance=EndpointConductance(5))
        >>> conv(torch.randn(3, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        in_channels: int = -1,
        hidden_channels: int = 16,
        floor: float = FLOOR,
        rate: float = 1.0,
    ) -> None:
        super().__init__()
        if not isinstance(in_channels, int) or in_channels != -1:
            check_positive_int("in_channels", in_channels)
        check_positive_int("hidden_channels", hidden_channels)
        check_between("floor", floor, 0, 1)
        check_positive("rate", rate)
        self.floor, self.rate = floor, rate
        self.lin = Linear(in_channels, hidden_channels, bias=False, weight_initializer="glorot")
        self.apart = Parameter(torch.empty(hidden_channels))
        self.alike = Parameter(torch.empty(hidden_channels))
        self.alone = Parameter(torch.empty(hidden_channels))
        self.bias = Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the projection anew, and make the conductance constant again."""
        self.lin.reset_parameters()
        for each in (self.apart, self.alike, self.alone, self.bias):
            torch.nn.init.zeros_(each)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute the conductance [E] of edges [2, E] between nodes of features x [N, D]."""
        self._check(x, edge_index)
        width = self.lin.in_channels
        if width not in (-1, x.size(1)):
            raise ValueError(
                f"Expected 'x' to have {width} channels, as 'in_channels' says (got {x.size(1)})."
            )
        check_type_of_layer("x", x, self.lin)
        z = self.lin(x).to(self.apart)  # autocast projects in a lower type
        with full_precision(x.device):
            z_i, z_j = (z.index_select(0, ends) for ends in edge_index)
            apart, alike = (z_i - z_j).abs() @ self.apart, (z_i * z_j) @ self.alike
            alone = (z_i + z_j) @ self.alone
            logit = self.rate * (apart + alike + alone + self.bias)
            return self.floor + (1 - self.floor) * torch.sigmoid(logit)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.lin.in_channels}, {self.lin.out_channels})"
