"""Layers of GraphGym: ``import jsem_pyg.models.graphgym`` registers them.

Then ``gnn.layer_type`` may be ``anisotropic_cheb_conv``, which reads ``batch.edge_weight`` where
there is one, or ``anisotropic_cheb_edge_conv``, whose conductance reads ``batch.edge_attr`` as well
(``dataset.edge_dim`` columns).
"""

from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.graphgym.models.layer import LayerConfig
from torch_geometric.graphgym.register import register_layer

from ..nn import AnisotropicChebConv


@register_layer("anisotropic_cheb_conv")
class AnisotropicChebGymConv(torch.nn.Module):
    """:class:`~jsem_pyg.nn.AnisotropicChebConv` without edge features."""

    reads_edge_attr = False

    def __init__(self, layer_config: LayerConfig, **kwargs: Any) -> None:
        super().__init__()
        edge_dim = layer_config.edge_dim if self.reads_edge_attr else 0
        sizes = layer_config.dim_in, layer_config.dim_out
        self.model = AnisotropicChebConv(*sizes, edge_dim, bias=layer_config.has_bias)

    def forward(self, batch: Data) -> Data:
        """Replace the node features of a batch by those of the layer."""
        edge_attr = batch.edge_attr if self.reads_edge_attr else None
        edge_weight = batch.get("edge_weight")
        batch.x = self.model(batch.x, batch.edge_index, edge_weight, edge_attr)
        return batch


@register_layer("anisotropic_cheb_edge_conv")
class AnisotropicChebEdgeGymConv(AnisotropicChebGymConv):
    """:class:`~jsem_pyg.nn.AnisotropicChebConv` whose conductance reads edge features."""

    reads_edge_attr = True
