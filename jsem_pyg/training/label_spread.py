"""Ways to spread a few labels over a graph, and the choice among them by labels held out in turn.

Random walks that restart at the labels follow the edges, the longer the less often they restart.
Their visits are interpolated (harmonic functions), or compared as cosines. Heat and logistic
regression follows the features. Every class has the same mass, whatever the number of its labels.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .._groups import group_places
from ..diffusion import heat_diffusion
from ..diffusion.filters import PersonalizedPageRank
from ..graph import GraphStructure
from .heat_classifier import diffused_features, logistic_regression
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph

RESTARTS = (0.003, 0.03)  # the first one where no label can be held out
NARROWER = 4  # power of the weights of neighbours: that of a Gaussian half as wide
PARTS = 4  # of the labels of a class, whose walks are told apart
FOLDS = 5
# Of classes with given sizes: rounds, steps to the sizes in each, times of heat, and sharpness.
ROUNDS, STEPS, TIMES, SHARP = 20, 20, 3, 8.0
LEAST = 1e-6  # of a probability, or of a class's visits, as a share of their mean
SHARPNESS = [2.0**power for power in range(-2, 8)]
UNCHANGED = torch.tensor(SHARPNESS).eq(1).float()  # shares of SHARPNESS

Way = Callable[[Tensor], Tensor]  # from labels [N], -1 where unknown, to scores [N, C]


class Chosen(NamedTuple):
    """The best of several ways, by the loss of labels that were held out."""

    way: Way
    shares: Tensor  # [10] how much each of SHARPNESS, by which scores are multiplied, counts
    losses: Tensor  # of each label that was held out, weighted so that classes count alike

    def probabilities(self, labels: Tensor) -> Tensor:
        """Return class probabilities [N, C] by labels [N], -1 where unknown."""
        return calibrated(self.way(labels), self.shares)

    def beats(self, losses: Tensor, errors: float = 1.0) -> bool:
        """Return True if others' losses of the same labels are higher by standard errors."""
        gain = losses - self.losses
        return len(gain) > 1 and bool(gain.mean() > errors * gain.std() / len(gain) ** 0.5)


def ways_to_spread(
    graph: TrainingGraph, times: Sequence[float], seed: int
) -> tuple[float, list[Way]]:
    """Return the time for which features diffuse, and ways along the edges and by the features."""
    t, z = diffused_features(graph, times, seed)
    structure = graph.structure
    # Of whole edges: a power magnifies what differs between directions, and is no sum of repeats.
    slots = structure.symmetric(structure.to_slots(graph.weight))
    mean = slots.mean().clamp(min=torch.finfo(torch.float64).tiny)
    powers = structure.share_among_edges((slots / mean).pow(NARROWER))
    walks = [partial(walk, structure, powers, restart, True) for restart in RESTARTS]
    return t, [*walks, lambda labels: logarithm(logistic_regression(z, labels))]


def walks_along(structure: GraphStructure, weight: Tensor) -> dict[Way, float]:
    """Return walks of two lengths, as harmonic functions or as cosines, and the mean time of each.

    A walk that restarts with probability a is heat over times t with density exp(-t / m) / m, of
    mean m = (1 - a) / a.
    """
    return {
        partial(walk, structure, weight, a, is_harmonic): (1 - a) / a
        for is_harmonic, a in itertools.product((True, False), RESTARTS)
    }


@torch.no_grad()
def walk(
    structure: GraphStructure, weight: Tensor, restart: float, is_harmonic: bool, labels: Tensor
) -> Tensor:
    """Compare nodes with the labels [N] of each class by walks from these: logarithms [N, C].

    A harmonic function is one at the labels of a class, zero at others, elsewhere the mean of the
    neighbours, less the restarts, by its mean over all nodes; of more than four labels a class,
    parts have that value in the mean. Otherwise: the cosine between a node and the mean of a class
    among the modes of the graph, by the visits from some labels of the class to others of it.

    Sources: Zhu et al., "Semi-supervised learning using Gaussian fields and harmonic functions",
    2003; Zhou et al., "Learning with local and global consistency", 2004.
    """
    weight = weight if weight.device.type == "mps" else weight.double()
    degree = structure.row_sums(structure.to_slots(weight))[:, None]
    root = torch.where(degree > 0, degree, 1).sqrt()
    count = int(labels.max()) + 1
    part = labels * PARTS + group_places(labels, labels.clamp(min=0), count) % PARTS
    start = F.one_hot(part.clamp(min=0), count * PARTS).to(weight) * (labels >= 0)[:, None]
    visits = PersonalizedPageRank(restart)(start / root, structure, weight, tol=1e-9)
    visits = visits.clamp(min=0) / root * root.square().sum()
    size = start.sum(0)
    if is_harmonic:
        used = size > 0
        mean = visits[:, used] / size[used]
        between = (start[:, used] / size[used]).T @ mean
        own = torch.eye(count).to(mean).repeat_interleave(PARTS, 0)[used]
        values = (mean @ torch.linalg.solve(between, own)).clamp(min=0)
        return logarithm(values / values.mean(0))
    visits, start, size = (each.view(-1, count, PARTS) for each in (visits, start, size))
    scores = logarithm(visits.sum(-1) / size.sum(-1))
    own = torch.einsum("nck,ncl->ckl", start, visits)
    between = own.sum((1, 2)) - torch.einsum("ckk->c", own)
    pairs = (size.sum(-1).square() - size.square().sum(-1))[0]
    spread = logarithm(between / pairs.clamp(min=1))
    known = pairs > 0  # of a class with one label, the mean of the others
    spread = torch.where(known, spread, spread[known].mean() if known.any() else spread)
    return scores - spread / 2


def logarithm(p: Tensor) -> Tensor:
    """Return the logarithm of scores >= 0, in float64 if there is such a type."""
    return (p if p.device.type == "mps" else p.double()).add(LEAST).log()


def choose_way(ways: Sequence[Way], labels: Tensor, seed: int) -> Chosen:
    """Choose the way of the lowest cross-entropy of labels [N] that are held out in turn.

    Classes count alike. One label of each class at least stays; without a class of two, the first
    way is taken. A sharpness counts by the likelihood of the labels that are held out, and by half
    of its exponent, since these share what they are predicted from: few labels do not say which.
    """
    fold = _draw_folds(labels, derive_generator(seed, Purpose.FOLDS))
    held_out = fold >= 0
    target = labels[held_out]
    if not len(target):
        return Chosen(ways[0], UNCHANGED, torch.zeros(0))
    share = 1 / torch.bincount(target).to(torch.float32)[target]
    share = share / share.mean()
    number = fold[held_out].unique(return_inverse=True)[1]
    found = []
    for way in ways:
        scores = torch.stack([way(labels.where(fold != k, -1)) for k in fold[held_out].unique()])
        scores = scores[:, held_out][number, torch.arange(len(target), device=target.device)]
        losses = torch.stack(
            [share * F.cross_entropy(each * scores, target, reduction="none") for each in SHARPNESS]
        )
        loss = losses.mean(1)
        shares = (-len(target) / 2 * loss).softmax(0)
        found.append(Chosen(way, shares, losses[loss.argmin()]))
    return min(found, key=lambda chosen: float(chosen.losses.mean()))


def average_ways(ways: Sequence[Way], labels: Tensor, seed: int) -> Chosen:
    """Average all ways, unless one predicts held-out labels better by two standard errors."""

    def average(known: Tensor) -> Tensor:
        return logarithm(torch.stack([way(known).softmax(-1) for way in ways]).mean(0))

    best, mean = choose_way(ways, labels, seed), choose_way([average], labels, seed)
    return mean if len(mean.losses) and not best.beats(mean.losses, 2) else best


def calibrated(scores: Tensor, shares: Tensor) -> Tensor:
    """Return probabilities [N, C] by scores [N, C]: the mean over SHARPNESS, by shares [10]."""
    found = torch.zeros_like(scores)
    for share, sharpness in zip(shares.tolist(), SHARPNESS, strict=True):
        found += share * (sharpness * scores).softmax(-1)
    return found


@torch.no_grad()
def fill_sizes(
    structure: GraphStructure, weight: Tensor, p: Tensor, labels: Tensor, sizes: Tensor, rows: slice
) -> Tensor:
    """Return class probabilities [N, C] whose means over rows are the sizes [C], of sum one.

    From probabilities p [N, C] on, in turn: those of each class are multiplied by the number that
    gives it its size; every node takes its likeliest class, or its label [N]; and these classes
    diffuse, from labels that stay; until none changes. Nodes that no label reaches do not count.

    Source: Calder et al., "Poisson learning", ICML 2020, for heat, thresholds and sizes in turn.
    """
    count = p.size(1)
    component = structure.component
    reached = torch.isin(component, component[labels >= 0])[rows]
    offset, classes, sharpness = torch.zeros_like(sizes), labels, 1.0
    known = (labels >= 0)[:, None]
    for _ in range(ROUNDS):
        scores = sharpness * logarithm(p)
        for _ in range(STEPS):
            found = (scores + offset)[rows][reached].softmax(-1).mean(0)
            offset = offset + (sizes / found).log()
        result = (scores + offset).softmax(-1)
        before, classes = classes, result.argmax(-1).where(labels < 0, labels)
        if torch.equal(before, classes):
            break
        sharpness, p = SHARP, F.one_hot(classes, count).to(weight)
        for _ in range(TIMES):
            heat = heat_diffusion(p, structure, weight, 1.0, normalization="rw")
            p = p.where(known, heat.clamp(min=0))
    return result


def read_sizes(class_sizes: Sequence[float] | None, num_classes: int) -> Tensor | None:
    """Check the sizes of all classes, and return shares [C]; None if none are given."""
    if class_sizes is None:
        return None
    sizes = torch.as_tensor(class_sizes, dtype=torch.float64)
    if sizes.shape != (num_classes,) or not bool((sizes.isfinite() & (sizes > 0)).all()):
        raise ValueError(
            f"Expected 'class_sizes' to hold a positive number for each of {num_classes} classes, "
            f"in their order (got {class_sizes})."
        )
    return sizes / sizes.sum()


def mean_cut(graph: TrainingGraph, classes: Tensor) -> float:
    """Return the share of weight that leaves a class [N], as a mean over classes."""
    source, target = classes[graph.edge_index]
    total = torch.bincount(source, graph.weight)
    cut = torch.bincount(source, graph.weight * (source != target))
    return float((cut / total.clamp(min=torch.finfo(total.dtype).tiny)).mean())


def shuffled_classes(labels: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the labelled nodes of each class in turn, in a random order."""
    for label in range(int(labels.max()) + 1):
        members = (labels == label).nonzero().flatten()
        yield members[torch.randperm(len(members), generator=generator).to(members.device)]


def _draw_folds(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Draw the fold [N] in which each label is held out; -1: never, as the only one of a class."""
    fold = torch.full_like(labels, -1)
    for members in shuffled_classes(labels, generator):
        if len(members) > 1:
            fold[members] = torch.arange(len(members), device=members.device) % FOLDS
    return fold
