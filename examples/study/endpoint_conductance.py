"""A conductance of the features of both ends of an edge, the same from either side."""

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.nn.dense.linear import Linear

FLOOR = 1e-4


class EndpointConductance(Module):
    r"""Learns how far the ends are apart, how far they are alike, and each end alone.

    .. math::
        h_{ij} = \sigma(r \, u_{ij}), \qquad
        u_{ij} = \mathbf{a}^{\top} |\mathbf{z}_i - \mathbf{z}_j| +
        \mathbf{b}^{\top} (\mathbf{z}_i \odot \mathbf{z}_j) +
        \mathbf{c}^{\top} (\mathbf{z}_i + \mathbf{z}_j) + d, \qquad
        \mathbf{z}_i = \mathbf{\Theta} \mathbf{x}_i

    It is constant at the start. The rate r > 0 says how fast it learns next to other parameters.
    """

    def __init__(self, in_channels: int, hidden_channels: int = 16, rate: float = 1.0) -> None:
        super().__init__()
        self.rate = rate
        self.lin = Linear(in_channels, hidden_channels, bias=False, weight_initializer="glorot")
        self.apart = Parameter(torch.zeros(hidden_channels))
        self.alike = Parameter(torch.zeros(hidden_channels))
        self.alone = Parameter(torch.zeros(hidden_channels))
        self.bias = Parameter(torch.zeros(()))

    def forward(self, edge_attr: Tensor | None, x_i: Tensor, x_j: Tensor) -> Tensor:
        """Compute the conductance [E] of edges from the features [E, D] of both ends."""
        z_i, z_j = self.lin(x_i), self.lin(x_j)
        apart, alike = (z_i - z_j).abs() @ self.apart, (z_i * z_j) @ self.alike
        logit = apart + alike + (z_i + z_j) @ self.alone + self.bias
        return FLOOR + (1 - FLOOR) * torch.sigmoid(self.rate * logit)
