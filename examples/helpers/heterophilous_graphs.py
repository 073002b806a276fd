"""The graphs of `heterophilous.py`, what is known of their nodes, and the scores."""

from functools import cache
from pathlib import Path

import numpy as np
import torch
from scipy.stats import norm, rankdata
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.utils import grid, remove_self_loops, scatter, to_undirected

from jsem_pyg.curvature import forman_curvature, jaccard_overlap
from jsem_pyg.graph import GraphStructure

PARTS = ("train", "val", "test")


def load(name: str, folder: Path) -> Data:
    """A graph with both directions of every edge, but for *_directed, and masks [N, splits]."""
    with np.load(folder / f"{name}.npz") as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files}
    x, edges = arrays["node_features"].float(), arrays["edges"].t().long()
    edge_index = remove_self_loops(edges)[0]
    if not name.endswith("_directed"):
        edge_index = to_undirected(edge_index, num_nodes=len(x))
    masks = {f"{part}_mask": arrays[f"{part}_masks"].bool().t() for part in PARTS}
    return Data(x=x, edge_index=edge_index, y=arrays["node_labels"].long(), **masks)


def small_grid(side: int = 16) -> Data:
    """Minesweeper on a small board: a fifth are mines, half of the cells tell how many are near."""
    seed_everything(0)
    edge_index = grid(side, side)[0]
    edge_index = to_undirected(remove_self_loops(edge_index)[0])
    mines = torch.rand(side * side) < 0.2
    near = torch.zeros(side * side).index_add(0, edge_index[1], mines[edge_index[0]].float())
    is_told = (torch.rand(side * side) < 0.5) & ~mines
    x = torch.stack([near * is_told, is_told.float()], dim=1)
    part = torch.rand(side * side, 2).mul(4).long()  # two splits: a half, a quarter, a quarter
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    return Data(x=x, edge_index=edge_index, y=mines.long(), **masks)


@cache
def node_geometry(graph: GraphStructure) -> Tensor:
    """How a node lies in its graph, [N, 6]: its degree, and means over its edges, by their ranks.

    The means are of three curvatures, of the overlap of both ends' neighbours and of the contrast
    of their degrees.
    """
    edges = [forman_curvature(graph, method=form) for form in ("1d", "augmented", "balanced")]
    one, other = (graph.csr.degree[end].float() for end in graph.edges)
    edges += [jaccard_overlap(graph), (one - other).abs() / (one + other)]
    row, size = graph.edges[0], graph.num_nodes
    means = (scatter(each, row, dim_size=size, reduce="mean") for each in edges)
    nodes = [graph.csr.degree.float(), *means]
    # Normal scores of the ranks, which no hub can dominate.
    scores = [norm.ppf(rankdata(each) / (len(each) + 1)) for each in nodes]
    return torch.tensor(np.stack(scores, axis=1)).float()


def score(logits: Tensor, data: Data, mask: Tensor) -> float:
    """ROC AUC of two classes, accuracy of more, in per cent."""
    logits, y = logits[mask], data.y[mask]
    if logits.size(1) == 2:
        return 100 * float(roc_auc_score(y, logits[:, 1] - logits[:, 0]))
    return 100 * float((logits.argmax(-1) == y).float().mean())
