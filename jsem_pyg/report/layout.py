"""Place the points on the map, at each diffusion time.

A point stays about where it was from one time to the next, so that what moves is seen to move.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.linalg import orthogonal_procrustes
from scipy.sparse import csr_array
from torch import Tensor

from .._precision import unit_rows
from .._progress import progress_bar
from ..diffusion import heat_diffusion
from ..kernels.threads import run_on_rows
from ..neighbors import knn_search
from ..training.training_graph import TrainingGraph
from .findings import Findings

LAYOUTS = ("auto", "umap", "pca")
FEW = 1000  # points up to which "auto" takes t-SNE, which keeps 2 to 6 % more neighbours of these
DIMENSIONS = 50  # that features are reduced to, before they diffuse
NEIGHBOURS = 15
FEWEST = 2 * NEIGHBOURS  # points for "umap": fewer have hardly neighbourhoods
MANY = 20_000  # points, whose neighbours are searched approximately: in a fifth of the time
FIRST, FIRST_OF_MANY = 1000, 300  # epochs of the first UMAP layout
EPOCHS = 100  # of those that begin with another one
STEPS = 300  # of t-SNE, the fewest that it takes
RATE = 0.12  # at which UMAP goes on from another one: at .25, fewer neighbours are kept
MUCH = 1 << 15  # edges that several threads share
BISECTIONS, NARROWEST = 40, 1e-3  # of a point's width, and that over its mean distance, as in UMAP
SHARES = (0.0, 1 / 8, 1 / 4, 1 / 2, 1.0)  # of the chosen time, the default


def choose_times(t: float, num_points: int) -> list[float]:
    """Choose the times that are drawn, ascending: three for many points, as each takes long."""
    return sorted({share * t for share in SHARES[:: 1 if num_points <= MANY else 2]})


def choose_layout(layout: str, num_points: int) -> str:
    """Choose the layout that is drawn: "umap", "tsne" or "pca"."""
    if num_points < FEWEST:
        return "pca"
    return layout if layout != "auto" else "tsne" if num_points <= FEW else "umap"


def place_points(
    graph: TrainingGraph, found: Findings, times: Sequence[float], layout: str, seed: int, bar: bool
) -> np.ndarray:
    """Place the points at each time, ascending: [T, N, 2] in float32."""
    signal = reduce_features(graph.x, seed)
    weight = found.conductances.double()  # products of small numbers are not zero
    if graph.edge_weight is not None:
        weight = weight * graph.edge_weight.double()
    t = torch.tensor(times, dtype=torch.float64)
    heat = heat_diffusion(signal, graph.structure, weight, t, normalization=found.normalization)
    stages = [unit_rows(z) for z in heat]
    by_axes = _project(stages, stages[-1], 2, seed)
    if layout == "pca":
        return by_axes
    place = _tsne if layout == "tsne" else _umap
    placed: list[np.ndarray] = []  # the last time first: an earlier one begins with the next
    for i, z in enumerate(reversed(stages)):
        name = f"drawing {i + 1} of {len(stages)}" if bar else None
        new = place(z, placed[-1] if placed else by_axes[-1], seed, not placed, name)
        placed.append(_onto(placed[-1] if placed else new, new))
    return np.stack(placed[::-1])


def reduce_features(x: Tensor, seed: int) -> Tensor:
    """Reduce directions from the centre [N, D] to principal components [N, at most 50]."""
    x = x.double()
    x = x - x[0]  # copies of one point are zero then, not rounding
    signal = unit_rows(x - x.mean(0)).float()
    if min(signal.shape) <= DIMENSIONS:
        return signal
    return torch.from_numpy(_project([signal], signal, DIMENSIONS, seed)[0])


def _project(stages: Sequence[Tensor], of: Tensor, components: int, seed: int) -> np.ndarray:
    """Project T stages [N, D] on principal axes of one: [T, N, components], zeros beyond these."""
    from sklearn.decomposition import PCA

    places = np.zeros((len(stages), len(of), components), np.float32)
    if bool((of != of[0]).any()):  # else there is nothing to find axes in
        pca = PCA(min(components, *of.shape), random_state=seed).fit(of.numpy())
        for place, z in zip(places, stages, strict=True):
            place[:, : pca.n_components_] = pca.transform(z.numpy())
    return places


def _tsne(z: Tensor, start: np.ndarray, seed: int, is_first: bool, bar: str | None) -> np.ndarray:
    """Lay the rows out by t-SNE, which shows no bar; a layout after the first moves little."""
    from sklearn.manifold import TSNE

    small = 1e-4 if is_first else 10.0  # the deviation that t-SNE starts and ends with, about
    start = small * start / max(start[:, 0].std(), np.finfo(np.float32).tiny)
    placed: np.ndarray = TSNE(
        perplexity=min(NEIGHBOURS, len(z) / 4),
        init=start.astype(np.float32),
        early_exaggeration=12.0 if is_first else 1.0,
        max_iter=2 * STEPS if is_first else STEPS,
        random_state=seed,
        n_jobs=1,
    ).fit_transform(z.numpy())
    return placed


def _umap(z: Tensor, start: np.ndarray, seed: int, is_first: bool, bar: str | None) -> np.ndarray:
    """Lay the rows out by UMAP, from where they start; alike on any number of threads."""
    from ..kernels.map_forces import move_points

    random = np.random.default_rng(seed)
    noise = random.standard_normal(start.shape, np.float32)
    start = np.where(np.ptp(start, axis=0) > 0, start, noise)  # along an axis without extent
    place = (10 * (start - start.min(0)) / np.ptp(start, axis=0)).astype(np.float32, order="C")
    moved = np.empty_like(place)
    index = "auto" if len(z) <= MANY else "ivf"
    edges = join_neighbours(*knn_search(z, NEIGHBOURS - 1, "l2", index, seed=seed, progress=False))
    parts = edges.indptr, edges.indices, edges.data.astype(np.float32)
    epochs = EPOCHS if not is_first else FIRST if len(z) <= MANY else FIRST_OF_MANY
    with progress_bar(bar or "", epochs, bar is not None) as advance:
        for epoch, key in enumerate(random.integers(2**63, size=epochs)):
            rate: Any = np.float32((1 if is_first else RATE) * (1 - epoch / epochs))
            run_on_rows(move_points, *parts, place, moved, key, epoch, rate, threads_from=MUCH)
            place, moved = moved, place
            advance(1)
    return place


def join_neighbours(neighbor: Tensor, distance: Tensor) -> csr_array:
    """Weigh the edges to neighbours [N, k] by distances [N, k] as UMAP does: 0 to 1, symmetric.

    The nearest neighbour of a point counts fully, all of them together log2(k + 1).
    """
    distance, tiny = distance.double(), torch.finfo(torch.float64).tiny
    nearest = distance.masked_fill(distance == 0, math.inf).amin(1, keepdim=True)
    excess, whole = (distance - nearest).clamp(min=0), math.log2(distance.size(1) + 1)
    low, high = torch.zeros_like(nearest), excess.amax(1, keepdim=True)
    for _ in range(BISECTIONS):
        width = ((low + high) / 2).clamp(min=tiny)
        is_wide = (-excess / width).exp().sum(1, keepdim=True) > whole
        low, high = torch.where(is_wide, low, width), torch.where(is_wide, width, high)
    weight = (-excess / torch.maximum(width, NARROWEST * distance.mean(1, keepdim=True))).exp()
    rows = np.arange(0, weight.numel() + 1, weight.size(1))
    parts, size = (weight.flatten().numpy(), neighbor.flatten().numpy(), rows), len(weight)
    joined = csr_array(parts, shape=(size, size))  # the last point may be nobody's neighbour
    reverse = joined.T.tocsr()
    return joined + reverse - joined * reverse


def _onto(target: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """Turn and mirror a layout as near to another one as it gets, about zero and of size one."""
    placed = placed - placed.mean(0)
    turn, _ = orthogonal_procrustes(placed, target - target.mean(0))
    return (placed @ turn / max(placed.std(), np.finfo(np.float32).tiny)).astype(np.float32)
