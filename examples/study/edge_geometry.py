"""Four features of edges: overlap, contrast of degrees, rank of the distance, diffused cosine."""

import copy

import pandas as pd
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from jsem_pyg.curvature import robust_standardize
from jsem_pyg.transforms import EdgeGeometry


def degree_contrast(data: Data) -> Tensor:
    """|d_i - d_j| / (d_i + d_j) of the degrees of both ends, sums of edge weights: [E]."""
    i, j = data.edge_index
    degree = scatter(data.edge_weight.double(), i, dim_size=data.num_nodes)
    return ((degree[i] - degree[j]).abs() / (degree[i] + degree[j])).to(data.edge_weight)


def distance_rank(data: Data) -> Tensor:
    """How far down the lists of each other's neighbours both ends stand, from 0 to 1: [E]."""
    weight = pd.Series(-data.edge_weight.numpy())
    ranks = []
    for end in data.edge_index.numpy():
        group = weight.groupby(end)
        ranks.append((group.rank() - 0.5) / group.transform("size"))
    return torch.from_numpy((sum(ranks) / 2).to_numpy()).to(data.edge_weight)


def with_geometry(data: Data) -> Data:
    """Append the four, standardised, to the features of the edges."""
    overlap, cosine = EdgeGeometry(cat=False)(data).edge_attr.T
    contrast, rank = (robust_standardize(each(data)) for each in (degree_contrast, distance_rank))
    columns = torch.stack([overlap, contrast, rank, cosine], dim=1)
    data = copy.copy(data)
    data.edge_attr = columns if data.edge_attr is None else torch.cat([data.edge_attr, columns], 1)
    return data
