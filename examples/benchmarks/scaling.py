"""The graph that timings grow on: the nearest neighbours of random points in four dimensions."""

import numpy as np
import torch
from sklearn.neighbors import kneighbors_graph
from torch import Tensor

from jsem_pyg.graph import GraphStructure


def random_edges(num_nodes: int, neighbours: int = 15) -> Tensor:
    """Both directions of every edge [2, E], in the order of rows."""
    points = np.random.default_rng(0).normal(size=(num_nodes, 4))
    directed = kneighbors_graph(points, min(neighbours, num_nodes - 1), n_jobs=-1)
    edges = directed.maximum(directed.T).tocoo()
    return torch.from_numpy(np.stack([edges.row, edges.col])).long()


def random_structure(num_nodes: int) -> GraphStructure:
    """The prepared graph."""
    return GraphStructure(random_edges(num_nodes), num_nodes)
