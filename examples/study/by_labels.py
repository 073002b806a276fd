"""A conductance that a few labels teach, by gradients through the exact diffusion.

Held-out labels: `propagate_labels`. Half of the labels of each class, drawn anew for each of six
folds, are the sources of a diffusion, and the cross-entropy of the other half teaches the time, how
sharp the result is, and the conductance. In the end all labels are sources.

End to end: a linear classifier of the features, whose logits diffuse, and the conductance learn all
labels at once. Linear maps commute with diffusions: it is the classifier of diffused features.

An edge looks at

- nothing: every edge is open, and all else is trained in the same way;
- both ends: an `EndpointConductance` of eight principal components of the diffused features;
- features of the edge: its curvature and the cosine of its ends, both standardised.

All settings were chosen on digits and AG News, with other draws of the labels (seeds 100 to 102).
On both, conductances of both ends that learn faster, or of more components, lost more.
"""

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from endpoint_conductance import EndpointConductance
from filters import centred
from learned import isotropic_self_training
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.training import propagate_labels, select_time
from jsem_pyg.transforms import FormanCurvature

RATE, ENDS_RATE = 0.05, 0.005
COMPONENTS, HIDDEN = 8, 4
FARTHEST = 3.0  # deviations of a curvature from the median; those of hubs have a long tail
OPEN_LOGIT = 1.0  # conductances start at 0.73
END_TO_END_STEPS, WEIGHT_DECAY, SCALE = 100, 1e-3, 10.0


def without_features(data: Data) -> Data:
    """The graph alone."""
    weight = data.edge_weight
    return Data(edge_index=data.edge_index, edge_weight=weight, num_nodes=data.num_nodes)


def with_curvature_and_cosine(data: Data) -> Data:
    """The graph with two features of edges: curvature, and the cosine of both ends."""
    graph = FormanCurvature()(without_features(data))
    source, target = data.edge_index
    cosine = F.cosine_similarity(data.x[source], data.x[target])
    cosine = (cosine - cosine.mean()) / cosine.std()
    graph.edge_attr = torch.stack([graph.edge_attr[:, 0].clamp(-FARTHEST, FARTHEST), cosine], -1)
    return graph


class Known(NamedTuple):
    """What is there before anything is learned."""

    data: Data
    graph: GraphStructure
    t: float  # of the triplet loss on the graph
    z: Tensor  # [N, D] diffused features, rows of length one


def held_out(look: str, data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Labels diffuse, along edges that other labels have taught."""
    t = time_of(data, seed)
    if look != ENDS:
        graph = with_curvature_and_cosine(data) if look == EDGES else without_features(data)
        return propagate_labels(graph, known, t=t, seed=seed).probabilities.argmax(-1)
    seed_everything(seed)
    both_ends = BothEnds(prepare(data, seed))
    graph = with_curvature_and_cosine(data)
    result = propagate_labels(graph, known, conductance=both_ends, t=t, lr=ENDS_RATE, seed=seed)
    return result.probabilities.argmax(-1)


def then_self_training(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Self-training on edges whose weight is multiplied by what held-out labels have taught."""
    graph = with_curvature_and_cosine(data)
    learned = propagate_labels(graph, known, t=time_of(data, seed), seed=seed)
    data.edge_weight = data.edge_weight * learned.conductance
    return isotropic_self_training(data, num_classes, seed, labels=known)


def end_to_end(look: str, data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Classifier and conductance learn together."""
    given = prepare(data, seed)
    seed_everything(seed)
    x = SCALE * centred(data, num_classes, seed)
    classifier, conduct = Linear(x.size(1), num_classes), LOOKS[look](given)
    torch.nn.init.zeros_(classifier.weight)
    teaches = known >= 0
    groups = [{"params": list(classifier.parameters())}]
    if of_edges := list(conduct.parameters()):
        groups.append({"params": of_edges, "lr": ENDS_RATE})
    optimizer = torch.optim.Adam(groups, lr=RATE)

    def logits() -> Tensor:
        weight = data.edge_weight * conduct(None)
        return heat_diffusion(classifier(x), given.graph, weight, given.t)

    for _ in range(END_TO_END_STEPS):
        optimizer.zero_grad()
        decay = WEIGHT_DECAY * classifier.weight.square().sum()
        (F.cross_entropy(logits()[teaches], known[teaches]) + decay).backward()
        optimizer.step()
    with torch.no_grad():
        return logits().argmax(-1)


def prepare(data: Data, seed: int) -> Known:
    """The time that isotropic heat likes best, and features after it."""
    t = time_of(data, seed)
    graph = GraphStructure(data.edge_index, data.num_nodes)
    z = F.normalize(heat_diffusion(data.x, graph, data.edge_weight, t))
    return Known(data, graph, t, z)


_TIMES: dict[tuple[int, ...], float] = {}


def time_of(data: Data, seed: int) -> float:
    """By the triplet loss; once for all methods, as the data sets differ in size."""
    key = (*data.x.shape, data.num_edges, seed)
    if key not in _TIMES:
        _TIMES[key] = select_time(data, seed=seed).t
    return _TIMES[key]


class OpenEdges(Module):
    """Every edge conducts fully."""

    def __init__(self, given: Known) -> None:
        super().__init__()
        self.num_edges = given.data.num_edges

    def forward(self, columns: Tensor | None) -> Tensor:
        return torch.ones(self.num_edges)


class BothEnds(Module):
    """An edge looks at both of its ends."""

    def __init__(self, given: Known) -> None:
        super().__init__()
        centred_rows = given.z - given.z.mean(0)
        _, _, axes = torch.svd_lowrank(centred_rows, COMPONENTS, niter=4)
        z = centred_rows @ axes
        self.z = z / z.std(0).mean()
        self.edge_index = given.data.edge_index
        self.conductance = EndpointConductance(z.size(1), HIDDEN)
        torch.nn.init.constant_(self.conductance.bias, OPEN_LOGIT)

    def forward(self, columns: Tensor | None) -> Tensor:
        source, target = self.edge_index
        return self.conductance(columns, self.z[target], self.z[source])


OPEN, ENDS, EDGES = "every edge open", "both ends", "edge features"
LOOKS = {OPEN: OpenEdges, ENDS: BothEnds}  # of what is trained end to end
HELD_OUT = {f"held-out labels, {look}": partial(held_out, look) for look in (OPEN, ENDS, EDGES)}
THEN_SELF_TRAINING = "self-training on edges by held-out labels"
HELD_OUT[THEN_SELF_TRAINING] = then_self_training
END_TO_END = {f"end to end, {look}": partial(end_to_end, look) for look in LOOKS}
