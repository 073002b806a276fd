r"""Label propagation along edges whose conductance is learned from labels that are held out.

Half of the labels of each class are sources of heat, in several draws (folds) at once. The
cross-entropy of the other half trains all parameters. In the end all labels are sources.
"""

import itertools
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Data, HeteroData

from .._checks import check_nonnegative_int, check_positive, check_positive_int
from ..curvature.standardize import robust_standardize
from ..kernels.torch_func import without_autocast
from ..nn.relation_conductance import Relations
from .label_graph import read_conductance, read_graph, read_labels
from .label_heat import LabelHeat
from .label_spread import Way, choose_way, fill_sizes, read_sizes, shuffled_classes, walks_along
from .seeds import Purpose, derive_generator, seeded_rng
from .training_graph import keep_known

_ERRORS = 2.0  # of standard, that learned features of edges must gain: they saw the labels


class PropagatedLabels(NamedTuple):
    """Class probabilities of nodes, and the conductances along which they were found."""

    probabilities: Tensor  #: [N, C]; one or zero where a label is known
    conductance: Tensor  #: [E] in [0, 1], in the order of `edge_index`
    t: float  #: diffusion time of the labels; of walks, its mean
    relations: Relations | None  #: conductance of each relation, with its standard error
    of_types: dict[str, Tensor]  #: [N, C] for every node type of a `HeteroData`


@torch.inference_mode(False)
@without_autocast
def propagate_labels(
    data: Data | HeteroData,
    labels: Tensor,
    target: str | None = None,
    *,
    conductance: str | Module = "sigmoid",
    t: float | Sequence[float] = (5.0,),
    lr: float = 0.1,
    steps: int = 30,
    folds: int = 6,
    seed: int = 0,
    class_sizes: Sequence[float] | None = None,
) -> PropagatedLabels:
    r"""Spread a few labels by heat, along edges whose conductance is learned from the labels.

    .. math::
        \mathbf{P} = \mathrm{softmax} \left( \beta \log \left( \mathbf{H} \,
        \mathrm{diag}(\mathbf{1}^{\top} \mathbf{H})^{-\gamma} + 10^{-6} \right) \right), \qquad
        \mathbf{H} = e^{-t \mathbf{L}_{\theta}} \mathbf{S}

    where a column of :math:`\mathbf{S}` shares one unit of heat among the labelled nodes of a
    class; a node with twice as many edges has half the share. Learned are :math:`t` and
    :math:`\beta`, within a factor of 20 of their start, :math:`\gamma \in [0, 1]` and the
    conductances :math:`\theta`, from the labels that are not among the sources, of which all
    classes count alike. An edge conducts by

    - its relation: every relation in `data.edge_type`, or edge type of a `HeteroData`, has a
      conductance. Only their ratios count, so that the largest is 1. The types (a, r, b) and
      (b, rev_r, a) are one relation;
    - its features `data.edge_attr`, such as the columns of
      :class:`~jsem_pyg.transforms.FormanCurvature` and
      :class:`~jsem_pyg.transforms.EdgeGeometry`. They are standardised by their median, so that
      units do not matter, unless `conductance` is a module of your own.

    With both, the two are multiplied; with neither, all edges conduct alike. Self-loops are left
    out. The relation that conducts least is closed, and all the rest learned again, for as long as
    the labels that are not among the sources are predicted better. The error of a relation's
    conductance is a standard error over the folds, to each of which it is fitted alone, from the
    learned values and at the learned time.

    Rivals are heat at the start, and random walks that restart at the labels: heat averaged over
    times, of a mean of 32 or 332, as harmonic functions or as cosines with the mean of a class.
    What was learned is kept if it predicts labels that are held out in turn better, where edges
    have features by two standard errors; otherwise the best rival is the result, and all edges
    conduct fully. A warning says if even the best is not better than chance.

    Features of nodes are not used: :func:`classify_by_heat` and
    :class:`~jsem_pyg.nn.DiffusionClassifier` do. Other methods can use weights times `conductance`.

    Args:
        data: A graph with `edge_index` [2, E], both directions, and optionally `edge_weight` [E],
            `edge_attr` [E, F] and `edge_type` [E] in [0, R); or a `HeteroData`, whose edge types
            may have `edge_weight`, in one direction or both. Labels in it are not used.
        labels: [N] known classes in [0, C), -1 where unknown; some class has two at least. For a
            `HeteroData`, N is the number of nodes of the type `target`.
        target: The node type that has the labels, for a `HeteroData`.
        conductance: How edge features conduct: "sigmoid"
            (:class:`~jsem_pyg.nn.SigmoidConductance`), "mlp"
            (:class:`~jsem_pyg.nn.MLPConductance`), or a module that maps `edge_attr` to [E] in
            [0, 1]; it is trained in place, and the mean of both directions counts.
        t: The diffusion time to start from, > 0; or several, and the result with the lowest loss
            of held-out labels is kept.
        lr: Learning rate of the conductance of edge features.
        steps: Steps of Adam from each start.
        folds: Number of draws; at least two if there are relations.
        seed: Of the draws, and of what is random in the conductance.
        class_sizes: How large the classes are, [C] numbers or shares of all nodes (of the type
            `target`), if that is known: the means of the probabilities.

    Returns:
        A record with `probabilities` of the labelled type, `conductance` (of a `HeteroData`, one
        edge type after the other), `t`, `relations` with their `error` (a dictionary that prints as
        a table, without relations that have no edges; or None), and `of_types`.

    Sources: Zhu and Ghahramani, "Learning from labeled and unlabeled data with label propagation",
    2002, also for :math:`\gamma`; Zhang and Lee, "Hyperparameter learning for graph based
    semi-supervised learning algorithms", 2006, for edges learned from labels that are left out.

    Example:
        >>> path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
        >>> graph = Data(edge_index=torch.cat([path, path.flip(0)], dim=1), num_nodes=6)
        >>> graph.edge_attr = torch.tensor([1.0, 1.0, -2.0, 1.0, 1.0]).repeat(2)[:, None]
        >>> result = propagate_labels(graph, torch.tensor([0, -1, 0, 1, -1, 1]))
        >>> result.probabilities.argmax(-1).tolist()
        [0, 0, 0, 1, 1, 1]
    """
    starts: list[float] = list(t) if isinstance(t, Sequence) else [t]
    if not starts:
        raise ValueError(f"Expected 't' to have a time to start from (got {t!r}).")
    for start in starts:
        check_positive("t", start)
    check_positive("lr", lr)
    check_positive_int("steps", steps)
    check_positive_int("folds", folds)
    check_nonnegative_int("seed", seed)
    graph = read_graph(data, target)
    if graph.edge_type is not None and folds < 2:
        raise ValueError(f"Expected 'folds' to be at least 2 for a standard error (got {folds}).")
    rows = slice(None) if target is None else graph.rows[target]
    labels = read_labels(labels, graph, rows)
    sizes = read_sizes(class_sizes, int(labels.max()) + 1)
    draws = derive_generator(seed, Purpose.FOLDS)
    if isinstance(conductance, str) and graph.edge_attr is not None:
        columns = [robust_standardize(column) for column in graph.edge_attr.T]
        graph = graph._replace(edge_attr=torch.stack(columns, dim=1))
    with torch.enable_grad(), seeded_rng(graph.structure.device, seed, Purpose.MODEL):
        form = read_conductance(graph, conductance)
        is_source = torch.stack([_draw_half(labels, draws) for _ in range(folds)])
        plain = [LabelHeat(graph, labels, form, start) for start in starts]
        trained = (LabelHeat(graph, labels, form, start) for start in starts)
        losses = {each: each.learn(is_source, lr, steps) for each in trained}
        learned = min(losses, key=losses.__getitem__)
        while (fewer := learned.without_weakest()) is not None:
            other = LabelHeat(fewer, labels, form, learned.start)
            losses[other] = other.learn(is_source, lr, steps)
            if losses[other] >= losses[learned]:
                break
            learned = other
        probabilities, t, is_learned = _choose(learned, plain, labels, seed)
        heat, relations = learned if is_learned else plain[0], None
        if (known := graph.is_open) is not None:
            names = itertools.compress(graph.names, known.tolist())
            error = heat.error_of_relations(is_source)[known]
            relations = Relations(names, heat.of_relations().detach()[known], error)
    with torch.no_grad():
        p = probabilities(labels)
        if sizes is not None:
            p = fill_sizes(
                graph.structure, heat.conducting(graph.weight), p, labels, sizes.to(p), rows
            )
        p = keep_known(p.to(graph.weight), labels)
        found = torch.ones_like(graph.weight)
        found = heat.conducting(found) if is_learned else found
        if graph.given_type is not None:
            found = heat.of_relations()[graph.given_type]
        if graph.is_edge is not None:
            found = found.new_ones(graph.is_edge.shape).masked_scatter(graph.is_edge, found)
    if isinstance(conductance, Module) and learned.form is not None:
        conductance.eval().load_state_dict(learned.form.state_dict())
    of_types = {name: p[place] for name, place in graph.rows.items()}
    return PropagatedLabels(p[rows], found, t, relations, of_types)


def _choose(
    learned: LabelHeat, plain: Sequence[LabelHeat], labels: Tensor, seed: int
) -> tuple[Way, float, bool]:
    """Choose by held-out labels: probabilities by labels, their time, and if edges are learned."""
    structure, weight = learned.graph[:2]
    rivals = walks_along(structure, weight) | {heat.logits: heat.start for heat in plain}
    trained: dict[Way, float] = {learned.logits: float(learned.time().detach())}
    if learned.form is not None or learned.relation is not None:
        trained |= walks_along(structure, learned.conducting(weight).detach())
    best, rival = (choose_way(list(ways), labels, seed) for ways in (trained, rivals))
    is_kept = best.beats(rival.losses, 0 if learned.form is None else _ERRORS)
    best, ways = (best, trained) if is_kept else (rival, rivals)
    nothing = weight.new_zeros(len(labels), int(labels.max()) + 1)
    if not best.beats(choose_way([lambda known: nothing], labels, seed).losses):
        warnings.warn(
            "Labels that are held out are not predicted better than by chance along these edges: "
            "the classes of other nodes have no evidence.",
            stacklevel=2,
        )
    return best.probabilities, ways[best.way], is_kept


def _draw_half(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Draw half of the labelled nodes of each class, rounded down, or the only one: [N] bool."""
    chosen = torch.zeros_like(labels, dtype=torch.bool)
    for members in shuffled_classes(labels, generator):
        chosen[members[: max(1, len(members) // 2)]] = True
    return chosen
