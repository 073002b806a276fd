"""Points and labels of a file, or of scikit-learn's digits."""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor


def load_points(path: Path | None) -> tuple[Tensor, Tensor]:
    """Points [N, D] with rows of length one, and their classes [N]."""
    if path is None:
        x, y = load_digits(return_X_y=True)
    else:
        with np.load(path, allow_pickle=False) as file:
            x, y = file["x"], file["y"]
    return F.normalize(torch.from_numpy(x).float()), torch.from_numpy(y).long()


def parser_of(doc: str) -> argparse.ArgumentParser:
    """Command line of a script that takes such points, with the first line of its docstring."""
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz of points x [N, D], labels y [N]")
    parser.add_argument("--seeds", type=int, default=3)
    return parser
