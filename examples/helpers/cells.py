"""Simulated cells, seen by two assays without shared features.

They lie on a branching path, or in types; both assays see smooth functions of the place, as counts
of different depth with dropout, one of them by zeros and ones, in different dimensions. All rows
are divided by their norm, as in published runs.
"""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

NOISE = 0.06  # of a place, in units of branches about one long


class Pair(NamedTuple):
    """One set of cells, measured twice; row i of both is the same cell."""

    name: str
    source: Tensor  # [N, r] rows of norm one
    target: Tensor  # [N, s]
    cell_type: Tensor  # [N]
    assays: tuple[str, str]


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
