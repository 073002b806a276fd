"""Features as they are, and features that a fixed filter has smoothed over the graph."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, SSGConv
from torch_geometric.transforms import GDC
from torch_geometric.utils import to_torch_csr_tensor

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.training import select_time


def raw(data: Data, num_classes: int, seed: int) -> Tensor:
    """The features."""
    return F.normalize(data.x)


def centred(data: Data, num_classes: int, seed: int) -> Tensor:
    """The features without their mean."""
    return F.normalize(data.x - data.x.mean(0))


def heat(data: Data, num_classes: int, seed: int) -> Tensor:
    """Isotropic heat, exp(-tL) X; t by the unsupervised triplet loss."""
    t = select_time(data, seed=seed).t
    return F.normalize(heat_diffusion(data.x, data.edge_index, data.edge_weight, t))


def centred_heat(data: Data, num_classes: int, seed: int) -> Tensor:
    """Isotropic heat of the centred features, on the same graph."""
    x = centred(data, num_classes, seed)
    return heat(Data(x=x, edge_index=data.edge_index, edge_weight=data.edge_weight), 0, seed)


@torch.no_grad()
def ppr(data: Data, num_classes: int, seed: int) -> Tensor:
    """Personalised PageRank by power iteration (APPNP, Gasteiger et al. 2019)."""
    return F.normalize(APPNP(K=10, alpha=0.1)(data.x, adjacency(data)))


@torch.no_grad()
def ssgc(data: Data, num_classes: int, seed: int) -> Tensor:
    """Simple spectral graph convolution (Zhu and Koniusz 2021) before its linear map."""
    layer = SSGConv(data.x.size(1), data.x.size(1), alpha=0.05, K=16)
    layer.lin = torch.nn.Identity()
    return F.normalize(layer(data.x, adjacency(data)))


def gdc(data: Data, num_classes: int, seed: int) -> Tensor:
    """One step on the sparsified PageRank graph (GDC, Gasteiger et al. 2019)."""
    # GDC reads weights from edge_attr; its columns sum to one, so this is a weighted mean.
    graph = Data(edge_index=data.edge_index, edge_attr=data.edge_weight, num_nodes=data.num_nodes)
    graph = GDC()(graph)
    return F.normalize(adjacency(graph, graph.edge_attr).t() @ data.x)


def adjacency(data: Data, weight: Tensor | None = None) -> Tensor:
    """The weights as a torch CSR matrix [N, N]: PyG's sparse path, never [E, D] messages."""
    weight = data.edge_weight if weight is None else weight
    return to_torch_csr_tensor(data.edge_index, weight, size=(data.num_nodes, data.num_nodes))
