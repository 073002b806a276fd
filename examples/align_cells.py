"""Two measurements of the same cells, such as accessible chromatin and expression: which is which?

Each cell was seen by two assays, without shared features. `gromov_wasserstein` with its defaults
aligns them from the costs inside each assay alone; that row i of both is one cell is used for the
scores only, and rows of the second assay come in another order.

    python examples/align_cells.py                        # three simulated pairs, no file needed
    python examples/align_cells.py --data DIR             # snare-seq.npz and scgem.npz in DIR
    python examples/align_cells.py --data DIR --write examples/results

Simulated cells lie on a branching path, or in types; both assays see smooth functions of the place,
as counts of different depth with dropout, one of them by zeros and ones, in different dimensions.
All rows are divided by their norm, as in published runs.

Scores: FOSCTTM, the share of cells that are closer to the projection of a cell than its own other
measurement, the mean of both directions (0.5 by chance, less is better); label transfer, the
accuracy of cell types that are carried over by the plan, likewise; CPU seconds.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from jsem_pyg.transport import Plan, gromov_wasserstein

FILES = {"snare-seq": ("atac", "rna"), "scgem": ("expression", "methylation")}
PUBLISHED = {"snare-seq": 0.1496, "scgem": 0.1919}  # SCOT, the best of a grid
NOISE = 0.06  # of a place, in units of branches about one long


class Pair(NamedTuple):
    """One set of cells, measured twice; row i of both is the same cell."""

    name: str
    source: Tensor  # [N, r] rows of norm one
    target: Tensor  # [N, s]
    cell_type: Tensor  # [N]
    assays: tuple[str, str]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the .npz files; simulated without")
    parser.add_argument("--cells", type=int, default=400, help="of a simulated pair")
    parser.add_argument("--seeds", type=int, default=3, help="pairs to simulate, or orders of rows")
    parser.add_argument("--output", type=Path, default=Path("output/cells"))
    parser.add_argument("--write", type=Path, help="folder for the page, instead of --output")
    return parser.parse_args(argv)


def read(path: Path) -> Pair:
    """A pair of a file."""
    assays = FILES[path.stem]
    with np.load(path, allow_pickle=False) as file:
        sides = [F.normalize(torch.from_numpy(file[each]).float()) for each in assays]
        types = np.unique(file["cell_type"], return_inverse=True)[1]
    return Pair(path.stem, *sides, torch.from_numpy(types.reshape(-1)), assays)


def simulate(size: int, seed: int) -> Pair:
    """Cells on a branching path, or of several types; measured by counts and by zeros and ones."""
    rng = np.random.default_rng(seed)
    dim, branches = int(rng.integers(2, 6)), int(rng.integers(3, 6))
    branch = rng.choice(branches, size, p=rng.dirichlet(np.full(branches, 3.0)))
    if seed % 2:
        spread = rng.uniform(0.1, 0.35, (branches, 1))
        place = 1.2 * rng.standard_normal((branches, dim))[branch]
        place += spread[branch] * rng.standard_normal((size, dim))
    else:
        ends = [np.zeros(dim)]
        for _ in range(branches):
            step = rng.standard_normal(dim)
            ends.append(ends[rng.integers(len(ends))] + step / np.linalg.norm(step))
        begin = np.stack(ends)[[rng.integers(max(1, each)) for each in range(1, branches + 1)]]
        along = rng.random((size, 1))
        place = begin[branch] + along * (np.stack(ends[1:]) - begin)[branch]
        place += NOISE * rng.standard_normal((size, dim))
    sides = [F.normalize(torch.from_numpy(each).float()) for each in _measured(rng, place)]
    return Pair(f"simulated {seed}", *sides, torch.from_numpy(branch), ("counts", "zeros and ones"))


def _measured(rng: np.random.Generator, place: np.ndarray) -> list[np.ndarray]:
    """Both assays: [N, 20] and [N, 12] principal axes of counts and of zeros and ones."""
    views = []
    for genes, axes, is_binary in ((500, 20, False), (300, 12, True)):
        hidden = np.tanh(place @ rng.standard_normal((place.shape[1], 24)))
        rate = hidden @ rng.standard_normal((24, genes)) * 0.3 + 0.7 * rng.standard_normal(genes)
        if is_binary:
            table = (rng.random(rate.shape) < 1 / (1 + np.exp(1 - rate))).astype(float)
        else:
            share = np.exp(rate) / np.exp(rate).sum(1, keepdims=True)
            depth = 4 * genes * np.exp(0.25 * rng.standard_normal((len(place), 1)))
            count = rng.poisson(rng.gamma(10, share * depth / 10)).astype(float)
            count *= rng.random(count.shape) > 0.4 / (1 + count / 2)  # dropout
            table = np.log1p(count / np.maximum(count.sum(1, keepdims=True), 1) * 4 * genes)
        left, size, _ = np.linalg.svd(table - table.mean(0), full_matrices=False)
        views.append(left[:, :axes] * size[:axes])
    return views


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


def draw(pair: Pair, plan: Plan, order: Tensor) -> plt.Figure:
    """Both assays on axes of their own, and in one space after the alignment."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    sides = (pair.source, pair.target)
    for axis, x, assay in zip(axes, sides, pair.assays, strict=False):
        centred = x - x.mean(0)
        flat = centred @ torch.linalg.svd(centred, full_matrices=False).Vh[:2].T
        axis.scatter(*flat.T, c=pair.cell_type, s=7, cmap="tab10")
        axis.set_title(f"{assay}: {x.size(1)} dimensions, axes of its own")
    colours = pair.cell_type, pair.cell_type[order]
    for flat, colour, mark, assay in zip(
        plan.joint_embedding(2), colours, "o^", pair.assays, strict=True
    ):
        scaled = flat / flat.std(0)
        axes[2].scatter(*scaled.T, c=colour, s=9, marker=mark, cmap="tab10", alpha=0.6, label=assay)
    axes[2].legend(fontsize="small")
    axes[2].set_title("both, aligned")
    for axis in axes:
        axis.set(xticks=[], yticks=[])
    figure.suptitle(f"{pair.name}: colours are cell types, which the alignment has not seen")
    return figure


def page(rows: pd.DataFrame, pictures: list[str]) -> str:
    """What was measured, as a page."""
    lines = [
        "# Aligning cells",
        "",
        "Two measurements of the same cells, aligned by `gromov_wasserstein` with its defaults:",
        "mean ± standard deviation over random orders of the rows (`examples/align_cells.py`).",
        "FOSCTTM: less is better, both directions averaged. SCOT: the best of a published grid.",
        "",
        "| cells | orders | FOSCTTM | SCOT | label transfer | CPU s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, own in rows.groupby("cells", sort=False):
        cells = [
            f"{own[each].mean():.4f} ± {own[each].std(ddof=0):.4f}" for each in rows.columns[2:4]
        ]
        figures = cells[0], PUBLISHED.get(name, ""), cells[1], f"{own['CPU s'].mean():.1f}"
        lines.append(f"| {name} | {len(own)} | {' | '.join(map(str, figures))} |")
    return "\n".join([*lines, "", *(f"![{each}]({each})\n" for each in pictures)]) + "\n"


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    seeds = range(args.seeds)
    if args.data is None:
        tasks = [(simulate(args.cells, seed), seed) for seed in seeds]
    else:
        pairs = [read(args.data / f"{name}.npz") for name in FILES]
        tasks = [(pair, seed) for pair in pairs for seed in seeds]
    folder = args.write or args.output
    folder.mkdir(parents=True, exist_ok=True)
    rows, pictures = [], []
    for pair, seed in tasks:
        scores, plan, order = align(pair, seed)
        rows.append({"cells": pair.name, "seed": seed, **scores})
        name = f"align_cells_{pair.name.replace(' ', '_')}.png"
        if name not in pictures:
            pictures.append(name)
            figure = draw(pair, plan, order)
            figure.savefig(folder / name, dpi=90)
            plt.close(figure)
    table = pd.DataFrame(rows)
    table.to_csv(folder / "align_cells.csv", index=False)
    (folder / "align_cells.md").write_text(page(table, pictures))
    print(table.round(4).to_string(index=False))
    return table


if __name__ == "__main__":
    main()
