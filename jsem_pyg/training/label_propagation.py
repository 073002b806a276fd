r"""Label propagation along edges whose conductance is learned from labels that are held out.

Half of the labels of each class are sources of heat, in several draws (folds) at once. The
cross-entropy of the other half trains all parameters. In the end all labels are sources.
"""

import copy
import itertools
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.data import Data, HeteroData

from .._checks import check_edge_type, check_nonnegative_int, check_positive, check_positive_int
from .._precision import without_autocast
from ..curvature.standardize import robust_standardize
from ..diffusion import heat_diffusion
from ..graph import GraphStructure
from ..graph.reader import check_data, read_data
from ..graph.relations import LEFT_OUT, merge_reverse, read_hetero_data, say_of_self_loops
from ..nn.conductance import as_columns, conduct, make_conductance, sees_nodes
from ..nn.relation_conductance import RelationConductance, Relations
from .label_spread import Way, choose_way, fill_sizes, read_sizes, shuffled_classes, walks_along
from .seeds import Purpose, derive_generator, seeded_rng
from .training_graph import check_known_classes, keep_known

_RATE = 0.3  # of all but the form; chosen on DBLP without the nodes of its test sets
_LEAST_HEAT = 1e-6  # added everywhere, as a share of a class's heat: the same for every class
_REACH = 3.0  # of the logarithms of time and sharpness, around their start
_ERRORS = 2.0  # of standard, that learned features of edges must gain: they saw the labels
_REFITS = 5  # steps of L-BFGS from the learned conductances to those that a fold alone prefers


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
    out, since heat along them adds nothing.

    Rivals are heat at the start, and random walks that restart at the labels: heat averaged over
    times, of a mean of 32 or 332, as harmonic functions or as cosines with the mean of a class.
    The relation that conducts least is closed, and all the rest learned again, for as long as the
    labels that are not among the sources are predicted better. What was learned is kept if it
    predicts labels that are held out in turn better, where edges have features by two standard
    errors; otherwise the best rival is the result, and all edges conduct fully. A warning says if
    even the best is not better than chance. The error of a relation's conductance is a standard
    error over the folds: starting from the learned values, the conductances are fitted to each fold
    alone, at the learned time.

    Features of nodes are not used: if there are any, compare with :func:`classify_by_heat` and with
    a :class:`~jsem_pyg.nn.DiffusionClassifier`. Other methods can use weights times `conductance`.

    Args:
        data: A graph with `edge_index` [2, E], both directions, and optionally `edge_weight` [E],
            `edge_attr` [E, F] and `edge_type` [E] in [0, R); or a `HeteroData`, whose edge types
            may have `edge_weight`, in one direction or both. It is not changed, and labels in it
            are not used.
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
    graph = _read_graph(data, target)
    if graph.edge_type is not None and folds < 2:
        raise ValueError(f"Expected 'folds' to be at least 2 for a standard error (got {folds}).")
    rows = slice(None) if target is None else graph.rows[target]
    labels = _read_labels(labels, graph, rows)
    sizes = read_sizes(class_sizes, int(labels.max()) + 1)
    draws = derive_generator(seed, Purpose.FOLDS)
    if isinstance(conductance, str) and graph.edge_attr is not None:
        columns = [robust_standardize(column) for column in graph.edge_attr.T]
        graph = graph._replace(edge_attr=torch.stack(columns, dim=1))
    with torch.enable_grad(), seeded_rng(graph.structure.device, seed, Purpose.MODEL):
        form = _read_conductance(graph, conductance)
        is_source = torch.stack([_draw_half(labels, draws) for _ in range(folds)])
        plain = [_Heat(graph, labels, form, start) for start in starts]
        trained = (_Heat(graph, labels, form, start) for start in starts)
        learned = min((each.learn(is_source, lr, steps) for each in trained), key=lambda e: e.loss)
        other = learned.without_weakest()
        while other is not None and other.learn(is_source, lr, steps).loss < learned.loss:
            learned, other = other, other.without_weakest()
        probabilities, t, is_learned = _choose(learned, plain, labels, seed)
        heat, relations = learned if is_learned else plain[0], None
        if heat.relation is not None:
            known = heat.has_edges
            names = itertools.compress(graph.names, known.tolist())
            error = heat.error_of_relations(is_source)[known]
            relations = Relations(names, heat.of_relations().detach()[known], error)
    with torch.no_grad():
        p = probabilities(labels)
        if sizes is not None:
            p = fill_sizes(graph.structure, heat.conducting(), p, labels, sizes.to(p), rows)
        p = keep_known(p.to(graph.weight), labels)
        found = heat.conductance() if is_learned else torch.ones_like(graph.weight)
        if graph.given_type is not None:
            found = heat.of_relations()[graph.given_type]
        if graph.is_edge is not None:
            found = found.new_ones(graph.is_edge.shape).masked_scatter(graph.is_edge, found)
    if isinstance(conductance, Module) and learned.form is not None:
        conductance.eval().load_state_dict(learned.form.state_dict())
    of_types = {name: p[place] for name, place in graph.rows.items()}
    return PropagatedLabels(p[rows], found, t, relations, of_types)


def _choose(
    learned: "_Heat", plain: Sequence["_Heat"], labels: Tensor, seed: int
) -> tuple[Way, float, bool]:
    """Choose by held-out labels: probabilities by labels, their time, and if edges are learned."""
    structure, weight = learned.graph[:2]
    rivals = walks_along(structure, weight) | {heat.logits: heat.start for heat in plain}
    trained: dict[Way, float] = {learned.logits: float(learned.time().detach())}
    if learned.form is not None or learned.relation is not None:
        trained |= walks_along(structure, learned.conducting().detach())
    best, rival = (choose_way(list(ways), labels, seed) for ways in (trained, rivals))
    is_kept = best.beats(rival.losses, 0 if learned.form is None else _ERRORS)
    best, ways = (best, trained) if is_kept else (rival, rivals)
    num_classes = int(labels.max()) + 1
    chance = choose_way([lambda known: weight.new_zeros(len(known), num_classes)], labels, seed)
    if not best.beats(chance.losses):
        warnings.warn(
            "Labels that are held out are not predicted better than by chance along these edges: "
            "the classes of other nodes have no evidence.",
            stacklevel=2,
        )
    return best.probabilities, ways[best.way], is_kept


class _Graph(NamedTuple):
    """A graph that was read and checked once."""

    structure: GraphStructure
    weight: Tensor  # [E], in single precision at least: half is too coarse to learn in
    edge_attr: Tensor | None = None  # [E, F]
    edge_type: Tensor | None = None  # [E]
    names: Sequence[object] = ()  # of the relations
    rows: dict[str, slice] = {}  # the nodes of each type of a HeteroData  # noqa: RUF012
    given_type: Tensor | None = None  # the relation of each edge, in the order of the HeteroData
    is_edge: Tensor | None = None  # of the edges of a Data: all but self-loops; None: all are


class _Heat(Module):
    """Heat of labelled nodes from a starting time on, along edges of learned conductance."""

    def __init__(self, graph: _Graph, labels: Tensor, form: Module | None, t: float) -> None:
        super().__init__()
        self.graph, self.labels, self.start = graph, labels, t
        self.made_of = graph, labels, form, t  # a tuple, whose modules are not trained
        self.form = copy.deepcopy(form)
        self.relation: RelationConductance | None = None
        if graph.edge_type is not None:
            count = len(graph.names)
            self.relation = RelationConductance(count).to(graph.weight)
            self.has_edges = graph.edge_type.bincount(minlength=count) > 0
            self.is_open = self.has_edges
        self.log_t = Parameter(torch.zeros((), dtype=torch.float64))
        self.log_sharpness = Parameter(graph.weight.new_zeros(()))
        self.balance = Parameter(graph.weight.new_zeros(()))
        structure = graph.structure
        num_edges = structure.row_sums(graph.weight.new_ones(structure.num_slots))
        share = F.one_hot(labels.clamp(min=0)) / num_edges.clamp(min=1)[:, None]
        self.share = share * (labels >= 0)[:, None]  # of each node in the heat of its class
        self.eval()

    def learn(self, is_source: Tensor, lr: float, steps: int) -> "_Heat":
        """Learn by Adam, and keep the loss of held-out labels; return itself."""
        of_form = [] if self.form is None else list(self.form.parameters())
        others = [each for name, each in self.named_parameters() if not name.startswith("form.")]
        groups: list[dict[str, Any]] = [{"params": others}, {"params": of_form, "lr": lr}]
        optimizer = torch.optim.Adam([each for each in groups if each["params"]], lr=_RATE)
        self.train()
        for _ in range(steps):
            optimizer.zero_grad()
            self.held_out_loss(is_source).backward()
            optimizer.step()
            with torch.no_grad():
                self.balance.clamp_(0, 1)
        self.eval()
        with torch.no_grad():
            self.loss = float(self.held_out_loss(is_source))
        return self

    def without_weakest(self) -> "_Heat | None":
        """Return one to learn whose weakest relation is closed; None if none other is open."""
        if self.relation is None or int(self.is_open.sum()) < 2:
            return None
        other = _Heat(*self.made_of)
        conductance = self.of_relations().detach().where(self.is_open, torch.inf)
        other.is_open = self.is_open & (conductance > conductance.min())
        return other

    def held_out_loss(self, is_source: Tensor) -> Tensor:
        """Return the cross-entropy of the labels that are no sources [F, N] in their fold."""
        is_held_out = (self.labels >= 0) & ~is_source
        target = self.labels.expand_as(is_source)[is_held_out]
        logits = self(is_source)[is_held_out]
        share = 1 / torch.bincount(target, minlength=logits.size(1)).clamp(min=1)
        return F.cross_entropy(logits, target, share.to(logits))

    def error_of_relations(self, is_source: Tensor) -> Tensor:
        """Fit the relations to each fold alone; return the standard error [R] over folds."""
        assert self.relation is not None
        theta, fits = self.relation.theta, []
        learned = theta.detach().clone()
        for fold in is_source.split(1):
            optimizer = torch.optim.LBFGS([theta], max_iter=_REFITS, line_search_fn="strong_wolfe")

            def loss(fold: Tensor = fold, optimizer: Any = optimizer) -> Tensor:
                optimizer.zero_grad()
                value = self.held_out_loss(fold)
                value.backward(inputs=[theta])
                return value

            optimizer.step(loss)
            with torch.no_grad():
                fits.append(self.of_relations())
                theta.copy_(learned)
        return torch.stack(fits).std(0) / len(fits) ** 0.5

    def of_relations(self) -> Tensor:
        """Return the conductance of each relation [R], as a share of the largest with edges."""
        assert self.relation is not None
        found = self.relation.of_relations * self.is_open
        return found / found.max()

    def given_conductance(self) -> Tensor:
        """Return what each edge conducts [E], before both directions are joined."""
        structure, weight, edge_attr, edge_type = self.graph[:4]
        h = conduct(structure, self.share, edge_attr, self.form, by_ends=False)
        h = torch.ones_like(weight) if h is None else h
        return h if edge_type is None else h * self.of_relations()[edge_type]

    def conductance(self) -> Tensor:
        """Return what the edges conduct [E], the mean of both directions and of repeated edges."""
        structure = self.graph.structure
        total = structure.symmetric(structure.to_slots(self.given_conductance()))
        number = structure.to_slots(torch.ones_like(self.graph.weight))
        return structure.to_edges(total / number)

    def conducting(self) -> Tensor:
        """Return the weights of the edges [E] times what they conduct."""
        structure, weight = self.graph[:2]
        total = structure.symmetric(structure.to_slots(weight * self.given_conductance()))
        return structure.share_among_edges(total, weight)

    def time(self) -> Tensor:
        """Return the diffusion time."""
        return self.start * _bounded(self.log_t)

    @torch.no_grad()
    def logits(self, known: Tensor) -> Any:
        """Return logits [N, C] by known labels [N], -1 where unknown."""
        return self(known[None] >= 0)[0]

    def forward(self, is_source: Tensor) -> Tensor:
        """Return logits of the classes [F, N, C], from the heat of sources [F, N]."""
        start = self.share * is_source[..., None]
        start = start / start.sum(1, keepdim=True)
        columns = start.transpose(0, 1).flatten(1)  # all folds diffuse at once
        heat = heat_diffusion(columns, self.graph.structure, self.conducting(), self.time())
        heat = heat.view(start.size(1), len(start), -1).transpose(0, 1).clamp(min=0)
        heat = heat * (-self.balance * heat.sum(1, keepdim=True).log()).exp()
        return (heat + _LEAST_HEAT).log() * _bounded(self.log_sharpness)


def _bounded(logarithm: Tensor) -> Tensor:
    """Return the exponential of a number near zero, and at most e^3 or e^-3 of others."""
    return (_REACH * (logarithm / _REACH).tanh()).exp()


def _read_graph(data: Data | HeteroData, target: str | None) -> _Graph:
    """Read a graph, without self-loops; a `HeteroData` as one graph of all its nodes."""
    if isinstance(data, HeteroData):
        return _read_hetero_graph(data, target)
    if target is not None:
        raise ValueError(f"Expected 'target' to be None for a Data (got {target!r}).")
    check_data(data, "edge_index")
    edges, is_edge = data.edge_index, None
    if isinstance(edges, Tensor) and edges.layout == torch.strided and edges.shape[:-1] == (2,):
        is_edge = edges[0] != edges[1]
        if bool(is_edge.all()):
            is_edge = None
        else:
            say_of_self_loops(LEFT_OUT)
            data = data.edge_subgraph(is_edge)
    structure, weight = read_data(data)
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    edge_attr, edge_type, num_relations = data.get("edge_attr"), data.get("edge_type"), 0
    if edge_attr is not None:
        structure.check_attr(edge_attr)
        edge_attr = as_columns(edge_attr, None).detach().to(weight)
    if edge_type is not None:
        check_edge_type(edge_type, structure.num_edges)
        num_relations = int(edge_type.max()) + 1 if edge_type.numel() else 0
        edge_type = edge_type.to(weight.device, torch.int64) if num_relations else None
    return _Graph(structure, weight, edge_attr, edge_type, range(num_relations), is_edge=is_edge)


def _read_hetero_graph(data: HeteroData, target: str | None) -> _Graph:
    if target not in data.node_types:
        raise ValueError(
            "Expected 'target' to name the node type that has the labels, one of "
            f"{data.node_types} (got {target!r})."
        )
    with_attr = [name for name in data.edge_types if "edge_attr" in data[name]]
    if with_attr:
        raise ValueError(
            f"Expected a HeteroData without 'edge_attr', which is not looked at (got it for "
            f"{with_attr[0]}). To fix this, delete it, or put it into 'edge_weight'."
        )
    graph, weight = read_hetero_data(data)
    if weight is None:
        weight = torch.ones(graph.structure.num_edges, device=graph.structure.device)
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    member = merge_reverse(data.edge_types)[1]
    given = [
        torch.full_like(index[0], member[name][0]) for name, index in data.edge_index_dict.items()
    ]
    edges = graph.structure, weight, None, graph.edge_type
    return _Graph(*edges, graph.relations, graph.rows, torch.cat(given).long())


def _read_labels(labels: Tensor, graph: _Graph, rows: slice) -> Tensor:
    """Check labels of the labelled type; return labels [N] of all nodes, -1 where unknown."""
    everywhere = torch.full((graph.structure.num_nodes,), -1, device=graph.structure.device)
    check_known_classes(labels, len(everywhere[rows]), least=2)
    everywhere[rows] = labels.to(everywhere)
    if int(torch.bincount(everywhere[everywhere >= 0]).max()) < 2:
        raise ValueError(
            "Expected 'labels' to name two nodes of a class, one of which can be held out (got one "
            "of each). To fix this, train a DiffusionClassifier by fit, which needs one."
        )
    return everywhere


def _read_conductance(graph: _Graph, conductance: str | Module) -> Module | None:
    """Return the module that the argument names, or a copy of it; None without edge features."""
    edge_dim = 0 if graph.edge_attr is None else graph.edge_attr.size(1)
    made = make_conductance(conductance, edge_dim, rate=1.0)
    if sees_nodes(made):
        raise ValueError(
            'Expected \'conductance\' to be "sigmoid", "mlp" or a module that takes (edge_attr), '
            f"since there are no features of nodes (got {conductance!r})."
        )
    if made is not None and graph.edge_attr is None:
        raise ValueError(
            "Expected 'data' to have 'edge_attr' [E, F] for a module as 'conductance' (got none)."
        )
    return None if made is None else copy.deepcopy(made).to(graph.weight)


def _draw_half(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Draw half of the labelled nodes of each class, rounded down, or the only one: [N] bool."""
    chosen = torch.zeros_like(labels, dtype=torch.bool)
    for members in shuffled_classes(labels, generator):
        chosen[members[: max(1, len(members) // 2)]] = True
    return chosen
