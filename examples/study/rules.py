"""Hand-made conductances of the past: rules from curvature or communities, nothing learned.

Each multiplies the weights of the edges by a number in (0, 1]; then heat flows for the time that
the unsupervised triplet loss likes best on the new weights.
"""

import torch
from clusterers import leiden
from filters import heat
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.curvature import forman_curvature, robust_standardize

FLOOR = 0.01  # no edge closes: every node keeps a degree
DAMPING = 0.1  # of edges between communities


def sigmoid_curvature(data: Data, num_classes: int, seed: int) -> Tensor:
    """The logistic function of the standardised curvature."""
    return _gated_heat(data, torch.sigmoid(robust_standardize(_curvature(data))), seed)


def rank_curvature(data: Data, num_classes: int, seed: int) -> Tensor:
    """The rank of the curvature among all edges, from 0 to 1."""
    values, order = _curvature(data).unique(return_inverse=True)  # equal values, equal ranks
    return _gated_heat(data, order / max(1, len(values) - 1), seed)


def community_damped(data: Data, num_classes: int, seed: int) -> Tensor:
    """Edges between Leiden's communities damped to a tenth."""
    community = leiden(data, num_classes, seed)
    source, target = data.edge_index
    gate = torch.where(community[source] == community[target], 1.0, DAMPING)
    return _gated_heat(data, gate, seed)


def _curvature(data: Data) -> Tensor:
    return forman_curvature(data.edge_index, data.edge_weight, data.num_nodes)


def _gated_heat(data: Data, gate: Tensor, seed: int) -> Tensor:
    weight = data.edge_weight * gate.clamp(min=FLOOR).to(data.edge_weight.dtype)
    return heat(Data(x=data.x, edge_index=data.edge_index, edge_weight=weight), 0, seed)
