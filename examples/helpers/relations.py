"""Graphs with several types of nodes, from a file."""

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor
from torch_geometric.data import HeteroData

Split = tuple[Tensor, Tensor, Tensor]  # nodes to learn from, to choose by, to test


def read(path: str) -> tuple[HeteroData, str, Tensor, dict[str, Split]]:
    """Read a graph, the type that has labels, the labels, and the splits of a .npz file.

    It holds `node_types`, `num_nodes`, `target`, `labels`, `edge_A_B` [2, E] for all relations, for
    K labels a class the splits `train_K`, `val_K` and `test_K`, and maybe the words of the target,
    a sparse matrix: `x_data`, `x_indices`, `x_indptr`, `x_shape`.
    """
    data = HeteroData()
    with np.load(path, allow_pickle=False) as file:
        for name, number in zip(file["node_types"], file["num_nodes"], strict=True):
            data[str(name)].num_nodes = int(number)
        for name in file.files:
            if name.startswith("edge_"):
                _, source, target = name.split("_")
                data[source, "to", target].edge_index = torch.from_numpy(file[name]).long()
        numbers = [name.removeprefix("train_") for name in file.files if name.startswith("train_")]
        splits = {
            number: tuple(
                torch.from_numpy(file[f"{part}_{number}"]).long()
                for part in ("train", "val", "test")
            )
            for number in numbers
        }
        target = str(file["target"])
        if "x_data" in file:
            parts = file["x_data"], file["x_indices"], file["x_indptr"]
            x = csr_array(parts, shape=tuple(file["x_shape"])).toarray()
            data[target].x = torch.from_numpy(x).float()
        return data, target, torch.from_numpy(file["labels"]).long(), splits
