"""The network of the tuned GCNs in `heterophilous.py`: convolutions one after the other.

That of Luo et al. ("Classic GNNs are strong baselines", NeurIPS 2024), with their settings; only
what the edges carry differs. A convolution maps the features, lets the edges carry the result, and
adds a bias; so all variants have as many maps, and the first of them reads sparse bags of words.
"""

import itertools

import torch
import torch.nn.functional as F
from helpers.heterophilous_network import DEGREE, MANY_FEATURES, Settings
from study.endpoint_conductance import EndpointConductance
from torch import Tensor
from torch.nn import BatchNorm1d, Linear, Module, ModuleList, Parameter
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.nn.dense.linear import Linear as GlorotLinear
from torch_geometric.utils import to_torch_csr_tensor

from jsem_pyg.diffusion.filters import Heat, Learned
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion

LAYER_VARIANTS = ("none", "gcn", "open", "ends", "learned", "learned_ends")
_TIME = 2.0  # at which `AnisotropicChebConv` starts


class Carried(Module):
    """`GCNConv` with nothing, heat or a learned polynomial in place of a hop."""

    def __init__(self, variant: str, in_channels: int, out_channels: int) -> None:
        super().__init__()
        # As `GCNConv` begins.
        lin = GlorotLinear(in_channels, out_channels, bias=False, weight_initializer="glorot")
        self.lin, self.bias = lin, Parameter(torch.zeros(out_channels))
        self.diffusion: Module | None = None
        if variant == "none":
            return
        conductance: str | Module = "sigmoid"
        if variant.endswith("ends"):
            conductance = EndpointConductance(out_channels, 8, rate=3.0)
        filter = Learned(DEGREE, start=Heat(_TIME)) if variant.startswith("learned") else None
        self.diffusion = AnisotropicDiffusion(
            edge_dim=0, t=_TIME, conductance=conductance, tol=1e-3, filter=filter
        )

    def forward(self, x: Tensor, graph: GraphStructure) -> Tensor:
        h = self.lin(x)
        return self.bias + (h if self.diffusion is None else self.diffusion(h, graph))


class Layers(Module):
    """For the nodes of one graph; `residual_layers` add a linear map and normalise batches."""

    def __init__(self, variant: str, data: Data, graph: GraphStructure, how: Settings) -> None:
        super().__init__()
        self.dropout = how.dropout
        self.x = data.x.to_sparse_csr() if data.num_features > MANY_FEATURES else data.x
        self.edges: Tensor | GraphStructure = graph
        if variant == "gcn":
            self.edges = to_torch_csr_tensor(data.edge_index, size=(data.num_nodes,) * 2)
        widths = [data.num_features] + how.blocks * [how.hidden]
        pairs = list(itertools.pairwise(widths))
        self.convs = ModuleList(
            GCNConv(*pair, cached=True) if variant == "gcn" else Carried(variant, *pair)
            for pair in pairs
        )
        is_residual = how.form == "residual_layers"
        self.lins = ModuleList(Linear(*pair) for pair in pairs) if is_residual else None
        self.norms = ModuleList(BatchNorm1d(how.hidden) for _ in pairs) if is_residual else None
        self.out = Linear(how.hidden, int(data.y.max()) + 1)

    def forward(self) -> Tensor:
        x = self.x
        for k, conv in enumerate(self.convs):
            h = conv(x, self.edges)
            if self.lins is not None:
                h = self.norms[k](h + self.lins[k](x))
            x = F.dropout(F.relu(h), self.dropout, self.training)
        return self.out(x)
