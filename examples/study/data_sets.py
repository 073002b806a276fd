"""The data sets: a graph without labels for the methods, labels apart for the scores.

Points (20 Newsgroups, AG News, Stack Overflow: MiniLM embeddings; digits: pixels) get the cosine
graph of their 15 nearest neighbours. Cora and CiteSeer keep their citation graph, all weights one.
All features have rows of length one; a paper without words keeps its zero row.
"""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid

from jsem_pyg.datasets import DigitsDataset, EmbeddingDataset
from jsem_pyg.transforms import FaissKNNGraph

NEIGHBOURS = 15
QUICK_POINTS = 300


class StudySet(NamedTuple):
    """What is given to the methods, and what is kept from them."""

    data: Data  # x [N, D], edge_index [2, E], edge_weight [E]; nothing else
    y: Tensor  # [N]; for the scores only
    num_classes: int


def load(name: str, folder: Path | None, quick: bool = False) -> StudySet:
    """Load a data set of `DATA_SETS`; `quick` keeps its first points only."""
    with tempfile.TemporaryDirectory() as root:  # the loaders write what they processed
        data = DATA_SETS[name](Path(root), folder)
    if quick:
        data = data.subgraph(torch.arange(QUICK_POINTS))
    return hide_labels(data)


def hide_labels(data: Data) -> StudySet:
    """Part a graph, or points that become one, from its labels, masks and names."""
    bare = Data(x=F.normalize(data.x))
    if data.edge_index is None:
        bare = FaissKNNGraph(NEIGHBOURS)(bare)
    else:
        bare.edge_index = data.edge_index
        bare.edge_weight = torch.ones(data.edge_index.size(1))
    return StudySet(bare, data.y, int(data.y.unique().numel()))


def _digits(root: Path, folder: Path | None) -> Data:
    return DigitsDataset(root)[0]


def _embeddings(file: str) -> Callable[[Path, Path | None], Data]:
    return lambda root, folder: EmbeddingDataset(root, _existing(folder) / file)[0]


def _planetoid(name: str) -> Callable[[Path, Path | None], Data]:
    def read(root: Path, folder: Path | None) -> Data:
        raw = _existing(folder) / "planetoid" / name / "raw"
        shutil.copytree(raw, root / name / "raw", copy_function=shutil.copyfile)
        return Planetoid(str(root), name)[0]

    return read


def _existing(folder: Path | None) -> Path:
    if folder is None:
        raise SystemExit("Only digits need no file. To fix this, give the folder with --data.")
    return folder


DATA_SETS: dict[str, Callable[[Path, Path | None], Data]] = {
    "digits": _digits,
    "cora": _planetoid("Cora"),
    "citeseer": _planetoid("CiteSeer"),
    "agnews": _embeddings("agnews8k_minilm.npz"),
    "stackoverflow": _embeddings("stackoverflow8k_minilm.npz"),
    "20newsgroups": _embeddings("20newsgroups_train_minilm.npz"),
}
