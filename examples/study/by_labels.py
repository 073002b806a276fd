"""A conductance that a few labels teach, by gradients through the exact diffusion.

Held-out labels: half of the labels of each class, drawn anew for each of six folds, are the sources
of a diffusion; the cross-entropy of the other half, which it has not seen, teaches the time, how
sharp the result is, and the conductance. What an edge knows of classes comes from the sources
alone. In the end all labels are sources. Two labels of a class are needed.

End to end: a linear classifier of the features, whose logits diffuse, and the conductance learn all
labels at once. Linear maps commute with diffusions: it is the classifier of diffused features.

An edge looks at

- nothing: every edge is open, and all else is trained in the same way;
- both ends: an `EndpointConductance` of eight principal components of the diffused features;
- features of the edge: how far a classifier's probabilities at both ends agree, its curvature, and
  the cosine of its ends, with slopes that are never below zero.

All settings were chosen on digits and AG News, with other draws of the labels (seeds 100 to 102).
On both, conductances of both ends that learn faster, or of more components, lost more.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from filters import centred
from learned import Open
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import Linear, Module, Parameter
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AgreementConductance, DiffusionClassifier, EndpointConductance
from jsem_pyg.training import select_time, self_train
from jsem_pyg.transforms import FormanCurvature

FOLDS, STEPS, RATE = 6, 60, 0.05
ENDS_RATE = 0.005
COMPONENTS, HIDDEN = 8, 4
FLOOR = 0.01
OPEN_LOGIT = 1.0  # conductances start at 0.73
END_TO_END_STEPS, WEIGHT_DECAY, SCALE = 100, 1e-3, 10.0


class Known(NamedTuple):
    """What is there before anything is learned."""

    data: Data
    graph: GraphStructure
    t: float  # of the triplet loss on the graph
    z: Tensor  # [N, D] diffused features, rows of length one
    columns: Tensor  # [E, 2] curvature and cosine
    num_classes: int


class Fold(NamedTuple):
    """Labels that are known, and labels that are asked for."""

    start: Tensor  # [N, C] sources; those of a class sum to one
    columns: Tensor | None  # [E, F] what edges know from the sources
    asked: Tensor  # [N] bool


def held_out(look: str, data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Labels diffuse, along edges that other labels have taught."""
    _, logits = _propagate(look, prepare(data, num_classes, seed), known, seed)
    return logits.argmax(-1)


def then_self_training(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Self-training on edges whose weight is multiplied by what held-out labels have taught."""
    conductance, _ = _propagate(EDGES, prepare(data, num_classes, seed), known, seed)
    data.edge_weight = data.edge_weight * conductance
    model = DiffusionClassifier(data.x.size(1), num_classes, conductance=Open())
    self_train(model, data, labels=known, seed=seed)
    with torch.no_grad():
        return model(data.x, data.edge_index, data.edge_weight).argmax(-1)


def end_to_end(look: str, data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Classifier and conductance learn together."""
    given = prepare(data, num_classes, seed)
    seed_everything(seed)
    x = SCALE * centred(data, num_classes, seed)
    classifier, conduct = Linear(x.size(1), num_classes), LOOKS[look](given)
    torch.nn.init.zeros_(classifier.weight)
    teaches = known >= 0

    def logits() -> Tensor:
        weight = data.edge_weight * conduct(None)
        return heat_diffusion(classifier(x), given.graph, weight, given.t)

    def loss() -> Tensor:
        decay = WEIGHT_DECAY * classifier.weight.square().sum()
        return F.cross_entropy(logits()[teaches], known[teaches]) + decay

    descend(loss, list(classifier.parameters()), conduct, END_TO_END_STEPS)
    with torch.no_grad():
        return logits().argmax(-1)


def prepare(data: Data, num_classes: int, seed: int) -> Known:
    """The time that isotropic heat likes best, and features after it."""
    t = _time(data, seed)
    graph = GraphStructure(data.edge_index, data.num_nodes)
    z = F.normalize(heat_diffusion(data.x, graph, data.edge_weight, t))
    bare = Data(edge_index=data.edge_index, edge_weight=data.edge_weight, num_nodes=len(z))
    curvature = FormanCurvature()(bare).edge_attr[:, 0].clamp(-3, 3)
    x, (source, target) = F.normalize(data.x), data.edge_index
    cosine = (x[source] * x[target]).sum(-1)
    cosine = (cosine - cosine.mean()) / cosine.std().clamp(min=1e-6)
    return Known(data, graph, t, z, torch.stack([curvature, cosine], -1), num_classes)


_TIMES: dict[tuple[int, ...], float] = {}


def _time(data: Data, seed: int) -> float:
    """By the triplet loss; once for all methods, as the data sets differ in size."""
    key = (*data.x.shape, data.num_edges, seed)
    if key not in _TIMES:
        _TIMES[key] = select_time(data, seed=seed).t
    return _TIMES[key]


def _propagate(look: str, given: Known, known: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Conductances [E] and logits [N, C] after training on held-out labels."""
    seed_everything(seed)
    generator = torch.Generator().manual_seed(seed)
    conduct = LOOKS[look](given)
    log_t = Parameter(torch.tensor(given.t).log())
    log_sharpness = Parameter(torch.zeros(()))
    is_source = (draw_half(known, generator) for _ in range(FOLDS))
    folds = [make_fold(look, given, known, each) for each in is_source]

    def spread(fold: Fold) -> tuple[Tensor, Tensor]:
        h = conduct(fold.columns)
        p = heat_diffusion(fold.start, given.graph, given.data.edge_weight * h, log_t.exp())
        # What has not arrived counts as little, the same for every class.
        return h, (p.clamp(min=0) + 1e-6).log() * log_sharpness.exp()

    steps = iter(range(STEPS))

    def loss() -> Tensor:
        fold = folds[next(steps) % FOLDS]
        return F.cross_entropy(spread(fold)[1][fold.asked], known[fold.asked])

    descend(loss, [log_t, log_sharpness], conduct, STEPS)
    with torch.no_grad():
        return spread(make_fold(look, given, known, known >= 0))


def draw_half(known: Tensor, generator: torch.Generator) -> Tensor:
    """Half of the labelled nodes of each class, rounded down but for a single one: [N] bool."""
    chosen = torch.zeros_like(known, dtype=torch.bool)
    for label in known[known >= 0].unique():
        members = (known == label).nonzero().flatten()
        members = members[torch.randperm(len(members), generator=generator)]
        chosen[members[: max(1, len(members) // 2)]] = True
    return chosen


def make_fold(look: str, given: Known, known: Tensor, is_source: Tensor) -> Fold:
    """What is known if only the sources are."""
    label = F.one_hot(known.clamp(min=0), given.num_classes).float()
    start = label * is_source[:, None]
    columns = None
    if look == EDGES:
        q = probabilities(given.z, known.where(is_source, -1))
        columns = edge_columns(given, torch.where(is_source[:, None], label, q))
    return Fold(start / start.sum(0).clamp(min=1), columns, (known >= 0) & ~is_source)


def probabilities(z: Tensor, known: Tensor) -> Tensor:
    """Of logistic regression, [N, C]."""
    teaches = (known >= 0).numpy()
    model = LogisticRegression(C=100.0, max_iter=1000)
    model.fit(z.numpy()[teaches], known.numpy()[teaches])
    return torch.from_numpy(model.predict_proba(z.numpy())).float()


def edge_columns(given: Known, q: Tensor) -> Tensor:
    """Agreement of probabilities [N, C] around both ends, curvature, cosine: [E, 3]."""
    data = given.data
    source, target = data.edge_index
    p = heat_diffusion(q, given.graph, data.edge_weight, given.t / 2).clamp(min=0)
    agreement = AgreementConductance(floor=1e-4)(None, p[target], p[source]).log() + 1
    return torch.cat([agreement[:, None], given.columns], -1)


def descend(loss: Callable[[], Tensor], parameters: list, conduct: Module, steps: int) -> None:
    """Adam; a conductance has a rate of its own."""
    groups = [{"params": parameters}]
    if of_edges := list(conduct.parameters()):
        groups.append({"params": of_edges, "lr": conduct.rate})
    optimizer = torch.optim.Adam(groups, lr=RATE)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


class OpenEdges(Module):
    """Every edge conducts fully."""

    def __init__(self, given: Known) -> None:
        super().__init__()
        self.num_edges = given.data.num_edges

    def forward(self, columns: Tensor | None) -> Tensor:
        return torch.ones(self.num_edges)


class BothEnds(Module):
    """An edge looks at both of its ends."""

    rate = ENDS_RATE

    def __init__(self, given: Known) -> None:
        super().__init__()
        centred_rows = given.z - given.z.mean(0)
        _, _, axes = torch.svd_lowrank(centred_rows, COMPONENTS, niter=4)
        z = centred_rows @ axes
        self.z = z / z.std(0).mean()
        self.source, self.target = given.data.edge_index
        self.conductance = EndpointConductance(z.size(1), HIDDEN)
        torch.nn.init.constant_(self.conductance.bias, OPEN_LOGIT)

    def forward(self, columns: Tensor | None) -> Tensor:
        seen = self.conductance.project(self.z)
        return self.conductance.between(None, seen[self.target], seen[self.source])


class EdgeFeatures(Module):
    """The more of each feature, the better an edge conducts."""

    rate = RATE

    def __init__(self, given: Known) -> None:
        super().__init__()
        self.slope = Parameter(torch.full((3,), -2.0))
        self.bias = Parameter(torch.tensor(OPEN_LOGIT))

    def forward(self, columns: Tensor) -> Tensor:
        return FLOOR + (1 - FLOOR) * (columns @ F.softplus(self.slope) + self.bias).sigmoid()


OPEN, ENDS, EDGES = "every edge open", "both ends", "edge features"
LOOKS = {OPEN: OpenEdges, ENDS: BothEnds, EDGES: EdgeFeatures}
HELD_OUT = {f"held-out labels, {look}": partial(held_out, look) for look in LOOKS}
THEN_SELF_TRAINING = "self-training on edges by held-out labels"
HELD_OUT[THEN_SELF_TRAINING] = then_self_training
END_TO_END = {f"end to end, {look}": partial(end_to_end, look) for look in (OPEN, ENDS)}
