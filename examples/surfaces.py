"""Parts of bodies, learned from heat on their surfaces: DiffusionNet's layer (Sharp et al. 2022).

A triangle mesh is a graph whose vertices have masses, which is all that the package knows about it
(`node_mass`). Channels diffuse along it for a learned time each, and gradients along the surface
tell left from right, which look the same to the signatures that the network reads.

    python examples/surfaces.py                     # bodies drawn by a formula
    python examples/surfaces.py FOLDER              # *.off beside *.vts, as FAUST's

A file .vts lists, for every point of a template, the vertex (from one) that it is on that mesh; the
last fifth of the files is for the test. Distances and signatures are in `helpers/meshes.py`.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from helpers.meshes import TIMES, Labelled, Surface, body, read_folder
from torch import Tensor, nn

from jsem_pyg.nn import AnisotropicDiffusion

CHANNELS, BLOCKS = 32, 2


class SurfaceBlock(nn.Module):
    """DiffusionNet's block: diffusion for a learned time each, gradients, and a network."""

    def __init__(self, channels: int, gradients: bool = True) -> None:
        super().__init__()
        times = torch.logspace(-4.5, -2.5, channels).unsqueeze(0)
        self.diffusion = AnisotropicDiffusion(0, times, normalization=None, tol=1e-3)
        self.turn = nn.ModuleList(nn.Linear(channels, channels, bias=False) for _ in range(2))
        self.gradients = gradients
        wide = (3 if gradients else 2) * channels
        self.mlp = nn.Sequential(
            nn.Linear(wide, channels), nn.ReLU(), nn.Linear(channels, channels)
        )

    def forward(self, x: Tensor, surface: Surface) -> Tensor:
        """Map [N, D] to [N, D]."""
        structure, weight, mass = surface.graph
        heat = self.diffusion(x, structure, weight.float(), node_mass=mass.float())
        parts = [x, heat]
        if self.gradients:
            a, b = (torch.sparse.mm(each, heat) for each in surface.tangent_gradient)
            real, imaginary = self.turn
            turned = a * (real(a) - imaginary(b)) + b * (real(b) + imaginary(a))
            parts.append(turned.tanh())
        out: Tensor = x + self.mlp(torch.cat(parts, 1))
        return out


class SurfaceNet(nn.Module):
    """Blocks between two linear maps: features [N, D] of vertices to scores of parts."""

    def __init__(self, features: int, parts: int, gradients: bool = True) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(features, CHANNELS), nn.Linear(CHANNELS, parts)
        self.blocks = nn.ModuleList(SurfaceBlock(CHANNELS, gradients) for _ in range(BLOCKS))

    def forward(self, x: Tensor, surface: Surface) -> Tensor:
        """Map [N, D] to [N, parts]."""
        x = self.first(x)
        for block in self.blocks:
            x = block(x, surface)
        out: Tensor = self.last(x)
        return out


def train(meshes: list[Labelled], gradients: bool, epochs: int, seed: int) -> float:
    """The share of vertices right on the last fifth of the meshes, after training on the others."""
    torch.manual_seed(seed)
    cut = len(meshes) * 4 // 5
    parts = 1 + max(int(each.part.max()) for each in meshes)
    model = SurfaceNet(len(TIMES), parts, gradients)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, max(epochs * cut, 1))
    for _ in range(epochs):
        for each in torch.randperm(cut).tolist():
            known = meshes[each]
            score = model(known.x, known.surface)
            optimizer.zero_grad()
            nn.functional.cross_entropy(score, known.part, ignore_index=-1).backward()
            optimizer.step()
            schedule.step()
    right = []
    with torch.no_grad():
        for test in meshes[cut:]:
            guess, known = model(test.x, test.surface).argmax(1), test.part >= 0
            right.append(float((guess == test.part)[known].float().mean()))
    return float(np.mean(right))


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, help="of .off and .vts files")
    parser.add_argument("--vertices", type=int, default=800, help="of what a formula draws")
    parser.add_argument("--meshes", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args(argv)
    if args.folder is None:
        rng = np.random.default_rng(0)
        drawn = [body(args.vertices, rng) for _ in range(args.meshes)]
        meshes = [Labelled.of(*each, seed) for seed, each in enumerate(drawn)]
    else:
        meshes = read_folder(args.folder, args.meshes)
    rows = []
    for way in ("with gradients", "without gradients"):
        for seed in range(args.seeds):
            started = time.perf_counter()
            right = train(meshes, way == "with gradients", args.epochs, seed)
            seconds = time.perf_counter() - started
            rows.append({"way": way, "seed": seed, "share right": right, "seconds": seconds})
    table = pd.DataFrame(rows)
    print(table.round(3).to_string(index=False))
    return table


if __name__ == "__main__":
    main()
