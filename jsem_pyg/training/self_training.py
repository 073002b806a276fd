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
from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_labels, check_nonnegative_int, check_positive, check_positive_int
from ..nn import DiffusionClassifier
from .choose_num_classes import choose_num_classes
from .class_guesses import ClassGuess, diffuse_guess, guess_from_clusters, guess_from_labels
from .data_checks import check_classes_are_named, check_times
from .history import BestEpoch, EpochRow, FitResult
from .seeds import Purpose, seeded_rng
from .teaching import choose_teachers, cross_entropies, keep_known, teach
from .training_graph import TrainingGraph, prepare_graph

_log = logging.getLogger(__name__)

TIMES = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0)
ROUNDS = 4


def self_train(
    model: DiffusionClassifier,
    data: Data,
    *,
    rounds: int = ROUNDS,
    times: Sequence[float] | None = TIMES,
    labels: Tensor | None = None,
    device: torch.device | str | None = None,
    seed: int = 0,
) -> FitResult:
    """Train a classifier on its own diffused probabilities, without labels or with a few.

    This is what :func:`~jsem_pyg.training.fit` does with a `DiffusionClassifier`. Features are
    centred and rows brought to length one, so that their scale does not matter. The centre and the
    class means of this graph stay with the model, for others that it meets.

    Args:
        model: The model to train, in place. If it has no number of classes yet, it gets one: that
            of the labels, or what :func:`~jsem_pyg.training.choose_num_classes` says.
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed, and labels in it are not looked at.
        rounds: How often the classifier is taught.
        times: Diffusion times to choose from, for features; None for the model's own. Probabilities
            diffuse for the one that is chosen, or half of it.
        labels: [N] known classes in [0, C), -1 where unknown; none if omitted.
        device: Where to train; the model stays there. Where `data.x` lies if omitted.
        seed: Of k-means, or of the triplets that choose the time. k-means of more than 100,000
            nodes starts on 20,000 that are drawn, and settles on all.

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
            f"Expected 'model' to be a DiffusionClassifier (got {type(model).__name__}). To fix "
            "this error, train it by fit_triplets."
        )
    if times is None:
        times = [model.t.item()]
    check_times(times, check_positive)
    graph = prepare_graph(data, device)
    _check_inputs(model, graph.x, labels)
    num_classes = model.num_classes or _count_classes(graph, labels, seed)
    _check_num_classes(num_classes, graph.x, labels)
    with seeded_rng(graph.x.device, seed, Purpose.MODEL):
        model.set_num_classes(num_classes)
    model.to(graph.x.device).eval()
    model.reset_means()
    if labels is None:
        start = guess_from_clusters(num_classes, graph, times, seed)
    else:
        labels = labels.to(graph.x.device, torch.int64)
        start = guess_from_labels(model, graph, times, labels, seed)
    _log.info("self-training from t = %g", start.t)
    history, best = _teach_in_rounds(model, graph, start, rounds, labels)
    _keep_means(model, graph)
    return FitResult(model, history, best.epoch, stopped_early=False)


def _teach_in_rounds(
    model: DiffusionClassifier,
    graph: TrainingGraph,
    start: ClassGuess,
    rounds: int,
    labels: Tensor | None,
) -> tuple[list[EpochRow], BestEpoch]:
    """Let what has diffused teach, and diffuse what was learned, over and over."""
    p, history, best = start.p, [], BestEpoch()
    for epoch in range(1, rounds + 1):
        began = time.perf_counter()
        teaches, target = choose_teachers(p, labels)
        teach(model, graph.x, teaches, target)
        with torch.no_grad():
            q = model.classify(graph.x)
            loss, val_loss = cross_entropies(q, teaches, target)
            t, p = diffuse_guess(model, graph, keep_known(q, labels), start.t)
        best.update(epoch, val_loss, model, keep_weights=False)
        history.append(EpochRow(epoch, loss, val_loss, t, time.perf_counter() - began))
    return history, best


@torch.no_grad()
def _keep_means(model: DiffusionClassifier, graph: TrainingGraph) -> None:
    """Let the trained model take in the centre and the class means of its graph, by one call."""
    model.train()
    model(graph.x, graph.structure, graph.edge_weight)
    model.eval()


def _count_classes(graph: TrainingGraph, labels: Tensor | None, seed: int) -> int:
    """As many as the labels name, or as there are clusters."""
    if labels is None:
        return choose_num_classes(graph, seed=seed).num_classes
    return max(0, int(labels.max()) + 1) if labels.numel() else 0


def _check_inputs(model: DiffusionClassifier, x: Tensor, labels: Tensor | None) -> None:
    if x.size(1) != model.in_channels:
        raise ValueError(
            f"Expected 'data.x' to have the {model.in_channels} channels of 'model' (got "
            f"{x.size(1)})."
        )
    if labels is not None:
        check_labels("labels", labels, x.size(0))


def _check_num_classes(num_classes: int, x: Tensor, labels: Tensor | None) -> None:
    if x.size(0) < num_classes:
        raise ValueError(
            f"Expected 'data' to have at least as many nodes as 'model' has classes (got "
            f"{x.size(0)} nodes and {num_classes} classes)."
        )
    if labels is not None:
        check_classes_are_named("labels", labels, num_classes)
