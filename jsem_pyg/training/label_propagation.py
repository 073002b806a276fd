r"""Label propagation along edges whose conductance is learned from labels that are held out.

1. Half of the labels of each class are sources. They diffuse over the graph, and determine the edge
   features by a classifier that learns from no other label.
2. The cross-entropy of the other half, which was held out, trains the time, the sharpness of the
   result and the conductance, by gradients through the exact diffusion.
3. This is repeated for several draws of the half. In the end all labels are sources.
"""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.data import Data

from .._checks import (
    check_choice,
    check_instance,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from .._precision import without_autocast
from ..diffusion import heat_diffusion
from ..kernels.torch_func import outside_inference
from ..nn.node_conductance import conduct_edges, sees_nodes
from .edge_features import EdgeFeatures, EdgeGate
from .seeds import Purpose, derive_generator, seeded_rng
from .time_selection import best_time
from .training_graph import TrainingGraph, check_known_classes, keep_known, prepare_graph

LEARNING_RATE = 0.05
_LEAST_HEAT = 1e-6  # added everywhere, as a share of a class's heat: the same for every class


class PropagatedLabels(NamedTuple):
    """Class probabilities of all nodes, and the conductance along which they were found."""

    probabilities: Tensor  #: [N, C]; one or zero where a label is known
    conductance: Tensor  #: [E] in [0, 1], in the order of `edge_index`
    t: float  #: diffusion time of the labels


class _Fold(NamedTuple):
    """A draw of the labels: sources, and those that are held out."""

    heat: Tensor  # [N, C] of the sources at time zero; that of a class sums to one
    edge_attr: Tensor | None  # [E, 3] edge features that follow from the sources
    held_out: Tensor  # [N] bool


@outside_inference()
@without_autocast
def propagate_labels(
    data: Data,
    labels: Tensor,
    *,
    conductance: str | Module = "features",
    t: float | None = None,
    lr: float = LEARNING_RATE,
    steps: int = 60,
    folds: int = 6,
    device: torch.device | str | None = None,
    seed: int = 0,
) -> PropagatedLabels:
    r"""Spread a few labels by heat, along edges whose conductance is learned from the labels.

    .. math::
        \mathbf{P} = \mathrm{softmax} \left( \beta \log \left(
        e^{-t \mathbf{L}_{\theta}} \mathbf{S} + 10^{-6} \right) \right)

    where a column of :math:`\mathbf{S}` shares one unit of heat among the labelled nodes of a
    class. Learned are :math:`t`, :math:`\beta` and the conductance :math:`\theta`, each from the
    labels that are not among the sources. An edge has three features: the agreement of its two
    neighbourhoods (the logarithm of :class:`~jsem_pyg.nn.AgreementConductance` of diffused
    probabilities, plus one), its augmented Forman-Ricci curvature, and the cosine of its ends, the
    last two standardised. The conductance rises with each: slopes stay above zero. The curvature
    depends on the unit of the weights, and so do the results with these features.

    Other methods can use the same edges: multiply their weights by `conductance`, as in
    ``data.edge_weight * propagate_labels(data, labels).conductance``, before self-training.

    This is not a trainer of :func:`~jsem_pyg.training.fit`, which trains a model that you pass and
    can then call on other graphs: here nothing is left to call, and the labels are an argument.

    Args:
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed, and labels in it are not used.
        labels: [N] known classes in [0, C), -1 where unknown; some class has two at least.
        conductance: "features" for the three features above; "open" for edges that all conduct
            alike, while time and :math:`\beta` are learned; or a module that maps the features
            `(edge_attr)`, [E, 3], or `(edge_attr, x_i, x_j)`, with diffused features [E, D] of both
            ends, to [E] in [0, 1], of which the mean of both directions counts; it is trained in
            place.
        t: The diffusion time to start from, > 0; if omitted,
            :func:`~jsem_pyg.training.select_time` chooses it.
        lr: Learning rate of the conductance.
        steps: Steps of Adam, each with the next draw.
        folds: Number of draws.
        device: Where to train; where `data.x` lies if omitted.
        seed: Of the draws, and of the triplets that choose the time to start from.

    Returns:
        A record with `probabilities` [N, C], one or zero where a label is known, `conductance` [E]
        in [0, 1], in the order of `edge_index`, and the diffusion time `t`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `data` cannot be trained with, if labels are below -1, or if there are fewer
            than two classes, one that has no label, or none that has two.

    Sources: Zhu and Ghahramani, "Learning from labeled and unlabeled data with label propagation",
    2002; Zhang and Lee, "Hyperparameter learning for graph based semi-supervised learning
    algorithms", 2006, for labels that are left out to learn the weights of edges.

    Example:
        >>> x = torch.tensor([[1.0, 0.1], [1.0, 0.0], [0.9, 0.0]])
        >>> x = torch.cat([x, x.flip(1)])
        >>> path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
        >>> graph = Data(x=x, edge_index=torch.cat([path, path.flip(0)], dim=1))
        >>> result = propagate_labels(graph, torch.tensor([0, -1, 0, 1, -1, 1]))
        >>> result.probabilities.argmax(-1).tolist()
        [0, 0, 0, 1, 1, 1]
        >>> int(result.conductance[:5].argmin())  # the edge between both classes
        2
    """
    if t is not None:
        check_positive("t", t)
    check_positive("lr", lr)
    check_positive_int("steps", steps)
    check_positive_int("folds", folds)
    check_nonnegative_int("seed", seed)
    if isinstance(conductance, str):
        check_choice("conductance", conductance, ("features", "open"))
        form: Module | None = EdgeGate() if conductance == "features" else None
    else:
        check_instance("conductance", conductance, Module, "'features', 'open' or a module")
        form = conductance
    graph = _in_single_precision(prepare_graph(data, device))
    if check_known_classes(labels, graph.x.size(0)) < 2:
        raise ValueError("Expected 'labels' to name at least two classes (got 1).")
    labels = labels.to(graph.x.device, torch.int64)
    if int(torch.bincount(labels[labels >= 0]).max()) < 2:
        raise ValueError(
            "Expected 'labels' to name two nodes of a class, one of which can be held out (got one "
            "of each). To fix this, train a DiffusionClassifier by fit, which needs one."
        )
    features = EdgeFeatures(graph, best_time(graph, seed=seed).t if t is None else float(t))
    model = _Propagation(features, form).to(graph.x)
    generator = derive_generator(seed, Purpose.FOLDS)
    halves = (_draw_half(labels, generator) for _ in range(folds))
    drawn = [_make_fold(features, labels, half, form is not None) for half in halves]
    with torch.enable_grad(), seeded_rng(graph.x.device, seed, Purpose.MODEL):
        _learn(model, labels, itertools.islice(itertools.cycle(drawn), steps), lr)
    model.eval()
    with torch.no_grad():
        h, logits = model(_make_fold(features, labels, labels >= 0, form is not None))
    probabilities = keep_known(logits.softmax(-1), labels)
    return PropagatedLabels(probabilities, h, float(model.log_t.detach().exp()))


def _in_single_precision(graph: TrainingGraph) -> TrainingGraph:
    """In single precision at least: half is too coarse to learn in."""
    dtype, weight = torch.promote_types(graph.x.dtype, torch.float32), graph.edge_weight
    if weight is not None:  # which may have a range that this type has not
        weight = weight.to(torch.promote_types(weight.dtype, dtype))
    return replace(graph, x=graph.x.to(dtype), edge_weight=weight)


class _Propagation(Module):
    """Heat of the sources, along edges of learned conductance."""

    def __init__(self, features: EdgeFeatures, conduct: Module | None) -> None:
        super().__init__()
        self.features, self.conduct = features, conduct
        self.log_t = Parameter(torch.tensor(features.t, dtype=torch.float64).log())
        self.log_sharpness = Parameter(torch.zeros(()))

    def forward(self, fold: _Fold) -> tuple[Tensor, Tensor]:
        """Return the conductance of edges [E], and logits of the classes [N, C]."""
        graph, structure = self.features.graph, self.features.graph.structure
        if self.conduct is None:
            h = graph.x.new_ones(graph.edge_index.size(1))
        else:
            nodes = (self.features.z, structure) if sees_nodes(self.conduct) else ()
            h = conduct_edges(self.conduct, fold.edge_attr, *nodes)
            # The mean of both directions, as in layers.
            h = structure.to_edges(structure.symmetric(structure.to_slots(h)))
        weight = h if graph.edge_weight is None else graph.edge_weight * h
        heat = heat_diffusion(fold.heat, structure, weight, self.log_t.exp())
        return h, (heat.clamp(min=0) + _LEAST_HEAT).log() * self.log_sharpness.exp()


def _learn(model: _Propagation, labels: Tensor, folds: Iterable[_Fold], lr: float) -> None:
    """Adam, a step for each fold; time and sharpness have a rate of their own."""
    groups: list[dict[str, Any]] = [{"params": [model.log_t, model.log_sharpness]}]
    if model.conduct is not None:
        groups.append({"params": list(model.conduct.parameters()), "lr": lr})
    optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE)
    for fold in folds:
        optimizer.zero_grad()
        _, logits = model(fold)
        F.cross_entropy(logits[fold.held_out], labels[fold.held_out]).backward()
        optimizer.step()


def _draw_half(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Half of the labelled nodes of each class, rounded down, or the only one: [N] bool."""
    chosen = torch.zeros_like(labels, dtype=torch.bool)
    for label in range(int(labels.max()) + 1):
        members = (labels == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator).to(members.device)
        chosen[members[order[: max(1, len(members) // 2)]]] = True
    return chosen


def _make_fold(
    features: EdgeFeatures, labels: Tensor, is_source: Tensor, needs_features: bool
) -> _Fold:
    """The heat and the edge features that follow from the sources alone."""
    heat = F.one_hot(labels.clamp(min=0)).to(features.z) * is_source[:, None]
    edge_attr = features(labels.where(is_source, -1)) if needs_features else None
    return _Fold(heat / heat.sum(0), edge_attr, (labels >= 0) & ~is_source)
