r"""Label propagation along edges whose conductance is learned from labels that are held out.

1. Half of the labels of each class are sources, which diffuse over the graph.
2. The cross-entropy of the other half, which was held out, trains the time, the sharpness of the
   result and the conductance, by gradients through the exact diffusion.
3. This is repeated for several draws of the half. In the end all labels are sources.
"""

import itertools
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.data import Data

from .._checks import (
    check_choice,
    check_edge_vector,
    check_instance,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from .._precision import without_autocast
from ..diffusion import heat_diffusion
from ..graph import GraphStructure
from ..graph.read_data import check_data, read_data
from ..nn import MLPConductance, SigmoidConductance
from .seeds import Purpose, derive_generator, seeded_rng
from .training_graph import check_known_classes, keep_known

_RATE = 0.05  # of time and sharpness
_LEAST_HEAT = 1e-6  # added everywhere, as a share of a class's heat: the same for every class
_FORMS = {"sigmoid": SigmoidConductance, "mlp": MLPConductance}


class PropagatedLabels(NamedTuple):
    """Class probabilities of all nodes, and the conductance along which they were found."""

    probabilities: Tensor  #: [N, C]; one or zero where a label is known
    conductance: Tensor  #: [E] in [0, 1], in the order of `edge_index`
    t: float  #: diffusion time of the labels


@torch.inference_mode(False)
@without_autocast
def propagate_labels(
    data: Data,
    labels: Tensor,
    *,
    conductance: str | Module = "sigmoid",
    t: float = 5.0,
    lr: float = 0.05,
    steps: int = 60,
    folds: int = 6,
    seed: int = 0,
) -> PropagatedLabels:
    r"""Spread a few labels by heat, along edges whose conductance is learned from the labels.

    .. math::
        \mathbf{P} = \mathrm{softmax} \left( \beta \log \left(
        e^{-t \mathbf{L}_{\theta}} \mathbf{S} + 10^{-6} \right) \right)

    where a column of :math:`\mathbf{S}` shares one unit of heat among the labelled nodes of a
    class. Learned are :math:`t`, :math:`\beta` and the conductance :math:`\theta`, each from the
    labels that are not among the sources. The conductance is a function of `data.edge_attr`, such
    as the columns of :class:`~jsem_pyg.transforms.FormanCurvature` and
    :class:`~jsem_pyg.transforms.EdgeGeometry`, which are standardised. Without edge features all
    edges conduct alike, and the time and :math:`\beta` are learned.

    Features of nodes are not used: if there are any, compare with :func:`classify_by_heat` and with
    a :class:`~jsem_pyg.nn.DiffusionClassifier`. Other methods can use the same edges, if their
    weights are multiplied by `conductance`, as in
    ``data.edge_weight * propagate_labels(data, labels).conductance``.

    This is not a trainer of :func:`~jsem_pyg.training.fit`, which trains a model that you pass and
    can then call on other graphs: here nothing is left to call, and the labels are an argument.

    Args:
        data: A graph with `edge_index` [2, E], both directions, and optionally `edge_weight` [E]
            and `edge_attr` [E, F]. It is not changed, and labels in it are not used.
        labels: [N] known classes in [0, C), -1 where unknown; some class has two at least.
        conductance: "sigmoid" (:class:`~jsem_pyg.nn.SigmoidConductance`), "mlp"
            (:class:`~jsem_pyg.nn.MLPConductance`), or a module that maps `edge_attr` to [E] in
            [0, 1]; it is trained in place, and the mean of both directions counts.
        t: The diffusion time to start from, > 0.
        lr: Learning rate of the conductance.
        steps: Steps of Adam, each with the next draw.
        folds: Number of draws.
        seed: Of the draws, and of what is random in the conductance.

    Returns:
        A record with `probabilities` [N, C], one or zero where a label is known, `conductance` [E]
        in [0, 1], in the order of `edge_index`, and the diffusion time `t`.

    Raises:
        ValueError: If the graph cannot be diffused, if labels are below -1, or if there are fewer
            than two classes, one that has no label, or none that has two.

    Sources: Zhu and Ghahramani, "Learning from labeled and unlabeled data with label propagation",
    2002; Zhang and Lee, "Hyperparameter learning for graph based semi-supervised learning
    algorithms", 2006, for labels that are left out to learn the weights of edges.

    Example:
        >>> path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
        >>> graph = Data(edge_index=torch.cat([path, path.flip(0)], dim=1), num_nodes=6)
        >>> graph.edge_attr = torch.tensor([1.0, 1.0, -2.0, 1.0, 1.0]).repeat(2)[:, None]
        >>> result = propagate_labels(graph, torch.tensor([0, -1, 0, 1, -1, 1]))
        >>> result.probabilities.argmax(-1).tolist()
        [0, 0, 0, 1, 1, 1]
        >>> int(result.conductance[:5].argmin())  # the edge between both classes
        2
    """
    check_positive("t", t)
    check_positive("lr", lr)
    check_positive_int("steps", steps)
    check_positive_int("folds", folds)
    check_nonnegative_int("seed", seed)
    graph = _read_graph(data)
    labels = _read_labels(labels, graph.structure)
    draws = derive_generator(seed, Purpose.FOLDS)
    with torch.enable_grad(), seeded_rng(graph.structure.device, seed, Purpose.MODEL):
        model = _Propagation(graph, _read_conductance(conductance, data, graph.edge_attr), t)
        sources = [_draw_half(labels, draws) for _ in range(folds)]
        optimizer = model.make_optimizer(lr)
        for is_source in itertools.islice(itertools.cycle(sources), steps):
            is_held_out = (labels >= 0) & ~is_source
            optimizer.zero_grad()
            logits = model(labels, is_source)
            F.cross_entropy(logits[is_held_out], labels[is_held_out]).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        probabilities = keep_known(model(labels, labels >= 0).softmax(-1), labels)
        return PropagatedLabels(probabilities, model.conductance(), float(model.log_t.exp()))


class _Graph(NamedTuple):
    """A graph that was read and checked once."""

    structure: GraphStructure
    weight: Tensor  # [E], in single precision at least: half is too coarse to learn in
    edge_attr: Tensor | None  # [E, F]


class _Propagation(Module):
    """Heat of the sources, along edges of learned conductance."""

    def __init__(self, graph: _Graph, form: Module | None, t: float) -> None:
        super().__init__()
        self.graph = graph
        self.form = None if form is None else form.to(graph.weight)
        self.log_t = Parameter(torch.tensor(float(t), dtype=torch.float64).log())
        self.log_sharpness = Parameter(graph.weight.new_zeros(()))

    def make_optimizer(self, lr: float) -> torch.optim.Optimizer:
        """Make Adam; time and sharpness have a rate of their own."""
        groups: list[dict[str, Any]] = [{"params": [self.log_t, self.log_sharpness]}]
        if self.form is not None:
            groups.append({"params": list(self.form.parameters()), "lr": lr})
        return torch.optim.Adam(groups, lr=_RATE)

    def conductance(self) -> Tensor:
        """Return what the edges conduct [E], the mean of both directions."""
        structure, weight, edge_attr = self.graph
        if self.form is None:
            return torch.ones_like(weight)
        h: Tensor = self.form(edge_attr)
        check_edge_vector("the result of 'conductance'", h, structure.num_edges)
        return structure.to_edges(structure.symmetric(structure.to_slots(h)))

    def forward(self, labels: Tensor, is_source: Tensor) -> Tensor:
        """Return logits of the classes [N, C], from the heat of the labels [N] that are sources."""
        weight = self.graph.weight * self.conductance()
        start = F.one_hot(labels.clamp(min=0)).to(weight) * is_source[:, None]
        start = start / start.sum(0)
        heat = heat_diffusion(start, self.graph.structure, weight, self.log_t.exp())
        return (heat.clamp(min=0) + _LEAST_HEAT).log() * self.log_sharpness.exp()


def _read_graph(data: Data) -> _Graph:
    structure, weight = read_data(data)
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    edge_attr = data.get("edge_attr")
    if edge_attr is not None:
        structure.check_attr(edge_attr)
        edge_attr = edge_attr.detach().to(weight)
        edge_attr = edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr
    return _Graph(structure, weight, edge_attr)


def _read_labels(labels: Tensor, structure: GraphStructure) -> Tensor:
    if check_known_classes(labels, structure.num_nodes) < 2:
        raise ValueError("Expected 'labels' to name at least two classes (got 1).")
    labels = labels.to(structure.device, torch.int64)
    if int(torch.bincount(labels[labels >= 0]).max()) < 2:
        raise ValueError(
            "Expected 'labels' to name two nodes of a class, one of which can be held out (got one "
            "of each). To fix this, train a DiffusionClassifier by fit, which needs one."
        )
    return labels


def _read_conductance(
    conductance: str | Module, data: Data, edge_attr: Tensor | None
) -> Module | None:
    """Return the module that the argument names or is; None if all edges conduct alike."""
    if isinstance(conductance, str):
        check_choice("conductance", conductance, tuple(_FORMS))
        return None if edge_attr is None else _FORMS[conductance](edge_attr.size(1))
    check_instance("conductance", conductance, Module, "'sigmoid', 'mlp' or a module")
    check_data(data, "edge_attr")
    return conductance


def _draw_half(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Draw half of the labelled nodes of each class, rounded down, or the only one: [N] bool."""
    chosen = torch.zeros_like(labels, dtype=torch.bool)
    for label in range(int(labels.max()) + 1):
        members = (labels == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator).to(members.device)
        chosen[members[order[: max(1, len(members) // 2)]]] = True
    return chosen
