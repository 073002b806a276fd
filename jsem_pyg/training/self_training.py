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

from .._checks import check_labels, check_positive
from ..nn import DiffusionClassifier
from ..nn.diffusion_classifier import center_and_normalize
from .choose_num_classes import choose_num_classes
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
from .training_graph import TrainingGraph, check_known_classes, check_times

_log = logging.getLogger(__name__)

TIMES = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0)
ROUNDS = 4


def self_train(
    model: DiffusionClassifier,
    graph: TrainingGraph,
    *,
    rounds: int = ROUNDS,
    times: Sequence[float] | None = TIMES,
    labels: Tensor | None = None,
    seed: int = 0,
) -> FitResult:
    """Train a classifier on its own diffused probabilities; see `fit`."""
    if times is None:
        times = [model.t.item()]
    check_times(times, check_positive)
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
    return num_classes or choose_num_classes(graph, seed=seed).num_classes
