"""Two measurements of the same cells, such as accessible chromatin and expression: which is which?

Each cell was seen by two assays, without shared features. `gromov_wasserstein` with its defaults
aligns them from the costs inside each assay alone; that row i of both is one cell is used for the
scores only, and rows of the second assay come in another order.

    python examples/align_cells.py                        # three simulated pairs, no file needed
    python examples/align_cells.py --data DIR             # snare-seq.npz and scgem.npz in DIR

Scores: FOSCTTM, the share of cells that are closer to the projection of a cell than its own other
measurement, the mean of both directions (0.5 by chance, less is better); label transfer, the
accuracy of cell types that are carried over by the plan, likewise; CPU seconds. The picture has
both assays on axes of their own, and in one space after the alignment.
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from helpers.cells import Pair, simulate
from torch import Tensor

from jsem_pyg.transport import Plan, gromov_wasserstein

FILES = {"snare-seq": ("atac", "rna"), "scgem": ("expression", "methylation")}


def read(path: Path) -> Pair:
    """A pair of a file."""
    assays = FILES[path.stem]
    with np.load(path, allow_pickle=False) as file:
        sides = [F.normalize(torch.from_numpy(file[each]).float()) for each in assays]
        types = np.unique(file["cell_type"], return_inverse=True)[1]
    return Pair(path.stem, *sides, torch.from_numpy(types.reshape(-1)), assays)


def align(pair: Pair, seed: int) -> tuple[dict[str, float], Plan, Tensor]:
    """Scores, the plan, and the cell [N] of each row of the target, whose order is random."""
    order = torch.randperm(len(pair.target), generator=torch.Generator().manual_seed(seed))
    other = pair.target[order]
    started = time.process_time()
    plan = gromov_wasserstein(pair.source, other, seed=seed, progress=False)
    seconds = time.process_time() - started
    back = plan.transposed()
    farther = (
        foscttm(plan.apply(other), other, order.argsort()),
        foscttm(back.apply(pair.source), pair.source, order),
    )
    types = F.one_hot(pair.cell_type).float()
    right = (
        plan.apply(types[order]).argmax(1) == pair.cell_type,
        back.apply(types).argmax(1) == pair.cell_type[order],
    )
    transfer = sum(float(each.double().mean()) for each in right) / 2
    return {"FOSCTTM": sum(farther) / 2, "label transfer": transfer, "CPU s": seconds}, plan, order


def foscttm(projected: Tensor, x: Tensor, partner: Tensor) -> float:
    """The mean share of rows of x [N, D] closer to a projection [N, D] than its own, by partner."""
    distance = torch.cdist(projected, x)
    own = distance.gather(1, partner[:, None])
    return float((distance < own).sum()) / len(x) / max(1, len(x) - 1)


def draw(pair: Pair, plan: Plan, order: Tensor, path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for axis, x, assay in zip(axes, (pair.source, pair.target), pair.assays, strict=False):
        centred = x - x.mean(0)
        flat = centred @ torch.linalg.svd(centred, full_matrices=False).Vh[:2].T
        axis.scatter(*flat.T, c=pair.cell_type, s=7, cmap="tab10")
        axis.set_title(f"{assay}: {x.size(1)} dimensions, axes of its own")
    sides = zip(plan.joint_embedding(2), (pair.cell_type, pair.cell_type[order]), strict=True)
    for (flat, colour), mark, assay in zip(sides, "o^", pair.assays, strict=True):
        style = {"s": 9, "marker": mark, "cmap": "tab10", "alpha": 0.6, "label": assay}
        axes[2].scatter(*(flat / flat.std(0)).T, c=colour, **style)
    axes[2].legend(fontsize="small")
    axes[2].set_title("both, aligned")
    for axis in axes:
        axis.set(xticks=[], yticks=[])
    figure.suptitle(f"{pair.name}: colours are cell types, which the alignment has not seen")
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the .npz files; simulated without")
    parser.add_argument("--cells", type=int, default=400, help="of a simulated pair")
    parser.add_argument("--seeds", type=int, default=3, help="pairs to simulate, or orders of rows")
    parser.add_argument("--output", type=Path, default=Path("output/cells"))
    args = parser.parse_args(argv)
    tasks = [(simulate(args.cells, seed), seed) for seed in range(args.seeds) if not args.data]
    if args.data:
        pairs = [read(args.data / f"{name}.npz") for name in FILES]
        tasks = [(pair, seed) for pair in pairs for seed in range(args.seeds)]
    args.output.mkdir(parents=True, exist_ok=True)
    rows = []
    for pair, seed in tasks:
        scores, plan, order = align(pair, seed)
        rows.append({"cells": pair.name, "seed": seed, **scores})
        draw(pair, plan, order, args.output / f"align_cells_{pair.name.replace(' ', '_')}.png")
    table = pd.DataFrame(rows)
    print(table.round(4).to_string(index=False))
    return table


if __name__ == "__main__":
    main()
