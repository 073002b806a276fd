"""Two embeddings of the same things: which point is which?

One set of embeddings becomes two sides that share nothing but their points: two random halves of
its dimensions (--views halves), or the embeddings and a random projection to half as many
(--views projection, what the digits get: their pixels have too little in common for halves). The
rows of one side come in another order, and `gromov_wasserstein` finds it again, from the costs
inside each side alone.

    python examples/align_embeddings.py                                   # digits, no file needed
    python examples/align_embeddings.py --dataset DIR/agnews8k_minilm.npz
    python examples/align_embeddings.py --dataset mine.npy --points 8000 --splits 1

Prints, for each random split: P@1, the part of points whose partner is the right one; label
transfer, the accuracy of labels that are carried over, where there are labels; the cost of the plan
over that of sending everything everywhere (zero for the same shape; what is low, only other pairs
of the same kind can tell); how many partners a point has (perplexity); CPU seconds. The ablation
does not ask heat where to start. --output gets the table, and a map of both sides joined.
"""

import argparse
import logging
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
from matplotlib.collections import LineCollection
from rich.console import Console
from rich.table import Table
from torch import Tensor

from jsem_pyg.datasets import DigitsDataset, EmbeddingDataset
from jsem_pyg.transport import Plan, gromov_wasserstein

WAYS: dict[str, tuple[str, ...] | None] = {
    "all starts": None,
    "without heat": ("costs", "axes", "zero"),
}
MAP_POINTS, MAP_LINES = 900, 300  # at most so many of each side
# Ten colours that stay apart with any of the common kinds of colour blindness, too.
COLOURS = (
    *("#332288", "#ff7f00", "#66ccee", "#bd1f01", "#000000"),
    *("#fb9a99", "#9467bd", "#ddcc77", "#8c564b", "#aa3377"),
)

console = Console(width=max(120, Console().width))  # the table needs 110 columns


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="digits", help="digits, or a file of embeddings")
    parser.add_argument("--views", choices=["halves", "projection"], help="see above")
    parser.add_argument("--points", type=int, default=2000, help="at most so many, at random")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the first split")
    parser.add_argument("--epsilon", type=float, default=0.01, help="of the critical temperature")
    parser.add_argument("--output", type=Path, default=Path("output"))
    parser.add_argument("--no-ablation", action="store_true")
    parser.add_argument("--no-figure", action="store_true")
    return parser.parse_args(argv)


class Pair(NamedTuple):
    """Two sides of the same points, and what is kept from the solver."""

    source: Tensor  # [N, r]
    target: Tensor  # [N, s]
    partner: Tensor  # [N], the row of the target that is the same point
    y: Tensor | None  # [N], of the source
    classes: list[str]

    def target_labels(self) -> Tensor:
        """[N], of the target."""
        return torch.empty_like(self.y).index_copy(0, self.partner, self.y)


class Points(NamedTuple):
    """Embeddings of length one, and their labels where there are some."""

    x: Tensor  # [N, D]
    y: Tensor | None  # [N]
    classes: list[str]


def load(args: argparse.Namespace) -> Points:
    """Without points whose embedding many others have, as all empty texts do: none is right."""
    root = args.output / "datasets" / Path(args.dataset).name
    is_digits = args.dataset == "digits"
    dataset = DigitsDataset(root) if is_digits else EmbeddingDataset(root, args.dataset)
    x = F.normalize(dataset[0].x)
    _, row, count = x.unique(dim=0, return_inverse=True, return_counts=True)
    kept = count[row] <= 10
    if not kept.all():
        console.print(f"{int((~kept).sum())} points that share their embedding are left out.")
    y = dataset[0].y
    return Points(x[kept], None if y is None else y[kept], dataset.classes)


def make_pair(args: argparse.Namespace, points: Points, seed: int) -> Pair:
    """A random part of the points, seen in two ways, in two orders."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(points.x), generator=generator)[: args.points]
    x, dim = points.x[chosen], points.x.size(1)
    if (args.views or ("projection" if args.dataset == "digits" else "halves")) == "halves":
        source, target = (x[:, each] for each in torch.randperm(dim, generator=generator).chunk(2))
    else:
        source, target = x, x @ torch.randn(dim, dim // 2, generator=generator) / (dim // 2) ** 0.5
    order = torch.randperm(len(x), generator=generator)
    y = None if points.y is None else points.y[chosen]
    return Pair(source, target[order], order.argsort(), y, points.classes)


def align(pair: Pair, starts: tuple[str, ...] | None, epsilon: float, seed: int) -> Plan:
    return gromov_wasserstein(pair.source, pair.target, epsilon=epsilon, starts=starts, seed=seed)


def score(pair: Pair, plan: Plan) -> dict[str, float]:
    scores = {"P@1": float((plan.argmax() == pair.partner).double().mean())}
    if pair.y is not None:
        votes = plan.apply(F.one_hot(pair.target_labels(), len(pair.classes)).float())
        scores["label transfer"] = float((votes.argmax(1) == pair.y).double().mean())
    scores["relative cost"] = plan.cost / independent_cost(pair)
    return scores | {"perplexity": float(plan.perplexity().mean())}


def independent_cost(pair: Pair) -> float:
    """The cost of sending everything everywhere: what inner products of each side alone add."""
    centred = (each - each.mean(0) for each in (pair.source.double(), pair.target.double()))
    return sum(float((x.T @ x).square().sum()) / len(x) ** 2 for x in centred)


def run(args: argparse.Namespace, points: Points) -> tuple[pd.DataFrame, Pair, Plan]:
    """A row for every split and way; and the first pair with its plan."""
    rows, shown = [], None
    ways = dict(list(WAYS.items())[: 1 if args.no_ablation else None])
    for seed in range(args.seed, args.seed + args.splits):
        pair = make_pair(args, points, seed)
        for way, starts in ways.items():
            started = time.process_time()
            plan = align(pair, starts, args.epsilon, seed)
            seconds = time.process_time() - started
            rows.append({"split": seed, "starts": way, **score(pair, plan), "CPU s": seconds})
            shown = shown or (pair, plan)
    return pd.DataFrame(rows), *shown


def show(rows: pd.DataFrame, title: str) -> None:
    """Print every split, and mean ± standard deviation over the splits."""
    table = Table(title=title)
    measures = list(rows.columns[2:])
    for heading in ("split", "starts", *measures):
        table.add_column(heading, no_wrap=True)
    for _, row in rows.iterrows():
        cells = [f"{row[each]:.3f}" for each in measures[:-1]]
        table.add_row(str(row["split"]), row["starts"], *cells, f"{row['CPU s']:.1f}")
    table.add_section()
    for way, own in rows.groupby("starts", sort=False):
        cells = [f"{own[each].mean():.3f} ± {own[each].std(ddof=0):.3f}" for each in measures]
        table.add_row("mean", way, *cells)
    console.print(table)


def draw(pair: Pair, plan: Plan) -> plt.Figure:
    """Each side by itself, on its own axes; and both in one space, matched points joined."""
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.3), layout="constrained")
    generator = torch.Generator().manual_seed(0)
    chosen = torch.randperm(len(pair.source), generator=generator)[:MAP_POINTS]
    colours = [None, None] if pair.y is None else [pair.y, pair.target_labels()]
    for axis, x, y, side in zip(
        axes, (pair.source, pair.target), colours, ("source", "target"), strict=False
    ):
        flat = principal_axes(x)
        scatter(axis, flat[chosen], None if y is None else y[chosen], side)
        axis.set_title(f"{side}: {x.size(1)} dimensions, axes of its own")
    source, target = plan.joint_embedding(2)
    found = plan.argmax()
    lines = chosen[:MAP_LINES]
    is_right = found[lines] == pair.partner[lines]
    for kind, colour in ((is_right, "0.6"), (~is_right, "#bd1f01")):
        ends = torch.stack([source[lines[kind]], target[found[lines[kind]]]], 1)
        axes[2].add_collection(LineCollection(ends.numpy(), colors=colour, lw=0.8, zorder=1))
    for side, flat, y in zip(("source", "target"), (source, target), colours, strict=True):
        own = chosen if side == "source" else pair.partner[chosen]
        scatter(axes[2], flat[own], None if y is None else y[own], side)
    share = float((found == pair.partner).double().mean())
    axes[2].set_title(f"joined by the plan, {share:.1%} right")
    legend(figure, pair)
    return figure


def principal_axes(x: Tensor) -> Tensor:
    """[N, 2]."""
    centred = x - x.mean(0)
    return centred @ torch.linalg.svd(centred, full_matrices=False).Vh[:2].T


MARKERS = {
    "source": {"marker": "o", "s": 9, "lw": 0},
    "target": {"marker": "x", "s": 11, "lw": 0.7},
}


def scatter(axis: plt.Axes, flat: Tensor, y: Tensor | None, side: str) -> None:
    labels = torch.zeros(len(flat), dtype=torch.int64) if y is None else y
    colour = np.array(COLOURS)[labels % len(COLOURS)]
    axis.scatter(*flat.T.numpy(), c=colour, zorder=2, **MARKERS[side])
    axis.set(xticks=[], yticks=[])
    axis.set_aspect("equal", "datalim")


def legend(figure: plt.Figure, pair: Pair) -> None:
    names = list(MARKERS)
    handles = [
        plt.Line2D([], [], color="0.3", ls="", marker=MARKERS[side]["marker"], ms=5)
        for side in MARKERS
    ]
    handles += [plt.Line2D([], [], color=colour, lw=1) for colour in ("0.6", "#bd1f01")]
    names += ["matched, rightly", "matched, wrongly"]
    if len(pair.classes) <= len(COLOURS):
        for name, colour in zip(pair.classes, COLOURS, strict=False):
            handles.append(plt.Line2D([], [], color=colour, ls="", marker="s", ms=5))
            names.append(name)
    figure.legend(handles, names, loc="outside right upper", frameon=False)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    args.output.mkdir(parents=True, exist_ok=True)
    points = load(args)
    rows, pair, plan = run(args, points)
    sizes = f"{len(pair.source)} points, {pair.source.size(1)} and {pair.target.size(1)} dimensions"
    show(rows, f"{Path(args.dataset).stem}: {sizes}")
    rows.to_csv(args.output / "alignment.csv", index=False)
    if not args.no_figure:
        figure = draw(pair, plan)
        figure.savefig(args.output / "alignment.png", dpi=150)
        plt.close(figure)
    console.print(f"Written to {args.output}/")
    return rows


if __name__ == "__main__":
    main()
