"""Place the points on the map, at each diffusion time.

A point stays about where it was from one time to the next, so that what moves is seen to move.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.linalg import orthogonal_procrustes
from torch import Tensor

from .._extras import import_optional
from .._precision import unit_rows
from ..diffusion import heat_diffusion
from ..neighbors import knn_search
from ..training.training_graph import TrainingGraph
from .findings import Findings

LAYOUTS = ("auto", "umap", "pca")
FEW = 1000  # points up to which "auto" takes t-SNE: UMAP at first compiles for longer than it draws
DIMENSIONS = 50  # that features are reduced to, before they diffuse
NEIGHBOURS = 15
FEWEST = 2 * NEIGHBOURS  # points for "umap": fewer have hardly neighbourhoods
MANY = 20_000  # points, whose neighbours are searched approximately: in a fifth of the time
FIRST = 150  # epochs of the first UMAP layout of these; by its own 200, 0 to 4 % more are kept
EPOCHS = 50  # of those that begin with another one; 100 keep hardly more neighbours
STEPS = 300  # of t-SNE, the fewest that it takes
RATE = 0.25  # at which these learn: at 1, points move 1.3 to 2.5 times as far between two times
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
    graph: TrainingGraph,
    found: Findings,
    times: Sequence[float],
    layout: str,
    seed: int,
    progress: bool = True,
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
        bar = f"drawing {i + 1} of {len(stages)}" if progress else None
        new = place(z, placed[-1] if placed else by_axes[-1], seed, not placed, bar)
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
    """Project T stages [N, D] on the principal axes of one, to zero if there are fewer: [T, N, C].

    C is `components`.
    """
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
    """Lay the rows out by UMAP, from where they start; the search for neighbours is ours."""
    umap = import_umap()
    flat = np.ptp(start, axis=0) == 0  # UMAP divides by the extent along each axis
    noise = np.random.default_rng(seed).standard_normal(start.shape, np.float32)
    start = np.where(flat, noise, start)
    index = "auto" if len(z) <= MANY else "ivf"
    neighbor, distance = knn_search(z, NEIGHBOURS - 1, "l2", index, seed=seed, progress=False)
    itself = torch.arange(len(z))[:, None]
    known = (
        torch.cat([itself, neighbor], dim=1).numpy(),
        torch.cat([distance.new_zeros(len(z), 1), distance], dim=1).numpy(),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it cannot transform other points
        return umap.UMAP(
            n_neighbors=NEIGHBOURS,
            init=start,
            random_state=seed,
            n_jobs=1,
            precomputed_knn=known,
            n_epochs=EPOCHS if not is_first else FIRST if len(z) > MANY else None,
            learning_rate=1.0 if is_first else RATE,
            tqdm_kwds={"desc": bar, "leave": False, "disable": None if bar else True},
            force_approximation_algorithm=True,  # or it would search once more
        ).fit_transform(z.numpy())


def _onto(target: np.ndarray, placed: np.ndarray) -> np.ndarray:
    """Turn and mirror a layout as near to another one as it gets, about zero and of size one."""
    placed = placed - placed.mean(0)
    turn, _ = orthogonal_procrustes(placed, target - target.mean(0))
    return (placed @ turn / max(placed.std(), np.finfo(np.float32).tiny)).astype(np.float32)


def import_umap() -> Any:
    """Import UMAP, or raise an ImportError that says how to get it; keep what it compiles."""
    umap = import_optional("umap", "layout='umap' (unlike layout='pca')")
    from numba.core.dispatcher import Dispatcher

    from ..kernels.compiled import keep_compiled

    for part in (umap.umap_, umap.layouts):
        for each in vars(part).values():
            if isinstance(each, Dispatcher) and each.stats.cache_path is None:
                keep_compiled(each)
    return umap
