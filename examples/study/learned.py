"""Conductances that `fit` learns without labels, with its defaults.

Self-training gives labellings: the class that the model finds most probable. With triplets, the
time starts where isotropic heat has its best unsupervised loss; training sees 64 random
combinations of the channels where there are more (the operator is exact, and 6 times cheaper on
MiniLM embeddings), and the trained operator then diffuses them all.
"""

from typing import Any

import torch
import torch.nn.functional as F
from edge_geometry import with_geometry
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.nn import AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.training import fit, select_time
from jsem_pyg.transforms import FormanCurvature

SKETCH = 64


class Open(torch.nn.Module):
    """Every edge conducts fully."""

    def forward(self, edge_attr: Tensor | None, x_i: Tensor, x_j: Tensor) -> Tensor:
        return x_i.new_ones(len(x_i))


def probabilities(
    data: Data,
    num_classes: int | None,
    seed: int,
    conductance: torch.nn.Module | None = None,
    **options: Any,
) -> tuple[Tensor, DiffusionClassifier]:
    """Of each class [N, C], by a `DiffusionClassifier` that `fit` has trained; and this model."""
    model = DiffusionClassifier(data.x.size(1), num_classes, conductance=conductance)
    fit(model, data, seed=seed, **options)
    with torch.no_grad():
        return model(data.x, data.edge_index, data.edge_weight), model


def self_training(data: Data, num_classes: int | None, seed: int, **options: Any) -> Tensor:
    """A linear classifier whose probabilities diffuse, along edges whose ends agree."""
    return probabilities(data, num_classes, seed, **options)[0].argmax(-1)


def isotropic_self_training(data: Data, num_classes: int, seed: int, **options: Any) -> Tensor:
    """The same on edges that all conduct alike: the ablation of the conductance."""
    return self_training(data, num_classes, seed, conductance=Open(), **options)


def learned_time(data: Data, num_classes: int, seed: int, epochs: int = 100) -> Tensor:
    """Only t is learned: the ablation without a conductance."""
    return trained(data, "sigmoid", 0, seed, epochs)


def learned_curvature(data: Data, num_classes: int, seed: int, epochs: int = 100) -> Tensor:
    """A logistic function of the curvature: the defaults of the layer."""
    return trained(FormanCurvature()(data), "sigmoid", 1, seed, epochs)


def learned_geometry(data: Data, num_classes: int, seed: int, epochs: int = 100) -> Tensor:
    """A small perceptron of all five features of an edge."""
    data = with_geometry(FormanCurvature()(data))
    return trained(data, "mlp", data.edge_attr.size(1), seed, epochs)


def trained(
    data: Data, conductance: str, edge_dim: int, seed: int, epochs: int, **options: Any
) -> Tensor:
    """Features [N, D] of length one after heat, whose conductance triplets have taught."""
    seed_everything(seed)  # the perceptron's first weights
    t = select_time(data, seed=seed).t
    model = AnisotropicDiffusion(edge_dim, t=t, conductance=conductance)
    sketch_dim = SKETCH if data.x.size(1) > SKETCH else None
    options |= {"epochs": epochs, "sketch_dim": sketch_dim, "seed": seed, "progress": False}
    fit(model, data, **options)
    with torch.no_grad():
        z = model(data.x, data.edge_index, data.edge_weight, data.get("edge_attr"))
    return F.normalize(z)
