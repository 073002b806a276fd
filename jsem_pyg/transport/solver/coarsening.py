"""Coarsening: points are grouped into cells by k-means, with the masses added up."""

import torch
from torch import Tensor

from ...neighbors.faiss_library import import_faiss
from ..problem.problem import Problem, Side
from .schedule import SCHEDULE


def in_cells(problem: Problem, size: int, seed: int) -> Problem:
    """Group the points of both sides."""
    x, y = problem.coordinates
    source = coarsen(problem.source, x.size(1), size, seed)
    return problem.at(source, coarsen(problem.target, y.size(1), size, seed + 1))


def coarsen(side: Side, num_coordinates: int, num_cells: int, seed: int) -> Side:
    """Group points by their leading coordinates; a side that is hardly larger stays as it is.

    A cell has the mean z of its points, weighted by mass. So a plan between cells has the moments
    of the plan between points that spreads its masses evenly inside the cells.
    """
    if side.num_points <= 1.5 * num_cells:
        return side
    return merge(side, label_points(side, num_coordinates, num_cells, seed))


def merge(side: Side, label: Tensor) -> Side:
    """Make the cells of given labels [N], in their order; labels without mass are left out."""
    mass = side.mass
    has_mass = mass > 0
    kept, dense = label[has_mass].unique(return_inverse=True)
    total = mass.new_zeros(kept.numel(), dtype=torch.float64)
    total.index_add_(0, dense, mass[has_mass].double())
    share = (mass[has_mass].double() / total[dense])[:, None]
    z = side.z.new_zeros(kept.numel(), side.z.size(1), dtype=torch.float64)
    z.index_add_(0, dense, share * side.z[has_mass])
    return Side(z.to(side.z.dtype), total.log2().to(side.z.dtype))


def label_points(side: Side, num_coordinates: int, num_cells: int, seed: int) -> Tensor:
    """Find the cell of each point: [N]."""
    x = side.z[:, :num_coordinates].float().contiguous().cpu()
    with_mass = x[(side.log2_mass > -torch.inf).cpu()]
    kmeans = import_faiss().Kmeans(
        x.size(1),
        min(num_cells, len(with_mass)),
        niter=SCHEDULE.cell_iterations,
        seed=seed % 2**31,
        min_points_per_centroid=1,
        max_points_per_centroid=SCHEDULE.cell_training,
    )
    kmeans.train(with_mass.numpy())
    return torch.from_numpy(kmeans.index.search(x.numpy(), 1)[1][:, 0]).to(side.z.device)
