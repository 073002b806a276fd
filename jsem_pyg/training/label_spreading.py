"""Spread labels along the edges alone, whatever the features are."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .._precision import normalize_rows
from ..diffusion.filters import PersonalizedPageRank
from ..graph import GraphStructure
from .training_graph import TrainingGraph

RESTART = 0.01  # long walks: a few labels reach the ends of long clusters
WEAK = 1e-5  # of the largest weights at both ends: no neighbours, but a link of far components


@torch.no_grad()
def spread_labels(graph: TrainingGraph, labels: Tensor, num_classes: int) -> Tensor:
    """Estimate class probabilities [N, C] by random walks that restart at labels [N].

    Unknown labels are -1.

    Source: Zhou et al., "Learning with local and global consistency", 2004, with classes divided by
    the root of their sums.
    """
    start = F.one_hot(labels.clamp(min=0), num_classes).double() * (labels >= 0)[:, None]
    weight = None if graph.edge_weight is None else graph.edge_weight.double()
    score = PersonalizedPageRank(RESTART)(start, graph.structure, weight, tol=1e-9)
    score = score.clamp(min=0)
    return normalize_rows(score / score.sum(0).sqrt())


def reached_by(known: Tensor, graph: TrainingGraph) -> Tensor:
    """Find the nodes that a path of edges, none of them weak, joins to a known one: [N] bool."""
    edge_index, weight = graph.edge_index, graph.edge_weight
    if weight is not None:
        largest = weight.new_zeros(len(known)).scatter_reduce(0, edge_index[0], weight, "amax")
        edge_index = edge_index[:, weight > WEAK * largest[edge_index].amin(0)]
    component = GraphStructure(edge_index, len(known)).component
    reached = torch.zeros(len(known), dtype=torch.bool)
    reached[component[known]] = True
    return reached[component]
