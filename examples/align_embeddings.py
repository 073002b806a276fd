"""Two embeddings of the same things: which point is which?

One set of embeddings becomes two sides that share nothing but their points: two random halves of
its dimensions, or, of the digits, whose pixels have too little in common for halves, the embeddings
and a random projection to half as many. The rows of one side come in another order, and
`gromov_wasserstein` finds it again, from the costs inside each side alone.

    python examples/align_embeddings.py                                   # digits, no file needed
    python examples/align_embeddings.py --dataset mine.npy --points 8000 --splits 1

Prints, for each random split, also without asking heat where to start: P@1, the part of points
whose partner is right; the accuracy of labels that are carried over; the cost of the plan over that
of sending everything everywhere; the number of partners of a point (perplexity); CPU seconds.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from jsem_pyg.datasets import DigitsDataset, EmbeddingDataset
from jsem_pyg.transport import Plan, gromov_wasserstein

WAYS = {"all starts": None, "without heat": ("costs", "axes", "zero")}


class Pair(NamedTuple):
    """Two sides of the same points."""

    source: Tensor  # [N, r]
    target: Tensor  # [N, s]
    partner: Tensor  # [N], the row of the target that is the same point
    y: Tensor | None  # [N], of the source


def make_pair(x: Tensor, y: Tensor | None, args: argparse.Namespace, seed: int) -> Pair:
    """A random part of the points, seen in two ways, in two orders."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(x), generator=generator)[: args.points]
    x, dim = x[chosen], x.size(1)
    if args.dataset == "digits":
        source, target = x, x @ torch.randn(dim, dim // 2, generator=generator) / (dim // 2) ** 0.5
    else:
        source, target = (x[:, each] for each in torch.randperm(dim, generator=generator).chunk(2))
    order = torch.randperm(len(x), generator=generator)
    return Pair(source, target[order], order.argsort(), None if y is None else y[chosen])


def score(pair: Pair, plan: Plan) -> dict[str, float]:
    scores = {"P@1": float((plan.argmax() == pair.partner).double().mean())}
    if pair.y is not None:
        of_target = torch.empty_like(pair.y).index_copy(0, pair.partner, pair.y)
        votes = plan.apply(F.one_hot(of_target).float())
        scores["label transfer"] = float((votes.argmax(1) == pair.y).double().mean())
    # What inner products of each side alone add is the cost of sending everything everywhere.
    centred = (each - each.mean(0) for each in (pair.source.double(), pair.target.double()))
    everywhere = sum(float((x.T @ x).square().sum()) / len(x) ** 2 for x in centred)
    scores["relative cost"] = plan.cost / everywhere
    return scores | {"perplexity": float(plan.perplexity().mean())}


def draw(pair: Pair, plan: Plan, path: Path) -> None:
    """Both sides in one space, points joined with the partners that were found."""
    figure, axis = plt.subplots(layout="constrained")
    source, target = plan.joint_embedding(2)
    found, colour = plan.argmax(), torch.zeros(len(source)) if pair.y is None else pair.y
    for side, x, mark in (("source", source, "o"), ("target", target[pair.partner], "x")):
        axis.scatter(*x.T, c=colour, s=10, lw=0.7, marker=mark, cmap="tab20", label=side)
    ends = torch.stack([source, target[found]])[:, :300]
    axis.plot(*ends.permute(2, 0, 1), color="0.6", lw=0.5, zorder=0)
    share = float((found == pair.partner).double().mean())
    axis.set(title=f"joined by the plan, {share:.1%} right", xticks=[], yticks=[])
    axis.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="digits", help="digits, or a file of embeddings")
    parser.add_argument("--points", type=int, default=2000, help="at most so many, at random")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("output"))
    args = parser.parse_args(argv)
    root, is_digits = args.output / "datasets" / Path(args.dataset).name, args.dataset == "digits"
    data = (DigitsDataset(root) if is_digits else EmbeddingDataset(root, args.dataset))[0]
    # Without points whose embedding many others have, as all empty texts do: none is right.
    x, y = F.normalize(data.x), data.y
    _, row, count = x.unique(dim=0, return_inverse=True, return_counts=True)
    kept = count[row] <= 10
    x, y = x[kept], None if y is None else y[kept]
    rows = []
    for seed in range(args.splits):
        pair = make_pair(x, y, args, seed)
        for way, starts in WAYS.items():
            started = time.process_time()
            plan = gromov_wasserstein(*pair[:2], starts=starts, seed=seed, epsilon=0.01)
            seconds = time.process_time() - started
            rows.append({"split": seed, "starts": way, **score(pair, plan), "CPU s": seconds})
            if len(rows) == 1:
                draw(pair, plan, args.output / "alignment.png")
    table = pd.DataFrame(rows)
    means = table.drop(columns="split").groupby("starts", sort=False).agg(["mean", "std"])
    print(f"{args.dataset}: {len(pair.source)} points\n{table.round(3).to_string(index=False)}\n")
    print(means.round(3).to_string())
    return table


if __name__ == "__main__":
    main()
