r"""Self-training: a classifier learns from its own diffused probabilities.

Classifier and graph correct each other. The classifier reads the features of a node *before* any
diffusion, and learns from the confident nodes. The graph carries its probabilities to the other
nodes, except along edges whose two neighbourhoods disagree.

1. Cluster the diffused features by k-means, for several diffusion times; keep the time whose
   clusters have the highest modularity on the graph.
2. Fit the linear classifier to the more confident half of every cluster.
3. Diffuse its probabilities (:class:`~jsem_pyg.nn.DiffusionClassifier`) for that time or half of
   it, again by modularity; take them as pseudo-labels, and repeat from 2.

With a few labels, step 1 is a first classifier that learns these from the diffused features, for
the time of the lowest triplet loss. Labelled nodes always count as confident, and keep their
labels.
"""

import logging
import time
from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_labels, check_nonnegative_int, check_positive, check_positive_int
from ..nn import DiffusionClassifier
from ..nn.diffusion_classifier import center_and_normalize
from .choose_num_classes import count_clusters
from .history import BestEpoch, EpochRow, FitResult
from .pseudo_labels import (
    PseudoLabels,
    cluster_features,
    confident_nodes,
    cross_entropies,
    diffuse_probabilities,
    fit_classifier,
    keep_known,
    learn_labels,
)
from .seeds import Purpose, seeded_rng
from .training_graph import TrainingGraph, check_known_classes, check_times, prepare_graph

_log = logging.getLogger(__name__)

TIMES = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0)
ROUNDS = 4


def self_train(
    model: DiffusionClassifier,
    data: Data | TrainingGraph,
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
    class means of this graph stay with the model, for use on other graphs.

    Args:
        model: The model to train, in place. If it has no number of classes yet, it gets that of the
            labels, or else the result of :func:`~jsem_pyg.training.choose_num_classes`.
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed, and labels in it are not used.
        rounds: How often the classifier is fitted.
        times: Diffusion times to choose from, for features; None for the model's own. Probabilities
            diffuse for the chosen time, or half of it.
        labels: [N] known classes in [0, C), -1 where unknown; none if omitted.
        device: Where to train; the model stays there. Where `data.x` lies if omitted.
        seed: Of k-means, or of the triplets that choose the time. k-means of more than 100,000
            nodes starts on 20,000 that are drawn at random.

    Returns:
        The model in evaluation mode, with a row for each round: the classifier's cross-entropy on
        the confident nodes ("loss"), and on the others against their pseudo-labels ("val_loss").
        The model is that of the last round, whichever `best_epoch` is.

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
    num_classes = _read_num_classes(model, graph, labels, seed)
    with seeded_rng(graph.x.device, seed, Purpose.MODEL):
        model.set_num_classes(num_classes)
    model.to(graph.x.device).eval()
    model.reset_means()
    features = center_and_normalize(graph.x)
    if labels is None:
        start = cluster_features(features, num_classes, graph, times, seed)
    else:
        labels = labels.to(graph.x.device, torch.int64)
        start = learn_labels(model, features, graph, times, labels, seed)
    _log.info("self-training from t = %g", start.t)
    history, best = _run_rounds(model, features, graph, start, rounds, labels)
    _keep_means(model, graph)
    return FitResult(model, history, best.epoch, stopped_early=False)


def _run_rounds(
    model: DiffusionClassifier,
    features: Tensor,
    graph: TrainingGraph,
    start: PseudoLabels,
    rounds: int,
    labels: Tensor | None,
) -> tuple[list[EpochRow], BestEpoch]:
    """Fit the classifier to confident nodes, diffuse its probabilities, and repeat."""
    p, history, best = start.p, [], BestEpoch()
    for epoch in range(1, rounds + 1):
        began = time.perf_counter()
        confident, target = confident_nodes(p, labels)
        fit_classifier(model, features, confident, target)
        with torch.no_grad():
            q = model.classify(graph.x)
            loss, val_loss = cross_entropies(q, confident, target)
            t, p = diffuse_probabilities(model, graph, keep_known(q, labels), start.t)
        best.update(epoch, val_loss, model, keep_weights=False)
        history.append(EpochRow(epoch, loss, val_loss, t, time.perf_counter() - began))
    return history, best


@torch.no_grad()
def _keep_means(model: DiffusionClassifier, graph: TrainingGraph) -> None:
    """Store the centre and the class means of the graph in the model, by one call in training."""
    model.train()
    model(graph.x, graph.structure, graph.edge_weight)
    model.eval()


def _read_num_classes(
    model: DiffusionClassifier, graph: TrainingGraph, labels: Tensor | None, seed: int
) -> int:
    """The model's number of classes, that of the labels, or that of the clusters."""
    num_nodes, num_channels = graph.x.shape
    if num_channels != model.in_channels:
        raise ValueError(
            f"Expected 'data.x' to have the {model.in_channels} channels of 'model' (got "
            f"{num_channels})."
        )
    if labels is not None:
        check_labels("labels", labels, num_nodes)
    num_classes = model.num_classes
    if num_classes is not None and num_nodes < num_classes:
        raise ValueError(
            f"Expected 'data' to have at least as many nodes as 'model' has classes (got "
            f"{num_nodes} nodes and {num_classes} classes)."
        )
    if labels is not None:
        return check_known_classes(labels, num_nodes, num_classes)
    return num_classes or count_clusters(graph, seed=seed).num_classes
