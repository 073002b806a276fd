"""Experts that talk before they are mixed: do they learn to agree?

A small mixture of experts reads digits row by row. Between the outputs of the experts and their
weighted sum sits an `ExpertCoupler`: hypergraph layers over the experts, whose every pair (or
triple) is a hyperedge with a learned weight. One structure serves all tokens of a batch at once.

    python examples/expert_coupling.py                    # every pair of 8 experts
    python examples/expert_coupling.py --hyperedges 3     # every triple

Trains with and without the coupler, from the same seeds, and prints both accuracies on digits that
neither has seen (on so small a task the coupler fits the training digits faster, and that is all)
and the time of a step.
"""

import argparse
import statistics
import time
from itertools import combinations

import pandas as pd
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch_geometric import seed_everything

from jsem_pyg.graph import HypergraphStructure
from jsem_pyg.nn import HypergraphChebConv


class ExpertCoupler(torch.nn.Module):
    """Adds gain * GELU(HypergraphChebConv(LayerNorm(x))) to x; the gain starts at zero."""

    def __init__(self, structure: HypergraphStructure, channels: int) -> None:
        super().__init__()
        self.structure, self.norm = structure, torch.nn.LayerNorm(channels)
        learns = {"num_hyperedges": structure.num_hyperedges}  # a weight each
        self.conv = HypergraphChebConv(channels, channels, **learns)
        self.gain = torch.nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:  # [..., E, D], outputs of the experts
        return torch.addcmul(x, self.gain, F.gelu(self.conv(self.norm(x), self.structure)))


class MixtureOfExperts(torch.nn.Module):
    """A row of pixels is a token; experts read it, are coupled or not, and mixed by a gate."""

    def __init__(self, num_experts: int, channels: int) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(8, channels)
        self.position = torch.nn.Parameter(0.02 * torch.randn(8, channels))
        self.gate = torch.nn.Linear(channels, num_experts)
        self.hidden = torch.nn.Parameter(torch.empty(num_experts, channels, channels))
        self.coupler = torch.nn.Identity()
        self.classify = torch.nn.Linear(8 * channels, 10)
        torch.nn.init.normal_(self.hidden, std=channels**-0.5)

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, 8, 8] -> logits [B, 10]."""
        tokens = self.embed(images) + self.position  # [B, L, D]
        found = self.coupler(F.gelu(torch.einsum("bld,edf->blef", tokens, self.hidden)))
        share = self.gate(tokens).softmax(-1)
        mixed = torch.einsum("ble,bled->bld", share, found)
        return self.classify((tokens + mixed).flatten(1))


def train(args: argparse.Namespace, images: list[Tensor], seed: int, groups: Tensor | None) -> dict:
    x, test_x, y, test_y = images
    seed_everything(seed)
    model = MixtureOfExperts(args.experts, args.channels)
    if groups is not None:  # made last, so that all else starts alike
        number = torch.arange(len(groups)).repeat_interleave(groups.size(1))
        members = torch.stack([groups.flatten(), number])  # [2, M]
        structure = HypergraphStructure(members, args.experts)
        layers = (ExpertCoupler(structure, args.channels) for _ in range(2))
        model.coupler = torch.nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    generator, steps = torch.Generator().manual_seed(seed), []
    for _ in range(args.epochs):
        total = 0.0
        for batch in torch.randperm(len(x), generator=generator).split(128):
            started = time.perf_counter()
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            steps.append(time.perf_counter() - started)
            total += loss.item() * len(batch)
    with torch.no_grad():
        right = (model(test_x).argmax(-1) == test_y).float()
    return {
        "accuracy": float(right.mean()),
        "final loss": total / len(x),
        "step ms": 1e3 * statistics.median(steps),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    settings = {"experts": 8, "channels": 32, "hyperedges": 2, "epochs": 30, "lr": 3e-3, "seeds": 3}
    for name, value in settings.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    args = parser.parse_args(argv)
    x, y = load_digits(return_X_y=True)
    x = (x / x.max()).astype("float32").reshape(-1, 8, 8)
    parts = train_test_split(x, y, test_size=0.3, random_state=0, stratify=y)
    rows, images = {}, [torch.from_numpy(part) for part in parts]
    groups = torch.tensor(list(combinations(range(args.experts), args.hyperedges)))
    for name, coupled in (("without coupler", None), ("with coupler", groups)):
        scores = pd.DataFrame([train(args, images, s, coupled) for s in range(args.seeds)])
        rows[name] = scores.mean()
        rows[name]["± over seeds"] = scores["accuracy"].std(ddof=0)
    table = pd.DataFrame(rows).T.rename_axis("mixture of experts")
    print(table.to_string(float_format="%.4g"))
    return table


if __name__ == "__main__":
    main()
