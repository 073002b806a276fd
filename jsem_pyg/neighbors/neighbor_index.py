"""Places new points in a neighbour graph."""

import numpy as np
import torch
from torch import Tensor

from .._checks import check_positive_int
from .affinity import KERNELS, affinity, both_directions, common_width, local_width
from .build import GraphOptions, weighted_pairs
from .knn import warn_if_few
from .points import place_points, prepare_points
from .searcher import Searcher, SearchOptions


class NeighborIndex:
    """Builds the neighbour graph of points, and remembers them to place new points in it.

    Attributes:
        edge_index: [2, E] the edges of :func:`~.build.knn_graph`.
        edge_weight: [E] their weights.

    It takes the arguments of :func:`~.build.knn_graph`.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
        >>> index = NeighborIndex(x, k=1, metric="l2", kernel=None)
        >>> index.query(torch.tensor([[2.5]]), k=2)
        (tensor([[2, 3]]), tensor([[0.5000, 1.0000]]))
        >>> index.extend(torch.tensor([[2.5]]))[0]
        tensor([[0, 1, 1, 2, 2, 2, 3, 4],
                [1, 0, 2, 1, 3, 4, 2, 2]])
    """

    def __init__(
        self,
        x: Tensor | np.ndarray,
        k: int = 15,
        metric: str = "cosine",
        index: str = "auto",
        kernel: str | None = "gaussian",
        symmetrize: str = "max",
        connect: bool = True,
        *,
        recall_target: float = 0.95,
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        options = GraphOptions(k, metric, kernel, symmetrize, connect)
        search = SearchOptions(index, recall_target, seed, progress)
        self.points = prepare_points(x, metric)
        if self.num_points == 0:
            raise ValueError("Expected 'x' to have at least one point (got none).")
        warn_if_few(k, [self.num_points])
        self.k, self.kernel = min(k, self.num_points), kernel  # as many as a new point can find
        self._searcher = Searcher(self.points, k, search)
        neighbor, distance = self._searcher.neighbors(k)
        pair, weight, self.width = weighted_pairs(self.points, neighbor, distance, options)
        common = common_width(distance)
        # Where all points have copies, all have one width, see `weighted_pairs`.
        self.common_width = torch.where(common.isinf(), self.width[0], common)
        edges = both_directions(pair, weight, self.num_points)
        self.edge_index, self.edge_weight = (each.to(self.points.device) for each in edges)

    @property
    def num_points(self) -> int:
        """N, the number of points that the graph was built from."""
        return self.points.num_points

    def query(self, x_new: Tensor, k: int | None = None) -> tuple[Tensor, Tensor]:
        """Find the nearest of the N points for each new point.

        Args:
            x_new: [M, F] floating-point tensor, finite; it is read in the type of the points.
            k: how many, 0 < k <= N; as many as the graph was built with if omitted.

        Returns:
            The neighbours [M, k] (int64) and their distances [M, k], ascending in each row, on the
            device of `x_new`.
        """
        k = self.k if k is None else k
        check_positive_int("k", k)
        if k > self.num_points:
            raise ValueError(
                f"Expected 'k' to be at most the number of fitted points (got k={k} for "
                f"{self.num_points} points). To fix this, lower 'k'."
            )
        neighbor, distance = self._searcher.nearest(place_points(x_new, self.points), k)
        return neighbor.to(x_new.device), distance.to(x_new.device)

    def links(self, x_new: Tensor) -> tuple[Tensor, Tensor]:
        """Find the edges that would join each new point to the graph, as :meth:`extend` does.

        Args:
            x_new: [M, F], as for :meth:`query`.

        Returns:
            The neighbours [M, k] (int64), the nearest first, and the weights [M, k] of the edges
            to them, on the device of `x_new`. A row does not depend on the other new points.
        """
        new = place_points(x_new, self.points)
        neighbor, distance = self._searcher.nearest(new, self.k)
        new_width = self.width[:1].expand(neighbor.size(0))
        if KERNELS[self.kernel].has_local_width:
            new_width = local_width(distance, self.common_width)
        i = self.num_points + torch.arange(neighbor.size(0))[:, None].expand_as(neighbor)
        weight = affinity(distance, i, neighbor, torch.cat([self.width, new_width]), self.kernel)
        return neighbor.to(x_new.device), weight.to(x_new.device)

    def extend(self, x_new: Tensor) -> tuple[Tensor, Tensor]:
        """Add new points to the graph, each joined to its k nearest old points, both ways.

        Nodes 0 to N - 1 and their edges stay as they are; the new points are N to N + M - 1.
        A weight comes from the kernel with the fitted widths of the old points and, for
        "self_tuning", the new point's own local width; `symmetrize` does not matter, as a new edge
        counts as found from both ends. New points are not joined with each other.

        Args:
            x_new: [M, F], as for :meth:`query`.

        Returns:
            `edge_index` [2, E + 2 M k], sorted, and `edge_weight`, on the device of the graph.
        """
        neighbor, weight = (each.cpu() for each in self.links(x_new))
        num_new = neighbor.size(0)
        node = self.num_points + torch.arange(num_new).repeat_interleave(self.k)
        old = self.edge_index[:, self.edge_index[0] < self.edge_index[1]].cpu()
        old_weight = self.edge_weight[self.edge_index[0] < self.edge_index[1]].cpu()
        pair = torch.cat([old, torch.stack([neighbor.flatten(), node])], dim=1)
        edges = both_directions(
            pair, torch.cat([old_weight, weight.flatten()]), self.num_points + num_new
        )
        device = self.edge_index.device
        return edges[0].to(device), edges[1].to(device)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(num_points={self.num_points}, k={self.k})"
