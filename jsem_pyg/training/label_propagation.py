r"""Label propagation whose edges learn, from labels that are held out in turn, how well to conduct.

1. Half of the labels of each class are sources: they diffuse over the graph, and so does what a
   classifier of the diffused features, which knows no other label, says of all nodes.
2. The cross-entropy of the other half, which neither has seen, teaches the time, how sure the
   result is, and the conductance: by gradients through the exact diffusion.
3. So it goes on, for several draws of the half. In the end all labels are sources.
"""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.data import Data

from .._checks import (
    check_choice,
    check_labels,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from ..diffusion import heat_diffusion
from ..nn.conductance import ModuleConductance
from .data_checks import check_classes_are_named
from .edge_knowledge import EdgeGate, EdgeKnowledge
from .seeds import Purpose, derive_generator, seeded_rng
from .teaching import keep_known
from .time_selection import select_time
from .training_graph import TrainingGraph, prepare_graph

LEARNING_RATE = 0.05
# What has not arrived at a node, as a share of a class's heat: the same for every class.
_NOTHING = 1e-6


class PropagatedLabels(NamedTuple):
    """What labels say of all nodes, and the edges that they went along."""

    probabilities: Tensor  #: [N, C]; one or zero where a label is known
    conductance: Tensor  #: [E] in [0, 1], in the order of `edge_index`
    t: float  #: for how long labels diffused


class _Fold(NamedTuple):
    """Labels that are known, and labels that are asked for."""

    heat: Tensor  # [N, C] that sources start with; that of a class sums to one
    edge_attr: Tensor | None  # [E, 3] what edges know from the sources
    asked: Tensor  # [N] bool


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
    r"""Spread a few labels by heat along edges that learn from them which classes they join.

    .. math::
        \mathbf{P} = \mathrm{softmax} \left( \beta \log \left(
        e^{-t \mathbf{L}_{\theta}} \mathbf{S} + 10^{-6} \right) \right)

    where a column of :math:`\mathbf{S}` shares one unit of heat among the labelled nodes of a
    class. Learned are :math:`t`, :math:`\beta` and the conductance :math:`\theta`, each by the
    labels that are not among the sources. An edge knows three things: how far the two
    neighbourhoods agree (the logarithm of :class:`~jsem_pyg.nn.AgreementConductance` of diffused
    probabilities, plus one), its augmented Forman-Ricci curvature, and the cosine of its ends, both
    of the latter standardised. The more of each, the better it conducts: slopes stay above zero.

    Other methods can go along the same edges: multiply their weights by `conductance`, as in
    ``data.edge_weight * propagate_labels(data, labels).conductance``, before self-training.

    Args:
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed, and labels in it are not looked at.
        labels: [N] known classes in [0, C), -1 where unknown; some class has two at least.
        conductance: "features" for what is said above; "open" for edges that all conduct alike,
            while time and :math:`\beta` are learned; or a module that maps the three features
            `(edge_attr)`, [E, 3], or `(edge_attr, x_i, x_j)`, with diffused features [E, D] of both
            ends, to [E] in [0, 1], of which the mean of both directions counts; it is trained in
            place.
        t: The diffusion time to start from, > 0; if omitted, what
            :func:`~jsem_pyg.training.select_time` chooses.
        lr: Learning rate of the conductance.
        steps: Steps of Adam, each with the next fold.
        folds: How many halves are drawn.
        device: Where to train; where `data.x` lies if omitted.
        seed: Of the halves, and of the triplets that choose the time to start from.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `data` cannot be trained with, if there are fewer than two classes, one that
            has no label, or none that has two.

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
    conduct = _make_conductance(conductance)
    graph = _as_constants(prepare_graph(data, device))
    check_labels("labels", labels, graph.x.size(0))
    labels = labels.to(graph.x.device, torch.int64)
    _check_can_be_held_out(labels)
    knowledge = EdgeKnowledge(graph, select_time(graph, seed=seed).t if t is None else float(t))
    model = _Propagation(knowledge, conduct).to(graph.x)
    generator = derive_generator(seed, Purpose.FOLDS)
    halves = (_draw_half(labels, generator) for _ in range(folds))
    drawn = [_make_fold(knowledge, labels, half, conduct is not None) for half in halves]
    with torch.enable_grad(), seeded_rng(graph.x.device, seed, Purpose.MODEL):
        _learn(model, labels, itertools.islice(itertools.cycle(drawn), steps), lr)
    model.eval()
    with torch.no_grad():
        h, logits = model(_make_fold(knowledge, labels, labels >= 0, conduct is not None))
    probabilities = keep_known(logits.softmax(-1), labels)
    return PropagatedLabels(probabilities, h, float(model.log_t.detach().exp()))


def _as_constants(graph: TrainingGraph) -> TrainingGraph:
    """Without gradients, and in single precision at least: half is too coarse to learn in."""
    dtype = torch.promote_types(graph.x.dtype, torch.float32)
    weight = graph.edge_weight
    return graph._replace(
        x=graph.x.detach().to(dtype),
        edge_weight=None if weight is None else weight.detach().to(dtype),
    )


class _Propagation(Module):
    """Heat of the sources, along edges that conduct as they know."""

    def __init__(self, knowledge: EdgeKnowledge, conduct: ModuleConductance | None) -> None:
        super().__init__()
        self.knowledge, self.conduct = knowledge, conduct
        self.log_t = Parameter(torch.tensor(knowledge.t).log())
        self.log_sureness = Parameter(torch.zeros(()))

    def forward(self, fold: _Fold) -> tuple[Tensor, Tensor]:
        """The conductance of edges [E], and logits of the classes [N, C]."""
        graph = self.knowledge.graph
        h = self._conductances(fold.edge_attr)
        weight = h if graph.edge_weight is None else graph.edge_weight * h
        heat = heat_diffusion(fold.heat, graph.structure, weight, self.log_t.exp())
        return h, (heat.clamp(min=0) + _NOTHING).log() * self.log_sureness.exp()

    def _conductances(self, edge_attr: Tensor | None) -> Tensor:
        """Of a module, the mean of both directions, as in layers."""
        graph, structure = self.knowledge.graph, self.knowledge.graph.structure
        if self.conduct is None:
            return graph.x.new_ones(graph.edge_index.size(1))
        if self.conduct.sees_nodes:
            source, target = graph.edge_index.long()
            z = self.conduct.project(self.knowledge.z)
            h = self.conduct(edge_attr, z=z, ends=(target, source))
        else:
            h = self.conduct(edge_attr)
        return structure.to_edges(structure.symmetric(structure.to_slots(h)))


def _learn(model: _Propagation, labels: Tensor, folds: Iterable[_Fold], lr: float) -> None:
    """Adam, a step for each fold; time and sureness have a rate of their own."""
    groups: list[dict[str, Any]] = [{"params": [model.log_t, model.log_sureness]}]
    if model.conduct is not None:
        groups.append({"params": list(model.conduct.parameters()), "lr": lr})
    optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE)
    for fold in folds:
        optimizer.zero_grad()
        _, logits = model(fold)
        F.cross_entropy(logits[fold.asked], labels[fold.asked]).backward()
        optimizer.step()


def _draw_half(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Half of the labelled nodes of each class, rounded down, or the only one: [N] bool."""
    chosen = torch.zeros_like(labels, dtype=torch.bool)
    for label in range(int(labels.max()) + 1):
        members = (labels == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator).to(members.device)
        chosen[members[order[: max(1, len(members) // 2)]]] = True
    return chosen


def _make_fold(knowledge: EdgeKnowledge, labels: Tensor, is_source: Tensor, looks: bool) -> _Fold:
    """What is known if only the sources are; edges that are open look at nothing."""
    told = labels.where(is_source, -1)
    heat = F.one_hot(labels.clamp(min=0)).to(knowledge.z) * is_source[:, None]
    columns = knowledge(told) if looks else None
    return _Fold(heat / heat.sum(0), columns, (labels >= 0) & ~is_source)


def _make_conductance(conductance: str | Module) -> ModuleConductance | None:
    if isinstance(conductance, Module):
        return ModuleConductance(conductance)
    check_choice("conductance", conductance, ("features", "open"))
    return ModuleConductance(EdgeGate()) if conductance == "features" else None


def _check_can_be_held_out(labels: Tensor) -> None:
    """Raise unless there are two classes, each with a label, and one with two."""
    count = torch.bincount(labels[labels >= 0])
    check_classes_are_named("labels", labels, len(count))
    if len(count) < 2:
        raise ValueError(f"Expected 'labels' to name at least two classes (got {len(count)}).")
    if int(count.max()) < 2:
        raise ValueError(
            "Expected 'labels' to name two nodes of a class, one of which can be held out (got one "
            "of each). To fix this, train a DiffusionClassifier by self_train, which needs one."
        )
