"""The central calls of the package, each with good arguments.

Bad input, memory layouts, global state and threads (`test_central_calls.py`) and GPUs
(`test_cuda.py`) are tried on these calls. A row has a function that makes what is called, such as a
layer, and one that draws its arguments by a seed.
"""

import dataclasses
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import torch
from layer_cases import CHANNELS, NUM_NODES, bend, make_data
from torch_geometric.data import Data
from training.training_cases import SmoothingStub, two_clusters

from jsem_pyg import transport
from jsem_pyg.curvature import forman_curvature
from jsem_pyg.diffusion import expm_multiply, heat_diffusion, heat_kernel_columns
from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.neighbors import NeighborIndex, knn_graph
from jsem_pyg.nn import (
    AnisotropicChebConv,
    AnisotropicDiffusion,
    DiffusionClassifier,
    HypergraphDiffusion,
    SimplicialDiffusion,
)
from jsem_pyg.partition import prune_edges, recursive_partition
from jsem_pyg.training import FitResult, fit
from jsem_pyg.transforms import FaissKNNGraph

GRAPH = ("x", "edge_index", "edge_weight")
EDGES = ("edge_index", "edge_weight")


def graph(seed: int, names: tuple[str, ...] = GRAPH, **more: Any) -> dict[str, Any]:
    """Parts of a small graph with an isolated node, by their names."""
    data = make_data(seed)
    return {name: data[name] for name in names} | more


def points(seed: int, rows: int = NUM_NODES, channels: int = CHANNELS) -> torch.Tensor:
    """[rows, channels] normal numbers."""
    return torch.randn(rows, channels, generator=torch.Generator().manual_seed(seed))


def _hypergraph(seed: int) -> dict[str, Any]:
    members = torch.stack([torch.arange(NUM_NODES), torch.arange(NUM_NODES) % 4])
    weight = torch.tensor([0.5, 1.0, 1.5, 2.0]).roll(seed)
    return {"x": points(seed), "hyperedge_index": members, "hyperedge_weight": weight}


def _complex(seed: int) -> dict[str, Any]:
    edges = torch.tensor([[0, 0, 1, 2], [1, 2, 2, 3]])
    weight = torch.tensor([0.5, 1.0, 1.5, 2.0]).roll(seed)
    triangles = {"triangles": torch.tensor([[0], [1], [2]]), "triangle_weight": torch.ones(1)}
    return {"x": points(seed, 4), "edge_index": edges, "edge_weight": weight, **triangles}


def _pair(seed: int, **more: Any) -> dict[str, Any]:
    masses = {"p": torch.full((6,), 1 / 6), "q": torch.full((5,), 0.2)}
    sides = {"source": points(seed, 6, 3), "target": points(seed + 9, 5, 2)}
    options = {"epsilon": 0.3, "starts": ["axes"], "progress": False}
    known = {"known_pairs": torch.tensor([[0, 1], [4, 2]])}
    return sides | masses | {"features": [points(seed, 6, 2), points(seed, 5, 2)]} | known | options


def _two_graphs(seed: int) -> dict[str, Any]:
    edges = make_data(seed, num_isolated=0).edge_index
    order = torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(seed))
    return {"source": edges, "target": order[edges], "max_iter": 3}


def _training(seed: int) -> dict[str, Any]:
    data = two_clusters(12, seed=seed)
    return {"model": SmoothingStub(), "data": data, "epochs": 1, "progress": False}


def _classified(seed: int) -> dict[str, Any]:
    return {"data": two_clusters(12, seed=seed), "epochs": 1, "times": [1.0], "progress": False}


def _layer(make: Callable[..., torch.nn.Module], *given: Any) -> torch.nn.Module:
    return bend(make(*given))


def _clusterer() -> Callable[..., Any]:
    return DiffusionClusterer(2, n_neighbors=3, t=1.0, random_state=0).fit(points(0)).predict_proba


# What is called, made without an argument; its arguments, of a seed.
CALLS: dict[str, tuple[Callable[[], Any], Callable[[int], dict[str, Any]]]] = {
    "knn_graph": (lambda: knn_graph, lambda s: {"x": points(s), "k": 2, "progress": False}),
    "NeighborIndex": (lambda: NeighborIndex(points(0), 3).query, lambda s: {"x_new": points(s, 4)}),
    "FaissKNNGraph": (lambda: FaissKNNGraph(2), lambda s: {"data": Data(x=points(s))}),
    "forman_curvature": (lambda: forman_curvature, partial(graph, names=EDGES)),
    "heat_diffusion": (lambda: heat_diffusion, graph),
    "heat_kernel_columns": (
        lambda: heat_kernel_columns,
        partial(graph, names=EDGES, nodes=torch.tensor([0, 5]), num_nodes=NUM_NODES),
    ),
    "expm_multiply": (
        lambda: expm_multiply,
        lambda s: {"A": points(s) @ points(s).T / 9, "x": points(s + 1)},
    ),
    "recursive_partition": (
        lambda: recursive_partition,
        partial(graph, names=("edge_index",), num_parts=2, method="bandwidth"),
    ),
    "prune_edges": (
        lambda: prune_edges,
        lambda s: {"data": make_data(s), "conductance": make_data(s).edge_weight, "threshold": 0.3},
    ),
    "gromov_wasserstein": (lambda: transport.gromov_wasserstein, _pair),
    "gw_distance": (lambda: transport.gw_distance, partial(_pair, max_iter=3)),
    "match_graphs": (lambda: transport.match_graphs, _two_graphs),
    "AnisotropicDiffusion": (
        partial(_layer, AnisotropicDiffusion),
        partial(graph, names=(*GRAPH, "edge_attr")),
    ),
    "AnisotropicChebConv": (
        partial(_layer, AnisotropicChebConv, CHANNELS, 3),
        partial(graph, names=(*GRAPH, "edge_attr")),
    ),
    "HypergraphDiffusion": (lambda: HypergraphDiffusion(), _hypergraph),
    "SimplicialDiffusion": (lambda: SimplicialDiffusion(), _complex),
    "DiffusionClassifier": (lambda: DiffusionClassifier(CHANNELS, 2), graph),
    "fit": (lambda: fit, _training),
    "fit a classifier": (lambda: partial(fit, DiffusionClassifier(6, 2)), _classified),
    "DiffusionClusterer": (_clusterer, lambda s: {"X": points(s).numpy()}),
}
# What is made: bad input alone.
CONSTRUCTORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "AnisotropicDiffusion()": (AnisotropicDiffusion, {}),
    "AnisotropicChebConv()": (AnisotropicChebConv, {"in_channels": 4, "out_channels": 3}),
    "HypergraphDiffusion()": (HypergraphDiffusion, {}),
    "DiffusionClassifier()": (DiffusionClassifier, {"in_channels": 4, "num_classes": 2}),
    "FaissKNNGraph()": (FaissKNNGraph, {}),
}


def central_call(key: str, seed: int = 0) -> tuple[Callable[..., Any], dict[str, Any]]:
    """What is called, with arguments that are drawn by a seed."""
    if key in CONSTRUCTORS:
        function, given = CONSTRUCTORS[key]
        return function, copy(given)
    make, draw = CALLS[key]
    torch.manual_seed(0)  # of parameters
    return make(), draw(seed)


def numbers(result: Any) -> list[torch.Tensor]:
    """All tensors and numbers in a result, in a fixed order, as float64."""
    if isinstance(result, torch.Tensor):
        result = result.detach().to_dense()
        return [torch.view_as_real(result) if result.is_complex() else result.double()]
    if isinstance(result, np.ndarray):
        return [torch.from_numpy(result.copy()).double()] if result.dtype.kind in "biuf" else []
    if isinstance(result, bool | int | float):
        return [torch.tensor(float(result), dtype=torch.float64)]
    if isinstance(result, FitResult):
        result = result.history[0][1:3]  # a step of Adam follows signs of what is nearly zero
    if isinstance(result, torch.nn.Module):
        result = result.state_dict()
    if isinstance(result, Data):
        result = result.to_dict()
    if dataclasses.is_dataclass(result):
        result = vars(result)
    if isinstance(result, dict):
        result = [result[key] for key in sorted(result)]
    if isinstance(result, list | tuple):
        return [number for part in result for number in numbers(part)]
    return []
