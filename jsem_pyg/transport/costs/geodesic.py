"""Lengths of shortest paths as costs: a factor by landmark scaling."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from ..._checks import (
    as_argument,
    check_choice,
    check_nonnegative_int,
    check_points,
    check_positive_int,
)
from ..._random import seeded
from ...graph import GraphStructure
from ...kernels.csr import scipy_indices
from ...kernels.torch_func import without_autocast
from ...neighbors.points import METRICS, prepare_points
from .factor import Factor
from .factor_error import check_loss, relative_norm, warn_if_large
from .graph_input import GraphInput, check_connected, read_graph

NUM_PROBES = 6  # searches from other nodes, which estimate the error

Array = NDArray[Any]


@dataclass(frozen=True)
class GeodesicCost:
    r"""Takes squared lengths of shortest paths in a graph as costs, in a factor.

    .. math::
        C_{ik} = d_{ik}^2 \approx ||\mathbf{x}_i - \mathbf{x}_k||^2

    with d the length of the shortest path. Landmarks are taken one by one, each the node that is
    farthest from those before; a search from each gives its distances to all. Classical scaling of
    the landmarks, and triangulation of the others, give X (landmark MDS). It costs one search of
    O(E log N) for each landmark, and O(N) memory for each.

    Lengths of edges are those given; or else the Euclidean distances of the points that the edges
    join (chords of the unit sphere for `metric="cosine"`), if there are points; or else ones.
    `edge_weight`, in which this package keeps similarities, is not looked at. Not differentiable:
    no gradient flows back to points, and lengths that require one are refused.

    Args:
        rank: the largest number of columns; fewer if they are as near to distances held out.
        num_landmarks: how many, more than `rank`.
        k: neighbours of each point, if a graph has to be made of points.
        metric: of that graph, and of the lengths of edges between points: "l2" or "cosine".
        tol: fewer columns may have a relative error that is larger by this.
        seed: chooses the first landmark, and the nodes that the error is estimated from.

    Source: de Silva and Tenenbaum, "Sparse multidimensional scaling using landmark points",
    Stanford University, 2004; Tenenbaum, de Silva and Langford, "A global geometric framework for
    nonlinear dimensionality reduction", Science 290, 2000.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> GeodesicCost()(path).dense().round()
        tensor([[0., 1., 4.],
                [1., 0., 1.],
                [4., 1., 0.]])
    """

    rank: int = 10
    num_landmarks: int = 50
    k: int = 10
    metric: str = "l2"
    tol: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive_int("rank", self.rank)
        check_positive_int("num_landmarks", self.num_landmarks)
        if self.num_landmarks <= self.rank:
            raise ValueError(
                f"Expected 'num_landmarks' to be larger than 'rank', {self.rank} (got "
                f"{self.num_landmarks}). To fix this, take three times the rank."
            )
        check_positive_int("k", self.k)
        check_choice("metric", self.metric, METRICS)
        check_loss("tol", self.tol)
        check_nonnegative_int("seed", self.seed)

    @without_autocast
    def __call__(
        self, source: Any, edge_length: Tensor | None = None, num_nodes: int | None = None
    ) -> Factor:
        """Make the factor of a `Data`, a graph, or points.

        Args:
            source: a `Data`, any form of graph (the values of a sparse tensor are lengths), or
                points [N, D] for the graph of their nearest neighbours.
            edge_length: [E] non-negative, the same in both directions.
            num_nodes: N, if isolated nodes may come after the last edge.

        Returns:
            A factor of kind "sqdist" with the edges of the graph.

        Raises:
            ValueError: if the graph has several components, or if lengths require a gradient.
        """
        with as_argument("edge_length", "edge_weight"):
            graph = read_graph(
                source, edge_length, num_nodes, self.k, self.metric, weight_name=None
            )
        if graph.weight is not None and graph.weight.requires_grad:
            raise ValueError(
                "Expected 'edge_length' without a gradient, which shortest paths do not give (got "
                "requires_grad=True). To fix this, pass edge_length.detach(), or take HeatCost, "
                "which is differentiable in edge weights."
            )
        check_connected(graph, "in which a path leads from any node to any other")
        x, error = self._embed(_length_matrix(graph.structure, self._lengths(graph)))
        warn_if_large("GeodesicCost", error, "take a larger 'rank' and more landmarks")
        x = x.to(graph.structure.device, graph.dtype)
        return Factor(x, "sqdist", error=error, edge_index=graph.edge_index)

    def _lengths(self, graph: GraphInput) -> Tensor:
        """Return the lengths [E] of the edges, in float64."""
        if graph.weight is not None and not graph.joins_neighbors:
            return graph.weight.double()
        if graph.points is None:
            return torch.ones(graph.structure.num_edges, dtype=torch.float64)
        check_points("source.x", graph.points)
        points = prepare_points(graph.points.detach(), self.metric)
        i, j = graph.structure.edges
        apart = points.distance(i.cpu(), j.cpu()).double()
        return (2 * apart).sqrt() if self.metric == "cosine" else apart

    def _embed(self, length: csr_array) -> tuple[Tensor, float]:
        """Compute coordinates [N, r], and their error."""
        num_nodes = length.shape[0]
        generator = seeded(self.seed)
        probe = torch.randperm(num_nodes, generator=generator)[:NUM_PROBES].tolist()
        first = dijkstra(length, indices=probe[0])
        landmark, distance = farthest_landmarks(length, first, self.num_landmarks)
        if len(landmark) == num_nodes:
            probe, held_out = landmark, distance
        else:
            held_out = np.vstack([first, dijkstra(length, indices=probe[1:])])
        cost = torch.from_numpy(distance).square()
        x = landmark_scaling(cost, torch.tensor(landmark), self.rank)
        error = errors_by_rank(x, probe, torch.from_numpy(held_out).square())
        # Columns of small eigenvalues may do harm, since the negative ones are left out.
        rank = next(r for r, each in enumerate(error, 1) if each <= min(error) + self.tol)
        return x[:, :rank], error[rank - 1]


def _length_matrix(structure: GraphStructure, length: Tensor) -> csr_array:
    """Make lengths [E] a matrix [N, N] for SciPy; the shortest of parallel edges counts."""
    slots = torch.full((structure.num_slots,), torch.inf, dtype=torch.float64)
    shortest = slots.scatter_reduce(0, structure.slot.long().cpu(), length.cpu(), "amin")
    shape = (structure.num_nodes, structure.num_nodes)
    return csr_array((shortest.numpy(), *scipy_indices(structure.csr)), shape=shape)


def farthest_landmarks(length: csr_array, first: Array, most: int) -> tuple[list[int], Array]:
    """Choose landmarks one by one, the farthest node next; with distances [M, N] to all nodes.

    The first is farthest from the node whose distances [N] are given.

    Source: Gonzalez, "Clustering to minimize the maximum intercluster distance", Theoretical
    Computer Science 38, 1985.
    """
    landmark = [int(first.argmax())]
    distance = [dijkstra(length, indices=landmark[0])]
    nearest = distance[0].copy()
    while len(landmark) < min(most, len(first)) and nearest.max() > 0:
        landmark.append(int(nearest.argmax()))
        distance.append(dijkstra(length, indices=landmark[-1]))
        np.minimum(nearest, distance[-1], out=nearest)
    return landmark, np.stack(distance)


def landmark_scaling(cost: Tensor, landmark: Tensor, rank: int) -> Tensor:
    """Compute coordinates [N, r] from squared distances [M, N] of landmarks [M] to all points.

    Directions of negative eigenvalues are left out: no real coordinates have them.
    """
    among = cost[:, landmark]
    mean = among.mean(1)
    gram = (mean[:, None] + mean - among - mean.mean()) / 2
    value, vector = torch.linalg.eigh((gram + gram.T) / 2)
    value, vector = value.flip(0), vector.flip(1)
    kept = value > 1e-12 * value[0].clamp(min=0)
    value, vector = value[kept][:rank], vector[:, kept][:, :rank]
    if value.numel() == 0:  # all points at one place
        return cost.new_zeros(cost.size(1), 1)
    return (mean[:, None] - cost).T @ (vector / value.sqrt()) / 2


def errors_by_rank(x: Tensor, nodes: list[int], true: Tensor) -> list[float]:
    """Compute relative errors of the first 1, 2, ... columns of X [N, r] on true costs [P, N]."""
    found, errors = torch.zeros_like(true), []
    for column in x.T:
        found += (column[nodes, None] - column).square()
        errors.append(relative_norm(found - true, true))
    return errors
