"""Conductances that `fit` learns without labels, with its defaults.

The time starts where isotropic heat has its best unsupervised loss. Training sees 64 random
combinations of the channels where there are more (the operator is exact, and 6 times cheaper on
MiniLM embeddings); the trained operator then diffuses them all.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.training import fit, select_time
from jsem_pyg.transforms import EdgeGeometry, FormanCurvature

SKETCH = 64


def learned_time(data: Data, num_classes: int, seed: int, epochs: int = 100) -> Tensor:
    """Only t is learned: the ablation without a conductance."""
    return _trained(data, "sigmoid", 0, seed, epochs)


def learned_curvature(data: Data, num_classes: int, seed: int, epochs: int = 100) -> Tensor:
    """A logistic function of the curvature: the defaults of the layer."""
    return _trained(FormanCurvature()(data), "sigmoid", 1, seed, epochs)


def learned_geometry(data: Data, num_classes: int, seed: int, epochs: int = 100) -> Tensor:
    """A small perceptron of all five features of an edge."""
    data = EdgeGeometry()(FormanCurvature()(data))
    return _trained(data, "mlp", data.edge_attr.size(1), seed, epochs)


def _trained(data: Data, conductance: str, edge_dim: int, seed: int, epochs: int) -> Tensor:
    seed_everything(seed)  # the perceptron's first weights
    t = select_time(data, seed=seed).t
    model = AnisotropicDiffusion(edge_dim, t=t, conductance=conductance)
    sketch_dim = SKETCH if data.x.size(1) > SKETCH else None
    fit(model, data, epochs=epochs, sketch_dim=sketch_dim, seed=seed, progress=False)
    with torch.no_grad():
        z = model(data.x, data.edge_index, data.edge_weight, data.get("edge_attr"))
    return F.normalize(z)
