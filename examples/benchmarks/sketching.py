"""What does training on a sketch of the channels save, and what does it cost?

A diffusion acts on each channel by itself, so it commutes with a random projection of the channels:
`fit(sketch_dim=D')` trains on D' columns instead of all. For each D' the same model is trained from
the same seed for as many epochs. Whatever it was trained on, it is then judged on all channels: the
triplet loss on triplets that are the same for all and drawn independently of any training, and ARI
and NMI of k-means (seeds 0 to 4) on the diffused points. The rows "raw" and "untrained" are without
training: the points themselves, and their diffusion by the model as it was before.

    python examples/benchmarks/sketching.py --embeddings 20newsgroups_train_minilm.npz
    python examples/benchmarks/sketching.py              # digits, no file needed
"""

import argparse
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from reporting import machine, write_table
from sklearn.datasets import load_digits
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.evaluation import clustering_scores
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.training import GraphTriplets, TripletLoss, Triplets, fit
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature

SKETCHES = [16, 32, 64, 128, 256]
HELD_OUT_SEED = 12_345  # of the common triplets; `fit` derives its own from --seed and a purpose


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of x [N, D] and y [N]")
    parser.add_argument("--sketch-dims", type=int, nargs="+", default=SKETCHES)
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--t", type=float, default=5.0, help="diffusion time at the start")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0, help="of training and sketch")
    parser.add_argument("--num-triplets", type=int, default=50_000, help="held out")
    parser.add_argument("--quick", action="store_true", help="two sketches, five epochs")
    parser.add_argument("--output", type=Path, default=Path("output/benchmarks"))
    args = parser.parse_args(argv)
    if args.quick:
        args.sketch_dims, args.epochs, args.num_triplets = [8, 16], 5, 2_000
    return args


def load(args: argparse.Namespace) -> Data:
    """The points, with rows of length one, their labels, graph and curvature."""
    if args.embeddings is None:
        x, y = load_digits(return_X_y=True)
    else:
        with np.load(args.embeddings, allow_pickle=False) as file:
            x, y = file["x"], file["y"]
    x = F.normalize(torch.from_numpy(x.astype("float32")))
    data = Data(x=x, y=torch.from_numpy(y.astype("int64")))
    return FormanCurvature()(FaissKNNGraph(args.k)(data))


@torch.no_grad()
def diffuse(model: AnisotropicDiffusion, data: Data, x: Tensor) -> Tensor:
    return model(x, data.edge_index, data.edge_weight, data.edge_attr)


def check(data: Data, t: float) -> None:
    """What is timed is right: the fast backend agrees with the reference, and sketches commute."""
    x = data.x[:, :8]
    fast = AnisotropicDiffusion(t=t)
    slow = AnisotropicDiffusion(t=t, backend="reference")
    projection = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    answer = diffuse(fast, data, x)
    pairs = {
        "The reference": (answer, diffuse(slow, data, x)),
        "Projecting first": (diffuse(fast, data, x @ projection), answer @ projection),
    }
    for name, (actual, expected) in pairs.items():
        error = float((actual - expected).norm() / expected.norm())
        if not error <= 1e-4:
            raise AssertionError(f"{name} disagrees: a relative error of {error:.2g}.")


def judge(z: Tensor, data: Data, triplets: Triplets) -> dict[str, float]:
    scores = clustering_scores(z, data.y, seeds=5)
    return {
        "held-out loss": float(TripletLoss()(z, triplets)),
        "ARI": scores.ari,
        "ARI std": scores.ari_std,
        "NMI": scores.nmi,
        "NMI std": scores.nmi_std,
    }


def train(data: Data, triplets: Triplets, args: argparse.Namespace, sketch: int | None) -> dict:
    """Train on a sketch, or on all channels if None, and judge on all."""
    model = AnisotropicDiffusion(t=args.t)
    result = fit(
        model,
        data,
        epochs=args.epochs,
        lr=args.lr,
        sketch_dim=sketch,
        seed=args.seed,
        progress=False,
    )
    # The first epochs prepare the graph and load the kernels.
    seconds = result.to_pandas()["seconds"].iloc[min(2, args.epochs - 1) :]
    z = diffuse(model, data, data.x)
    row = {"epoch s": float(seconds.median()), "learned t": model.t.item()}
    return row | judge(z, data, triplets)


def measure(data: Data, args: argparse.Namespace) -> pd.DataFrame:
    sampler = GraphTriplets(data.edge_index, data.edge_weight, data.num_nodes)
    generator = torch.Generator().manual_seed(HELD_OUT_SEED)
    triplets = sampler.sample(args.num_triplets, generator)
    untrained = diffuse(AnisotropicDiffusion(t=args.t), data, data.x)
    rows = {
        "raw": judge(data.x, data, triplets),
        "untrained": {"learned t": args.t} | judge(untrained, data, triplets),
    }
    channels = data.x.size(1)
    for sketch in [*sorted(each for each in args.sketch_dims if each < channels), None]:
        name = str(sketch or f"all {channels}")
        rows[name] = {"D'": sketch or channels} | train(data, triplets, args, sketch)
        print(name, {key: round(value, 4) for key, value in rows[name].items()}, flush=True)
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("trained on")
    table["all channels' epoch / this"] = table["epoch s"].iloc[-1] / table["epoch s"]
    columns = ["D'", "epoch s", "all channels' epoch / this", "held-out loss", "learned t"]
    return table[[*columns, "ARI", "ARI std", "NMI", "NMI std"]]


def numba_version() -> str:
    try:
        return f"numba {version('numba')}"
    except PackageNotFoundError:
        return "no numba"


def describe(data: Data, args: argparse.Namespace) -> str:
    return (
        f"{'digits' if args.embeddings is None else args.embeddings.stem}: N = {data.num_nodes}, "
        f"D = {data.x.size(1)}, {data.num_edges} directed edges, {args.epochs} epochs, "
        f"seed {args.seed}, float32; {machine()}, {numba_version()}"
    )


def draw(table: pd.DataFrame) -> plt.Figure:
    trained = table.dropna(subset=["D'"])
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    axes[0].plot(trained["D'"], trained["epoch s"] * 1000, marker="o")
    axes[0].set(ylim=(0, None), ylabel="milliseconds", title="One training epoch")
    axes[1].plot(trained["D'"], trained["held-out loss"], marker="o", label="trained")
    axes[1].axhline(table["held-out loss"]["untrained"], color="grey", ls="--", label="untrained")
    axes[1].set(ylabel="triplet loss on all channels", title="Held-out loss")
    for score, color in (("ARI", "C0"), ("NMI", "C1")):
        spread = trained[f"{score} std"]
        axes[2].errorbar(trained["D'"], trained[score], spread, marker="o", capsize=3, label=score)
        for way, style in (("untrained", "--"), ("raw", ":")):
            axes[2].axhline(table[score][way], color=color, ls=style, label=f"{score}, {way}")
    axes[2].set(ylabel="score", title="k-means on the diffused points, 5 seeds")
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.set_xticks(trained["D'"], [f"{each:.0f}" for each in trained["D'"]])
        axis.minorticks_off()
        axis.set_xlabel("channels trained on")
    axes[1].legend()
    axes[2].legend(ncols=2, fontsize="small")
    return figure


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    data = load(args)
    check(data, args.t)
    table = measure(data, args)
    write_table(table.reset_index(), args.output, "sketching", [describe(data, args)])
    figure = draw(table)
    figure.savefig(args.output / "sketching.png", dpi=150)
    plt.close(figure)
    return table


if __name__ == "__main__":
    main()
