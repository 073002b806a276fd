"""A model of several layers, on the contract of PyG's own models."""

from typing import Any, Final

from torch_geometric.nn.models.basic_gnn import BasicGNN

from ..nn import AnisotropicChebConv


class AnisotropicGNN(BasicGNN):
    r"""Layers of :class:`~jsem_pyg.nn.AnisotropicChebConv`, in place of PyG's `GCN`.

    Everything else is as in PyG's models: `act`, `norm`, `dropout`, `jk`, `trim_to_layer`.

    Args:
        in_channels (int): Size of each input sample, or :obj:`-1` to derive it from the first.
        hidden_channels (int): Size of each hidden sample.
        num_layers (int): Number of layers.
        out_channels (int, optional): Size of each output sample; the hidden size if omitted.
        **kwargs (optional): Of PyG's models, and of the layers: `edge_dim` (1 by default; 0 for a
            graph without edge features), `t`, `conductance`, `normalization`, `tol`, `backend`.

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, C_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`, both directions of every edge,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          edge features :math:`(|\mathcal{E}|, F)` *(optional)*
        - **output:** node features :math:`(|\mathcal{V}|, C_{out})`

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> model = AnisotropicGNN(5, 16, num_layers=2, out_channels=3, edge_dim=0)
        >>> model(torch.randn(3, 5), edge_index, edge_weight=torch.ones(4)).shape
        torch.Size([3, 3])
    """

    supports_edge_weight: Final[bool] = True
    supports_edge_attr: Final[bool] = True
    supports_norm_batch: Final[bool] = True

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> AnisotropicChebConv:
        """Make the layer between two sizes."""
        return AnisotropicChebConv(in_channels, out_channels, **kwargs)
