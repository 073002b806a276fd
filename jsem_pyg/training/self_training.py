r"""Trains a classifier on its own diffused probabilities (self-training).

The classifier reads features *before* any diffusion, and learns from the confident nodes. The graph
carries its probabilities on, except along edges whose two neighbourhoods disagree.

1. Cluster the diffused features by k-means, for the time whose clusters have the highest
   modularity on the graph; or take those of the smoothest modes, where these lie apart.
2. Fit the linear classifier to the more confident half of every cluster.
3. Diffuse its probabilities for that time or half of it; repeat from 2 with these pseudo-labels.

With a few labels, step 1 spreads these (:mod:`jsem_pyg.training.label_spread`), and the time is
that of the lowest triplet loss. Labelled nodes count as confident, and keep their labels.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .._checks import check_positive, check_times
from .._groups import group_places
from .._precision import unit_rows
from ..evaluation.modularity import cut_and_modularity
from ..kernels.torch_func import without_autocast
from ..nn import DiffusionClassifier
from .choose_num_classes import choose_levels
from .clusters import SpectralClusters, k_means
from .distinctness import add_rivals
from .history import EpochRow, FitResult
from .label_spread import Chosen, average_ways, ways_to_spread
from .seeds import Purpose, seeded_rng
from .training_graph import TrainingGraph, check_known_classes, keep_known

_log = logging.getLogger(__name__)

TIMES = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0)
ROUNDS = 4
CONFIDENT_SHARE = 0.5  # of the nodes of every class
LOGIT_SCALE = 18.0  # features have rows of length one: this conditions the classifier's problem
WEIGHT_DECAY = 1e-3
LEAST_SHARE = 1e-3  # of a class
MOST_STEPS = 50  # of L-BFGS
_DIGITS = 10  # of a modularity; further digits are rounding


class PseudoLabels(NamedTuple):
    """Class probabilities of the nodes, and the diffusion time that they come from."""

    t: float
    p: Tensor  # [N, C]


@without_autocast
def self_train(
    model: DiffusionClassifier,
    graph: TrainingGraph,
    rounds: int = ROUNDS,
    times: Sequence[float] = TIMES,
    labels: Tensor | None = None,
    seed: int = 0,
    start: Chosen | None = None,
    try_modes: bool = False,
) -> FitResult:
    """Train a classifier on its own diffused probabilities, from known labels if any; see `fit`.

    Labels spread in the way `start`, or in the one that held-out labels prefer. Without labels,
    `try_modes` begins with the clusters of the smoothest modes where the graph prefers these.
    """
    check_times(times, check_positive)
    structure = graph.structure  # first, so that a graph that is refused leaves the model as it is
    num_classes = _read_num_classes(model, graph, labels, seed)
    if labels is not None:
        labels = labels.to(graph.x.device, torch.int64)
    with seeded_rng(model.lin.weight.device, seed, Purpose.MODEL):
        model.set_num_classes(num_classes)
    model.to(graph.x.device).eval()
    model.reset_means()
    features = model.features(graph.x)
    if labels is None:
        directions = unit_rows(features[:, :-1])  # the constant is for classifiers only
        t, p = _cluster(directions, num_classes, graph, times, seed)
        found = None
        if try_modes:
            modes = add_rivals(SpectralClusters(graph, num_classes, seed), graph, seed)
            found = modes.instead_of(p.argmax(-1), num_classes)
        if found is not None:
            p = F.one_hot(found, num_classes).to(p)
            model.class_share.copy_(p.mean(0).clamp(min=LEAST_SHARE))
    else:
        t, ways = ways_to_spread(graph, times, seed)
        start = average_ways(ways, labels, seed) if start is None else start
        p = keep_known(start.probabilities(labels).to(graph.x), labels)
        # Half of the way: a few labels tell shares with noise, and equal ones are likely.
        model.class_share.copy_(p.mean(0).clamp(min=LEAST_SHARE).sqrt())
    _log.info("self-training from t = %g", t)
    history: list[EpochRow] = []
    for epoch in range(1, rounds + 1):
        began = time.perf_counter()
        confident, target = confident_nodes(p, labels)
        fit_classifier(model, features, confident, target)
        with torch.no_grad():
            q = model.lin(features).softmax(-1)
            loss, val_loss = cross_entropies(q, confident, target)
            chosen, p = diffuse_probabilities(model, graph, keep_known(q, labels), t)
        history.append(EpochRow(epoch, loss, val_loss, chosen, time.perf_counter() - began))
    with torch.no_grad():  # one call in training, which keeps the centre and the class means
        model.train()(graph.x, structure, graph.edge_weight)
    return FitResult(model.eval(), history)


def _read_num_classes(
    model: DiffusionClassifier, graph: TrainingGraph, labels: Tensor | None, seed: int
) -> int:
    """Return the model's number of classes, else count the labels' classes, else the clusters."""
    num_channels = graph.x.size(1)
    if num_channels != model.in_channels:
        raise ValueError(
            f"Expected 'data.x' to have the {model.in_channels} channels of 'model' (got "
            f"{num_channels})."
        )
    if labels is not None:
        return check_known_classes(labels, len(graph.x), model.num_classes)
    if model.num_classes is not None:
        return model.num_classes
    return choose_levels(graph, seed=seed)[0].num_classes


def _cluster(
    features: Tensor, num_classes: int, graph: TrainingGraph, times: Sequence[float], seed: int
) -> PseudoLabels:
    """Cluster the diffused features by k-means, for the time of highest modularity."""

    def soft_clusters(t: float, z: Tensor) -> PseudoLabels:
        kmeans = k_means(z, num_classes, seed).set_output(transform="default")
        distance = torch.from_numpy(kmeans.transform(z.cpu().numpy())).to(z).square()
        width = distance.min(-1).values.mean().clamp(min=torch.finfo(z.dtype).tiny)
        return PseudoLabels(t, (-4 * distance / width).softmax(-1))

    found = (soft_clusters(t, z) for t, z in graph.diffused_rows(features, times))
    return _of_highest_modularity(graph, found)


def confident_nodes(p: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return True [N] if a node is confident, and its class [N], by probabilities p [N, C].

    Confident are the nodes of the highest probability in every class, and those of known labels.
    """
    certainty, target = p.max(-1)
    place = group_places(certainty, target, p.size(-1), descending=True)
    size = torch.bincount(target, minlength=p.size(-1))
    confident = place < (CONFIDENT_SHARE * size.float()).ceil()[target]
    if labels is not None:
        known = labels >= 0
        confident, target = confident | known, torch.where(known, labels, target)
    return confident, target


def fit_classifier(
    model: DiffusionClassifier, features: Tensor, confident: Tensor, target: Tensor
) -> None:
    """Solve for `model.lin` by multinomial logistic regression on the confident nodes."""
    features = features[confident] * LOGIT_SCALE
    target = target[confident]
    num_classes = model.lin.out_channels
    weight = features.new_zeros(num_classes, features.size(-1), requires_grad=True)
    bias = features.new_zeros(num_classes, requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=MOST_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        logits = F.linear(features, weight, bias)
        loss = F.cross_entropy(logits, target) + WEIGHT_DECAY * weight.square().sum()
        loss.backward()
        return loss

    solver.step(closure)
    with torch.no_grad():
        model.lin.weight.copy_(LOGIT_SCALE * weight)
        model.lin.bias.copy_(bias)


def diffuse_probabilities(
    model: DiffusionClassifier, graph: TrainingGraph, q: Tensor, t: float
) -> PseudoLabels:
    """Diffuse probabilities [N, C] for t or t / 2; the model keeps the time that is chosen.

    Half of the time of features is often enough: probabilities are smoother, and diffuse twice.
    """

    def diffused(t: float) -> PseudoLabels:
        model.isotropic.time.set(t)
        return PseudoLabels(t, model.diffuse(q, graph.structure, graph.edge_weight))

    best = _of_highest_modularity(graph, map(diffused, (t, t / 2)))
    model.isotropic.time.set(best.t)
    return best


def cross_entropies(q: Tensor, confident: Tensor, target: Tensor) -> tuple[float, float]:
    """Return the mean cross-entropy on the confident nodes, and on the others."""
    surprise = -q.clamp(min=torch.finfo(q.dtype).tiny).log().gather(-1, target[:, None]).squeeze(-1)
    others = surprise[~confident] if bool((~confident).any()) else surprise
    return float(surprise[confident].mean()), float(others.mean())


def _of_highest_modularity(graph: TrainingGraph, found: Iterable[PseudoLabels]) -> PseudoLabels:
    """Choose the pseudo-labels of the highest modularity on the graph, the first of equals.

    Often several times make the same clusters: modularities that differ by rounding are equal.
    """

    def modularity(pseudo: PseudoLabels) -> float:
        labels = pseudo.p.argmax(-1)
        return round(cut_and_modularity(graph.edge_index, graph.edge_weight, labels)[1], _DIGITS)

    return max(found, key=modularity)
