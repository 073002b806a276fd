"""Experts that talk before they are mixed: which groups of them learn to agree?

A small mixture of experts reads digits row by row. Between the outputs of the experts and their
weighted sum sits an `ExpertCoupler`: hypergraph layers over the experts, whose every pair (or
triple) is a hyperedge with a learned weight. One structure serves all tokens of a batch at once.

    python examples/expert_coupling.py                    # every pair of 8 experts
    python examples/expert_coupling.py --hyperedges 3     # every triple

Trains with and without the coupler, from the same seeds, and prints both accuracies on digits that
neither has seen (on so small a task the coupler fits the training digits faster, and that is all),
the time of a step, the coupler's peak memory and a profile of its forward pass. Figures show the
loss and the weights of the hyperedges as they evolve.
"""

import argparse
import itertools
import statistics
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
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch_geometric import seed_everything

from jsem_pyg.datasets import DigitsDataset
from jsem_pyg.graph import HypergraphStructure
from jsem_pyg.nn import HypergraphChebConv


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--hyperedges", type=int, default=2, help="the size of the groups")
    parser.add_argument("--layers", type=int, default=2, help="of the coupler")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seeds", type=int, default=3, help="trainings behind every accuracy")
    parser.add_argument("--output", type=Path, default=Path("output/expert_coupling"))
    return parser.parse_args(argv)


class ExpertCoupler(torch.nn.Module):
    r"""A stack of hypergraph layers over the experts of a mixture, for every token at once.

    x <- x + gain * GELU(HypergraphChebConv(LayerNorm(x))), where every set of `size` experts is a
    hyperedge, with a learned weight in each layer. The gains start at zero ("ReZero is all you
    need", https://arxiv.org/abs/2003.04887, eq. 1), so that a new coupler changes nothing: it can
    be put into a trained model.
    """

    def __init__(self, num_experts: int, channels: int, size: int, num_layers: int) -> None:
        super().__init__()
        groups = torch.tensor(list(itertools.combinations(range(num_experts), size)))
        number = torch.arange(len(groups)).repeat_interleave(size)
        self.hyperedge_index = torch.stack([groups.flatten(), number])  # [2, M]
        self.structure = HypergraphStructure(self.hyperedge_index, num_experts)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(channels) for _ in range(num_layers))
        self.convs = torch.nn.ModuleList(
            HypergraphChebConv(channels, channels, num_hyperedges=len(groups))
            for _ in range(num_layers)
        )
        self.gain = torch.nn.Parameter(torch.zeros(num_layers))

    @property
    def hyperedge_weight(self) -> Tensor:
        """The learned weights of the hyperedges, [num_layers, num_hyperedges]."""
        return torch.stack([conv.weight() for conv in self.convs])

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of the experts [..., E, D] -> coupled outputs of the same shape."""
        for norm, conv, gain in zip(self.norms, self.convs, self.gain, strict=True):
            x = torch.addcmul(x, gain, F.gelu(conv(norm(x), self.structure)))
        return x


class MixtureOfExperts(torch.nn.Module):
    """A row of pixels is a token; experts read it, are coupled or not, and mixed by a gate."""

    def __init__(self, num_experts: int, channels: int, coupler: torch.nn.Module) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(8, channels)
        self.position = torch.nn.Parameter(0.02 * torch.randn(8, channels))
        self.gate = torch.nn.Linear(channels, num_experts)
        self.hidden = torch.nn.Parameter(torch.empty(num_experts, channels, channels))
        self.coupler = coupler
        self.classify = torch.nn.Linear(8 * channels, 10)
        torch.nn.init.normal_(self.hidden, std=channels**-0.5)

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, 8, 8] -> logits [B, 10]."""
        tokens = self.embed(images) + self.position  # [B, L, D]
        found = F.gelu(torch.einsum("bld,edf->blef", tokens, self.hidden))
        found = self.coupler(found)  # [B, L, E, D]
        share = self.gate(tokens).softmax(-1)
        mixed = torch.einsum("ble,bled->bld", share, found)
        return self.classify((tokens + mixed).flatten(1))


class Training(NamedTuple):
    """What is left of a training."""

    model: MixtureOfExperts
    loss: list[float]  # of each epoch
    weight: np.ndarray  # [epochs + 1, layers, hyperedges], nothing without a coupler
    step: float  # seconds, the median
    accuracy: float  # on digits that were not trained on


def load(root: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to train on, then those to test on."""
    data = DigitsDataset(root)[0]
    train, test = train_test_split(
        np.arange(data.num_nodes), test_size=0.3, random_state=0, stratify=data.y.numpy()
    )
    images = (data.x / data.x.max()).view(-1, 8, 8)
    return images[train], data.y[train], images[test], data.y[test]


def make_model(args: argparse.Namespace, seed: int, coupled: bool) -> MixtureOfExperts:
    seed_everything(seed)
    model = MixtureOfExperts(args.experts, args.channels, torch.nn.Identity())
    if coupled:  # made last, so that all else starts alike
        model.coupler = ExpertCoupler(args.experts, args.channels, args.hyperedges, args.layers)
    return model


def weights(model: MixtureOfExperts) -> np.ndarray:
    if not isinstance(model.coupler, ExpertCoupler):
        return np.zeros((0, 0))
    return model.coupler.hyperedge_weight.detach().numpy()


def train(args: argparse.Namespace, data: tuple[Tensor, ...], seed: int, coupled: bool) -> Training:
    model = make_model(args, seed, coupled)
    x, y, test_x, test_y = data
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    generator = torch.Generator().manual_seed(seed)
    losses, evolution, steps = [], [weights(model)], []
    for _ in range(args.epochs):
        total = 0.0
        for batch in torch.randperm(len(x), generator=generator).split(args.batch_size):
            started = time.perf_counter()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            steps.append(time.perf_counter() - started)
            total += loss.item() * len(batch)
        losses.append(total / len(x))
        evolution.append(weights(model))
    with torch.no_grad():
        accuracy = float((model(test_x).argmax(-1) == test_y).float().mean())
    return Training(model, losses, np.stack(evolution), statistics.median(steps), accuracy)


def inspect(model: MixtureOfExperts, images: Tensor, channels: int) -> str:
    """Profile a coupler's forward pass, with its time and peak memory."""
    coupler = model.coupler
    assert isinstance(coupler, ExpertCoupler)
    x = torch.randn(len(images), 8, coupler.structure.num_nodes, channels)
    with torch.no_grad():
        coupler(x)
        started = time.perf_counter()
        for _ in range(10):
            coupler(x)
        seconds = (time.perf_counter() - started) / 10
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            coupler(x)
    events = profiler.profiler.kineto_results.events()
    changes = [(each.start_ns(), each.nbytes()) for each in events if each.name() == "[memory]"]
    peak = np.cumsum([0, *(nbytes for _, nbytes in sorted(changes))]).max()
    size = x.numel() * x.element_size()
    table = profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
    memberships = coupler.hyperedge_index.size(1)
    return (
        f"Coupler, forward, {len(images)} x 8 tokens: {seconds * 1e3:.2f} ms; peak memory "
        f"{peak / 1e6:.1f} MB above its input of {size / 1e6:.1f} MB (a message for each of "
        f"{memberships} memberships would be {size / x.size(-2) * memberships / 1e6:.1f}"
        f" MB)\n{table}"
    )


def names(model: MixtureOfExperts) -> list[str]:
    """The members of each hyperedge, such as 0-3."""
    node, hyperedge = model.coupler.hyperedge_index.numpy()
    return ["-".join(map(str, node[hyperedge == e])) for e in range(hyperedge.max() + 1)]


def draw_training(trainings: dict[str, list[Training]]) -> plt.Figure:
    figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for colour, (name, runs) in zip(("C7", "C0"), trainings.items(), strict=True):
        for i, run in enumerate(runs):
            axis.plot(
                range(1, len(run.loss) + 1),
                run.loss,
                color=colour,
                alpha=0.7,
                label=None if i else name,
            )
    axis.set(yscale="log", xlabel="epoch", ylabel="cross-entropy", title="Training loss, all seeds")
    axis.legend()
    return figure


def draw_weights(run: Training, shown: int = 6) -> plt.Figure:
    """How the weights evolve, and at the end which groups weigh most in each layer."""
    groups, layers = names(run.model), run.weight.shape[1]
    figure, axes = plt.subplots(
        2, layers, figsize=(5 * layers, 6.5), layout="constrained", squeeze=False
    )
    for layer in range(layers):
        evolution, (top, bottom) = run.weight[:, layer], axes[:, layer]
        order = np.argsort(evolution[-1])
        top.plot(evolution[:, order[:-shown]], color="C7", alpha=0.4, lw=0.8)
        for e in order[: -shown - 1 : -1]:
            top.plot(evolution[:, e], label=groups[e])
        top.set(xlabel="epoch", ylabel="weight", title=f"Layer {layer + 1}: weight of each group")
        top.margins(y=0.35)
        top.legend(title="experts", fontsize="small", ncols=3, loc="upper left")
        ends = [*order[:shown], *order[-shown:]] if len(order) > 2 * shown else list(order)
        colours = ["C7" if evolution[-1, e] < 1 else "C0" for e in ends]
        bottom.barh([groups[e] for e in ends], evolution[-1, ends], color=colours)
        bottom.axvline(1, color="black", lw=0.8)
        bottom.set(xlabel="weight (all start at 1)", title="lightest and heaviest at the end")
    return figure


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    args.output.mkdir(parents=True, exist_ok=True)
    data = load(args.output / "digits")
    trainings = {
        name: [train(args, data, seed, coupled) for seed in range(args.seeds)]
        for name, coupled in (("without coupler", False), ("with coupler", True))
    }
    rows = {
        name: {
            "accuracy": np.mean([run.accuracy for run in runs]),
            "± over seeds": np.std([run.accuracy for run in runs]),
            "final loss": np.mean([run.loss[-1] for run in runs]),
            "step ms": 1e3 * statistics.median(run.step for run in runs),
            "parameters": sum(p.numel() for p in runs[0].model.parameters()),
        }
        for name, runs in trainings.items()
    }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("mixture of experts")
    table.to_csv(args.output / "results.csv")
    print(table.to_string(float_format="%.4g"))
    run = trainings["with coupler"][0]
    report = inspect(run.model, data[0][: args.batch_size], args.channels)
    (args.output / "profile.txt").write_text(report)
    print(report)
    coupler = run.model.coupler
    print(f"gains: {coupler.gain.tolist()}, t: {[conv.t.item() for conv in coupler.convs]}")
    figures = {"training": draw_training(trainings), "weights": draw_weights(run)}
    for name, figure in figures.items():
        figure.savefig(args.output / f"{name}.png", dpi=150)
        plt.close(figure)
    return table


if __name__ == "__main__":
    main()
