r"""Self-training: clusters teach a classifier, whose probabilities diffuse and teach it anew.

Two views keep each other honest. The classifier sees the features of a node *before* any diffusion,
and learns from the nodes that are most certain of their class; the graph carries what it then says
to the others, and stops where the neighbourhoods of an edge's two ends disagree.

1. Cluster the diffused features by k-means, for several diffusion times; keep the time whose
   partition has the highest modularity on the graph.
2. Fit the linear classifier to the more certain half of every cluster.
3. Diffuse its probabilities (:class:`~jsem_pyg.nn.DiffusionClassifier`) for that time or half of
   it, again by modularity; take them for the new clusters, and go back to 2.

With a few labels, a first classifier learns these from the diffused features, for the time that
the triplet loss likes best, and what it says takes the place of the clusters; labelled nodes always
teach, and their probabilities stay what the labels say.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from .._checks import (
    check_choice,
    check_labels,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from ..diffusion import heat_diffusion
from ..nn import DiffusionClassifier
from ..nn.diffusion_classifier import standardize
from .history import BestEpoch, EpochRow, FitResult
from .modularity import modularity
from .task import check_data, check_has_labels
from .time_selection import select_time
from .triplets import check_known

_log = logging.getLogger(__name__)

TIMES = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0)
ROUNDS = 4
CERTAIN = 0.5  # the share of every cluster that teaches
LOGIT_SCALE = 10.0  # features have rows of length one: this conditions the classifier's problem
WEIGHT_DECAY = 1e-3
KMEANS_STARTS = 3


class Guess(NamedTuple):
    """Which classes the nodes may have, and the diffusion time that it came from."""

    t: float
    p: Tensor  # [N, C] probabilities


def self_train(
    model: DiffusionClassifier,
    data: Data,
    *,
    rounds: int = ROUNDS,
    times: Sequence[float] | None = TIMES,
    labels: Tensor | None = None,
    seed: int = 0,
) -> FitResult:
    """Train a classifier on its own diffused probabilities, without labels or with a few.

    This is what :func:`~jsem_pyg.training.fit` does with a `DiffusionClassifier`. Features are
    centred and rows brought to length one, so that their scale does not matter.

    Args:
        model: The model to train, in place, on the device of `data`.
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. Labels in it are not looked at.
        rounds: How often the classifier is taught.
        times: Diffusion times to choose from, for features; None for the model's own. Probabilities
            diffuse for the one that is chosen, or half of it.
        labels: [N] known classes in [0, C), -1 where unknown; none if omitted.
        seed: Of k-means, or of the triplets that choose the time.

    Returns:
        The model in evaluation mode, with a row for each round: the classifier's cross-entropy on
        the nodes that taught it ("loss"), and on the others, whose classes the graph tells
        ("val_loss"). The model is that of the last round, whichever `best_epoch` is.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `data` cannot be trained with, has fewer nodes than the model has classes,
            or if a class has no known label while others have.

    Sources: Lee, "Pseudo-Label", 2013, for self-training; Zhou et al., "Learning with local and
    global consistency", 2004, for labels that diffuse; Newman and Girvan, 2004, for modularity.

    Example:
        >>> x = torch.tensor([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
        >>> graph = Data(x=x, edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
        >>> p = self_train(DiffusionClassifier(2, 2), graph).model(graph.x, graph.edge_index)
        >>> (p.argmax(-1) == p.argmax(-1)[0]).tolist()
        [True, True, False, False]
    """
    check_positive_int("rounds", rounds)
    check_nonnegative_int("seed", seed)
    if not isinstance(model, DiffusionClassifier):
        raise TypeError(
            f"Expected 'model' to be a DiffusionClassifier (got {type(model).__name__})."
        )
    check_data(data)
    _check_sizes(model, data, labels)
    times = [model.t.item()] if times is None else _check_times(times)
    model.to(data.x.device).eval()
    if labels is None:
        start = _from_clusters(model, data, times, seed)
    else:
        labels = labels.to(data.x.device)
        start = _from_labels(model, data, times, labels, seed)
    _log.info("self-training from t = %g", start.t)
    p, history, best = start.p, [], BestEpoch()
    for epoch in range(1, rounds + 1):
        began = time.perf_counter()
        teaches, target = _choose_teachers(p, labels)
        _teach(model, data.x, teaches, target)
        with torch.no_grad():
            q = model.classify(data.x)
            loss, val_loss = _losses(q, teaches, target)
            t, p = _spread(model, data, _keep_known(q, labels), start.t)
        best.update(epoch, val_loss, model, keep_weights=False)
        history.append(EpochRow(epoch, loss, val_loss, t, time.perf_counter() - began))
    return FitResult(model, history, best.epoch, stopped_early=False)


def known_labels(data: Data, sampler: object) -> Tensor | None:
    """Read `fit`'s argument `sampler`: the labels that may be used, -1 elsewhere, or None.

    Raises:
        TypeError: If labels or mask have the wrong type.
        ValueError: If it is neither "graph" nor "labels", if there are no labels, or a mask of
            another shape.
    """
    if not isinstance(sampler, str):
        raise ValueError(
            "Expected 'sampler' to be 'graph' or 'labels' for self-training, which draws no "
            f"triplets (got {sampler!r})."
        )
    check_choice("sampler", sampler, ("graph", "labels"))
    if sampler == "graph":
        return None
    check_has_labels(data)
    mask = data.get("train_mask")
    check_known(data.y, mask)
    return data.y if mask is None else torch.where(mask, data.y, -1)


def _from_clusters(
    model: DiffusionClassifier, data: Data, times: Sequence[float], seed: int
) -> Guess:
    """Clusters of the diffused features."""
    guesses = (Guess(t, _cluster(z, model.num_classes, seed)) for t, z in _diffused(data, times))
    return _fittest(data, guesses)


def _from_labels(
    model: DiffusionClassifier, data: Data, times: Sequence[float], labels: Tensor, seed: int
) -> Guess:
    """What a classifier says that learns the labels from diffused features."""
    t = select_time(data, times, seed=seed).t
    [(_, z)] = _diffused(data, [t])
    _teach(model, z, labels >= 0, labels)
    with torch.no_grad():
        return _spread(model, data, _keep_known(model.classify(z), labels), t)


def _spread(model: DiffusionClassifier, data: Data, q: Tensor, t: float) -> Guess:
    """Diffuse probabilities for t or half of it: they are smoother than features, and go twice."""

    def guess(t: float) -> Guess:
        model.isotropic.time.set(t)
        return Guess(t, model.spread(q, data.edge_index, data.get("edge_weight")))

    fittest = _fittest(data, map(guess, (t, t / 2)))
    model.isotropic.time.set(fittest.t)
    return fittest


def _fittest(data: Data, guesses: Iterable[Guess]) -> Guess:
    """The one whose classes have the highest modularity on the graph, the first of equals."""
    weight = data.get("edge_weight")
    return max(guesses, key=lambda guess: modularity(data.edge_index, weight, guess.p.argmax(-1)))


def _keep_known(q: Tensor, labels: Tensor | None) -> Tensor:
    """Probabilities [N, C], with certainty where a label is known."""
    if labels is None:
        return q
    certain = F.one_hot(labels.clamp(min=0), q.size(-1)).to(q)
    return torch.where((labels >= 0)[:, None], certain, q)


@torch.no_grad()
def _diffused(data: Data, times: Sequence[float]) -> Iterator[tuple[float, Tensor]]:
    """The features after each time, from the shortest on: heat for s + t is heat for s, then t."""
    z, before = standardize(data.x), 0.0
    for t in sorted(times):
        z = heat_diffusion(z, data.edge_index, data.get("edge_weight"), t - before)
        before = t
        yield t, F.normalize(z)


def _cluster(z: Tensor, num_classes: int, seed: int) -> Tensor:
    """k-means as probabilities [N, C]: the nearer a centre, the more probable."""
    from sklearn.cluster import KMeans

    kmeans = KMeans(num_classes, n_init=KMEANS_STARTS, random_state=seed).fit(z.cpu().numpy())
    distance = torch.from_numpy(kmeans.transform(z.cpu().numpy())).to(z).square()
    width = distance.min(-1).values.mean().clamp(min=torch.finfo(z.dtype).tiny)
    return (-4 * distance / width).softmax(-1)


def _choose_teachers(p: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """The more certain part of every class, and what they teach: masks and classes [N]."""
    certainty, target = p.max(-1)
    # Ranks within the class, most certain first.
    order = certainty.argsort(descending=True, stable=True)
    order = order[target[order].argsort(stable=True)]
    size = torch.bincount(target, minlength=p.size(-1))
    first = size.cumsum(0) - size
    rank = torch.empty_like(target)
    rank[order] = torch.arange(len(p), device=p.device) - first[target[order]]
    teaches = rank < (CERTAIN * size).ceil()[target]
    if labels is not None:
        known = labels >= 0
        teaches, target = teaches | known, torch.where(known, labels, target)
    return teaches, target


def _teach(model: DiffusionClassifier, x: Tensor, teaches: Tensor, target: Tensor) -> None:
    """Multinomial logistic regression by at most 50 steps of L-BFGS: a new `model.lin`."""
    features = standardize(x)[teaches] * LOGIT_SCALE
    weight = features.new_zeros(model.num_classes, x.size(-1), requires_grad=True)
    bias = features.new_zeros(model.num_classes, requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=50, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        logits = F.linear(features, weight, bias)
        loss = F.cross_entropy(logits, target[teaches]) + WEIGHT_DECAY * weight.square().sum()
        loss.backward()
        return loss

    solver.step(closure)
    with torch.no_grad():
        model.lin.weight.copy_(LOGIT_SCALE * weight)
        model.lin.bias.copy_(bias)


def _losses(q: Tensor, teaches: Tensor, target: Tensor) -> tuple[float, float]:
    """Cross-entropy of probabilities on the nodes that teach, and on the others."""
    surprise = -q.clamp(min=torch.finfo(q.dtype).tiny).log().gather(-1, target[:, None]).squeeze(-1)
    others = surprise[~teaches] if bool((~teaches).any()) else surprise
    return float(surprise[teaches].mean()), float(others.mean())


def _check_times(times: Sequence[float]) -> Sequence[float]:
    if len(times) == 0:
        raise ValueError("Expected 'times' to hold at least one diffusion time (got none).")
    for t in times:
        check_positive("times", t)
    return times


def _check_sizes(model: DiffusionClassifier, data: Data, labels: Tensor | None) -> None:
    if data.x.size(0) < model.num_classes:
        raise ValueError(
            f"Expected 'data' to have at least as many nodes as 'model' has classes (got "
            f"{data.x.size(0)} nodes and {model.num_classes} classes)."
        )
    if data.x.size(1) != model.in_channels:
        raise ValueError(
            f"Expected 'data.x' to have the {model.in_channels} channels of 'model' (got "
            f"{data.x.size(1)})."
        )
    if labels is None:
        return
    check_labels("labels", labels, data.x.size(0))
    known = labels[labels >= 0].unique()
    if not torch.equal(known.cpu(), torch.arange(model.num_classes)):
        raise ValueError(
            f"Expected 'labels' to name a node of each class 0 to {model.num_classes - 1} (got "
            f"{known.tolist()})."
        )
