"""The diffusion time, chosen without labels."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch_geometric.data import Data

from .._checks import check_nonnegative, check_nonnegative_int, check_times
from ..diffusion import heat_diffusion
from .samplers import GraphTriplets
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph, prepare_graph
from .triplets import TripletLoss

TIMES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
NUM_TRIPLETS = 20_000  # that times are compared on


class SelectedTime(NamedTuple):
    """The best of several diffusion times."""

    t: float  #: the time with the lowest loss
    losses: dict[float, float]  #: the loss of every time


def select_time(
    data: Data | TrainingGraph,
    times: Sequence[float] = TIMES,
    *,
    normalization: str | None = "sym",
    seed: int = 0,
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
    graph = prepare_graph(data)
    loss = TripletLoss()
    structure = graph.structure
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
