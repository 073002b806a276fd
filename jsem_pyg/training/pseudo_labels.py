"""Pseudo-labels: class probabilities of all nodes, from clusters or labels, refined by diffusion.

They are chosen by modularity: of several diffusion times, the one whose classes have the highest
modularity on the graph. The confident nodes of every class train the next linear classifier.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .._groups import group_places
from .._precision import unit_rows
from ..diffusion import heat_diffusion
from ..evaluation import modularity
from ..nn import DiffusionClassifier
from ..nn.diffusion_classifier import center_and_normalize
from .clusters import k_means
from .time_selection import select_time
from .training_graph import TrainingGraph

CONFIDENT_SHARE = 0.5  # of the nodes of every class
LOGIT_SCALE = 10.0  # features have rows of length one: this conditions the classifier's problem
WEIGHT_DECAY = 1e-3
MOST_STEPS = 50  # of L-BFGS


class PseudoLabels(NamedTuple):
    """Class probabilities of the nodes, and the diffusion time that they come from."""

    t: float
    p: Tensor  # [N, C]


def cluster_features(
    features: Tensor, num_classes: int, graph: TrainingGraph, times: Sequence[float], seed: int
) -> PseudoLabels:
    """Clusters of the diffused features, for the time of the highest modularity."""
    found = (
        PseudoLabels(t, _soft_clusters(z, num_classes, seed))
        for t, z in diffused_rows(features, graph, times)
    )
    return _of_highest_modularity(graph, found)


def learn_labels(
    model: DiffusionClassifier,
    features: Tensor,
    graph: TrainingGraph,
    times: Sequence[float],
    labels: Tensor,
    seed: int,
) -> PseudoLabels:
    """Train the classifier on labels [N] (-1: unknown) and diffused features, and diffuse it."""
    t = select_time(graph, times, seed=seed).t
    [(_, z)] = diffused_rows(features, graph, [t])
    fit_classifier(model, center_and_normalize(z), labels >= 0, labels)
    with torch.no_grad():
        return diffuse_probabilities(model, graph, keep_known(model.classify(z), labels), t)


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


@torch.no_grad()
def diffused_rows(
    z: Tensor, graph: TrainingGraph, times: Sequence[float]
) -> Iterator[tuple[float, Tensor]]:
    """Each time from the shortest on, with the diffused rows; heat for s + t is heat for s, then t.

    Rows have length one.
    """
    before = 0.0
    for t in sorted(times):
        z = heat_diffusion(z, graph.structure, graph.edge_weight, t - before)
        before = t
        yield t, unit_rows(z)


def confident_nodes(p: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """The nodes of the highest probability in every class, and their classes.

    Args:
        p: [N, C] probabilities.
        labels: [N] known classes, -1 where unknown, or None; these nodes are always confident.

    Returns:
        Whether a node is confident [N], and its class [N].
    """
    certainty, target = p.max(-1)
    place = group_places(certainty, target, p.size(-1), descending=True)
    size = torch.bincount(target, minlength=p.size(-1))
    confident = place < (CONFIDENT_SHARE * size).ceil()[target]
    if labels is not None:
        known = labels >= 0
        confident, target = confident | known, torch.where(known, labels, target)
    return confident, target


def fit_classifier(
    model: DiffusionClassifier, features: Tensor, confident: Tensor, target: Tensor
) -> None:
    """Solve for `model.lin` by multinomial logistic regression on some nodes.

    Args:
        model: The classifier.
        features: [N, D] of the nodes, centred, with rows of length one.
        confident: [N] bool, the nodes to learn from.
        target: [N] their classes.
    """
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


def keep_known(q: Tensor, labels: Tensor | None) -> Tensor:
    """Probabilities [N, C], one or zero where a label [N] is known (not -1)."""
    if labels is None:
        return q
    certain = F.one_hot(labels.clamp(min=0), q.size(-1)).to(q)
    return torch.where((labels >= 0)[:, None], certain, q)


def cross_entropies(q: Tensor, confident: Tensor, target: Tensor) -> tuple[float, float]:
    """Mean cross-entropy of probabilities [N, C] on the confident nodes, and on the others."""
    surprise = -q.clamp(min=torch.finfo(q.dtype).tiny).log().gather(-1, target[:, None]).squeeze(-1)
    others = surprise[~confident] if bool((~confident).any()) else surprise
    return float(surprise[confident].mean()), float(others.mean())


def _of_highest_modularity(graph: TrainingGraph, found: Iterable[PseudoLabels]) -> PseudoLabels:
    """The one whose classes have the highest modularity on the graph, the first of equals."""
    return max(
        found, key=lambda each: modularity(graph.edge_index, graph.edge_weight, each.p.argmax(-1))
    )


def _soft_clusters(z: Tensor, num_classes: int, seed: int) -> Tensor:
    """k-means as probabilities [N, C]: the nearer a centre, the more probable."""
    kmeans = k_means(z, num_classes, seed)
    distance = torch.from_numpy(kmeans.transform(z.cpu().numpy())).to(z).square()
    width = distance.min(-1).values.mean().clamp(min=torch.finfo(z.dtype).tiny)
    return (-4 * distance / width).softmax(-1)
