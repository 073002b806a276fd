"""The diffusion time, chosen without labels, and a classifier of features that diffused for it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_nonnegative, check_nonnegative_int, check_positive, check_times
from .._precision import OFFSET
from ..diffusion import heat_diffusion
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph, check_known_classes, prepare_graph
from .triplets import GraphTriplets, TripletLoss

TIMES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
NUM_TRIPLETS = 20_000  # that times are compared on
_C = 100.0  # rows of length one: less shrinkage than scikit-learn's default


class SelectedTime(NamedTuple):
    """The best of several diffusion times."""

    t: float  #: the time with the lowest loss
    losses: dict[float, float]  #: the loss of every time


def select_time(
    data: Data, times: Sequence[float] = TIMES, *, normalization: str | None = "sym", seed: int = 0
) -> SelectedTime:
    """Choose the time of isotropic diffusion by the unsupervised triplet loss.

    Too short a diffusion leaves neighbours apart, too long a one brings everything together: the
    loss of 20,000 triplets (anchor, neighbour, stranger) has its minimum in between. No label is
    used. All times share one series of sparse products.

    Args:
        data: A graph with `x` [N, D], `edge_index` [2, E] and, if it has weights, `edge_weight`.
        times: The diffusion times to choose from, >= 0.
        normalization: See :func:`~jsem_pyg.diffusion.heat_diffusion`.
        seed: Of the triplets.

    Example:
        >>> ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
        >>> data = Data(x=torch.eye(6), edge_index=torch.cat([ring, ring.flip(0)], dim=1))
        >>> select_time(data, times=[0.1, 1.0]).t
        1.0
    """
    check_times(times, check_nonnegative)
    check_nonnegative_int("seed", seed)
    return choose_time(prepare_graph(data), times, normalization, seed)


def choose_time(
    graph: TrainingGraph, times: Sequence[float], normalization: str | None, seed: int
) -> SelectedTime:
    """Choose the time of a graph that was read; see `select_time`."""
    loss, structure = TripletLoss(), graph.structure
    sampler = GraphTriplets(graph.edge_index, graph.edge_weight, structure.num_nodes)
    triplets = sampler.sample(NUM_TRIPLETS, derive_generator(seed, Purpose.VALIDATION))
    triplets = triplets.to(graph.x.device)
    with torch.no_grad():
        scales = heat_diffusion(
            graph.x,
            structure,
            graph.edge_weight,
            torch.tensor(times, dtype=torch.float64),
            normalization=normalization,
        )
        losses = {float(t): loss(z, triplets).item() for t, z in zip(times, scales, strict=True)}
    return SelectedTime(min(losses, key=losses.__getitem__), losses)


class HeatClassified(NamedTuple):
    """Class probabilities of all nodes, and the diffusion time of their features."""

    probabilities: Tensor  #: [N, C]
    t: float  #: diffusion time of the features


def classify_by_heat(
    data: Data, labels: Tensor, *, t: float | None = None, seed: int = 0
) -> HeatClassified:
    r"""Diffuse the features once, and fit a logistic regression to a few labels.

    .. math::
        \mathbf{P} = \mathrm{softmax} \left( \mathbf{Z} \mathbf{W} + \mathbf{b} \right), \qquad
        \mathbf{Z} = e^{-t \mathbf{L}} \mathbf{X} \text{ with rows of length one}

    X has the centred features and a constant column of 1.5 times the root mean square of their
    lengths, so that rows still differ in length. Every edge conducts fully: the baseline of
    :func:`propagate_labels` and of self-training, which learn which edges conduct.

    Args:
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed, and labels in it are not used.
        labels: [N] known classes in [0, C), -1 where unknown; each of two classes or more has one.
        t: The diffusion time, > 0; if omitted, :func:`~jsem_pyg.training.select_time` chooses it
            for X.
        seed: Of the triplets that choose the time.

    Sources: Wu et al., "Simplifying graph convolutional networks", 2019, for a linear classifier of
    features that were diffused once; here by heat.

    Example:
        >>> x = torch.tensor([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0], [0.1, 1.0]])
        >>> graph = Data(x=x, edge_index=torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
        >>> result = classify_by_heat(graph, torch.tensor([0, -1, 1, -1]), t=1.0)
        >>> result.probabilities.argmax(-1).tolist()
        [0, 0, 1, 1]
    """
    if t is not None:
        check_positive("t", t)
    check_nonnegative_int("seed", seed)
    graph = prepare_graph(data)
    check_known_classes(labels, len(graph.x), least=2)
    t, z = diffused_features(graph, TIMES if t is None else [float(t)], seed)
    return HeatClassified(logistic_regression(z, labels.to(z.device)), t)


def diffused_features(
    graph: TrainingGraph, times: Sequence[float], seed: int
) -> tuple[float, Tensor]:
    """Diffuse centred features beside a constant for the best of the times: t, and rows [N, D + 1].

    The constant is 1.5 times the root mean square of the lengths; the rows end with length one.
    """
    x = graph.x - graph.x.mean(0)
    length = torch.linalg.vector_norm(x, dim=1)
    constant = (OFFSET * length.square().mean().sqrt()).expand(len(x), 1)
    graph = replace(graph, x=torch.cat([x, constant], dim=1))
    t = choose_time(graph, times, "sym", seed).t if len(times) > 1 else times[0]
    [found] = graph.diffused_rows(graph.x, [t])
    return found


def logistic_regression(z: Tensor, labels: Tensor) -> Tensor:
    """Predict class probabilities [N, C] of rows z [N, D], from labels [N], -1 where unknown."""
    from sklearn.linear_model import LogisticRegression

    z = z.to(torch.promote_types(z.dtype, torch.float32))  # half is too coarse to learn in
    rows, known = z.cpu().numpy(), labels.cpu().numpy()
    model = LogisticRegression(C=_C, max_iter=1000)
    model.fit(rows[known >= 0], known[known >= 0])
    return torch.from_numpy(model.predict_proba(rows)).to(z)
