"""Guesses of the classes, of which the graph chooses: the one of the highest modularity."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..diffusion import heat_diffusion
from ..evaluation import modularity
from ..nn import DiffusionClassifier
from ..nn.diffusion_classifier import center_and_normalize
from .k_means import k_means
from .teaching import keep_known, teach
from .time_selection import select_time
from .training_graph import TrainingGraph


class ClassGuess(NamedTuple):
    """Which classes the nodes may have, and the diffusion time that it came from."""

    t: float
    p: Tensor  # [N, C] probabilities


def guess_from_clusters(
    num_classes: int, graph: TrainingGraph, times: Sequence[float], seed: int
) -> ClassGuess:
    """Clusters of the diffused features."""
    diffused = diffused_features(graph, times)
    return _fittest(graph, (ClassGuess(t, _cluster(z, num_classes, seed)) for t, z in diffused))


def guess_from_labels(
    model: DiffusionClassifier,
    graph: TrainingGraph,
    times: Sequence[float],
    labels: Tensor,
    seed: int,
) -> ClassGuess:
    """What a classifier says that learns the labels [N], -1 if unknown, from diffused features."""
    t = select_time(graph, times, seed=seed).t
    [(_, z)] = diffused_features(graph, [t])
    teach(model, z, labels >= 0, labels)
    with torch.no_grad():
        return diffuse_guess(model, graph, keep_known(model.classify(z), labels), t)


def diffuse_guess(
    model: DiffusionClassifier, graph: TrainingGraph, q: Tensor, t: float
) -> ClassGuess:
    """Diffuse probabilities for t or half of it: they are smoother than features, and go twice.

    The model keeps the time that is chosen.
    """

    def diffused(t: float) -> ClassGuess:
        model.isotropic.time.set(t)
        return ClassGuess(t, model.diffuse(q, graph.structure, graph.edge_weight))

    fittest = _fittest(graph, map(diffused, (t, t / 2)))
    model.isotropic.time.set(fittest.t)
    return fittest


def _fittest(graph: TrainingGraph, guesses: Iterable[ClassGuess]) -> ClassGuess:
    """The one whose classes have the highest modularity on the graph, the first of equals."""

    def fitness(guess: ClassGuess) -> float:
        return modularity(graph.edge_index, graph.edge_weight, guess.p.argmax(-1))

    return max(guesses, key=fitness)


@torch.no_grad()
def diffused_features(
    graph: TrainingGraph, times: Sequence[float]
) -> Iterator[tuple[float, Tensor]]:
    """The features after each time, centred first."""
    yield from diffused_rows(center_and_normalize(graph.x, graph.x.mean(0)), graph, times)


@torch.no_grad()
def diffused_rows(
    z: Tensor, graph: TrainingGraph, times: Sequence[float]
) -> Iterator[tuple[float, Tensor]]:
    """Rows after each time, from the shortest on: heat for s + t is heat for s, then t."""
    before = 0.0
    for t in sorted(times):
        z = heat_diffusion(z, graph.structure, graph.edge_weight, t - before)
        before = t
        yield t, F.normalize(z)


def _cluster(z: Tensor, num_classes: int, seed: int) -> Tensor:
    """k-means as probabilities [N, C]: the nearer a centre, the more probable."""
    kmeans = k_means(z, num_classes, seed)
    distance = torch.from_numpy(kmeans.transform(z.cpu().numpy())).to(z).square()
    width = distance.min(-1).values.mean().clamp(min=torch.finfo(z.dtype).tiny)
    return (-4 * distance / width).softmax(-1)
