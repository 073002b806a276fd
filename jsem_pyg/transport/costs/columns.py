"""Columns of a cost matrix, wherever they come from, and how many of them are kept."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..._checks import (
    check_choice,
    check_dense,
    check_edge_index,
    check_edge_weight,
    check_finite,
    check_float,
    check_instance,
    check_nodes,
    check_positive_int,
    check_symmetric,
)
from ..._precision import compute_dtype

MODES = ("precomputed", "landmark", "per_anchor")

_KEPT = 1 << 26  # numbers of columns that "per_anchor" keeps
_NULL = 1e-5  # eigenvalues of the landmarks' block below this share of the largest are rounding


@dataclass(frozen=True, eq=False)
class ColumnOracle:
    """A symmetric cost matrix [N, N] that is asked for columns.

    Args:
        columns: called with node indices [M] int64, on the CPU; returns [N, M] floating-point.
        num_points: N.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if `num_points` is not positive.

    Example:
        >>> position = torch.tensor([0.0, 1.0, 5.0])
        >>> oracle = ColumnOracle(lambda nodes: (position[:, None] - position[nodes]).abs(), 3)
        >>> oracle.read(torch.tensor([2]))[:, 0]
        tensor([5., 4., 0.])
    """

    columns: Callable[[Tensor], Tensor]
    num_points: int

    def __post_init__(self) -> None:
        if not callable(self.columns):
            raise TypeError(
                f"Expected 'columns' to be callable (got {type(self.columns).__name__})."
            )
        check_positive_int("num_points", self.num_points)

    def read(self, nodes: Tensor) -> Tensor:
        """The columns [N, M] of M nodes, checked.

        Raises:
            TypeError: if nodes are not integers, or columns no floating-point numbers.
            ValueError: if there is no such node, or columns are of another shape or not finite.
        """
        check_nodes("nodes", nodes, self.num_points)
        out = self.columns(nodes)
        check_float("columns", out)
        check_dense("columns", out)
        if out.shape != (self.num_points, nodes.numel()):
            raise ValueError(
                f"Expected 'columns' to return shape [{self.num_points}, {nodes.numel()}], a "
                f"column for each node asked for (got {list(out.shape)})."
            )
        check_finite("columns", out)
        return out.detach().to(compute_dtype(out))


def geodesic_columns(
    edge_index: Tensor, num_nodes: int, edge_length: Tensor | None = None
) -> ColumnOracle:
    """Lengths of shortest paths of a connected graph, by Dijkstra's algorithm from each node asked.

    Args:
        edge_index: [2, E]; one direction of an edge is enough.
        num_nodes: N.
        edge_length: [E] non-negative; None: one each.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if edges or lengths are not valid; where a column is read, if the graph is not
            connected.

    Example:
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> geodesic_columns(path, 3, torch.tensor([2.0, 0.5])).read(torch.tensor([0]))[:, 0]
        tensor([0.0000, 2.0000, 2.5000])
    """
    from scipy.sparse import coo_matrix  # costs a start-up that only this needs
    from scipy.sparse.csgraph import dijkstra

    check_edge_index(edge_index, num_nodes)
    if edge_length is None:
        edge_length = torch.ones(edge_index.size(1))
    check_edge_weight(edge_length, edge_index.size(1), "edge_length")
    dtype = compute_dtype(edge_length)
    source, target = edge_index.cpu().numpy()
    # SciPy adds parallel edges up, and takes a stored zero for no edge: keep the shortest, and lift
    # zeros by less than any sum notices.
    length = np.maximum(edge_length.detach().cpu().double().numpy(), np.finfo(np.float64).tiny)
    order = np.lexsort((length, target, source))
    first = np.ones(order.size, bool)
    first[1:] = (np.diff(source[order]) != 0) | (np.diff(target[order]) != 0)
    kept = order[first]
    graph = coo_matrix((length[kept], (source[kept], target[kept])), (num_nodes, num_nodes)).tocsr()

    def columns(nodes: Tensor) -> Tensor:
        path = torch.from_numpy(dijkstra(graph, directed=False, indices=nodes.numpy()).T)
        if bool(torch.isinf(path).any()):
            raise ValueError(
                "Expected a connected graph (got nodes that no path joins). To fix this, join its "
                "components, knn_graph(..., connect=True), or take the cost from heat."
            )
        return path.to(dtype)

    return ColumnOracle(columns, num_nodes)


class Columns(Protocol):
    """Columns of the points that have mass."""

    def of(self, anchors: Tensor) -> Tensor:
        """The columns [N, M] of M anchors."""


class Matrix:
    """All columns, kept."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    def of(self, anchors: Tensor) -> Tensor:
        """The columns [N, M] of M anchors."""
        return self.matrix[:, anchors]


class PerAnchor:
    """Columns computed when they are asked for; the latest stay."""

    def __init__(self, oracle: ColumnOracle, points: Tensor) -> None:
        self.oracle, self.points = oracle, points
        self.kept: OrderedDict[int, Tensor] = OrderedDict()
        self.room = max(1, _KEPT // points.numel())

    def of(self, anchors: Tensor) -> Tensor:
        """The columns [N, M] of M anchors."""
        wanted = anchors.tolist()
        missing = [each for each in dict.fromkeys(wanted) if each not in self.kept]
        if missing:
            new = self.oracle.read(self.points[missing])[self.points]
            self.kept.update(zip(missing, new.unbind(1), strict=True))
        for each in wanted:
            self.kept.move_to_end(each)
        out = torch.stack([self.kept[each] for each in wanted], 1)
        while len(self.kept) > self.room:
            self.kept.popitem(last=False)
        return out


class Landmarks:
    """Any column from those of a few landmarks, C ~ C_L C_LL^+ C_L^T.

    Source: C. Williams, M. Seeger, "Using the Nyström method to speed up kernel machines", 2000;
    indefinite matrices as well, by the pseudo-inverse.
    """

    def __init__(self, oracle: ColumnOracle, points: Tensor, count: int) -> None:
        columns = [oracle.read(points[:1])[points]]
        chosen, gap = [0], _gap(columns[0], 0)
        for _ in range(min(count, points.numel()) - 1):  # farthest from those so far
            farthest = int(gap.argmax())
            if float(gap[farthest]) <= 0:
                break  # what is left are copies
            chosen.append(farthest)
            columns.append(oracle.read(points[[farthest]])[points])
            gap = torch.minimum(gap, _gap(columns[-1], farthest))
        self.columns = torch.cat(columns, 1)
        value, vector = torch.linalg.eigh(self.columns[chosen].double())
        inverse = torch.where(value.abs() > _NULL * value.abs().max(), 1 / value, 0)
        inverse = torch.nan_to_num(inverse, posinf=0, neginf=0)
        block = (vector * inverse) @ vector.T
        self.weights = (self.columns.double() @ block).to(self.columns)

    def of(self, anchors: Tensor) -> Tensor:
        """The columns [N, M] of M anchors."""
        return self.weights @ self.columns[anchors].T


def _gap(column: Tensor, node: int) -> Tensor:
    """How far the points are from one: of distances the column itself, of similarities likewise."""
    return (column[:, 0] - column[node, 0]).abs()


def read_source(name: str, source: Any) -> ColumnOracle | Tensor:
    """A symmetric matrix [N, N], or an oracle; checked."""
    if isinstance(source, ColumnOracle):
        return source
    check_instance(name, source, Tensor, "a matrix [N, N], or a ColumnOracle such as geodesics")
    check_float(name, source)
    check_dense(name, source)
    if source.dim() != 2 or source.size(0) != source.size(1) or source.numel() == 0:
        raise ValueError(
            f"Expected '{name}' to be a square matrix, not empty (got shape {list(source.shape)})."
        )
    check_finite(name, source)
    source = source.detach().to(compute_dtype(source))
    check_symmetric(name, source, source.mT)
    return source


def prepare(source: ColumnOracle | Tensor, points: Tensor, mode: str, landmarks: int) -> Columns:
    """The columns of the points that have mass, as `mode` says."""
    check_choice("mode", mode, MODES)
    if isinstance(source, Tensor):
        whole = source
        if mode == "precomputed":
            return Matrix(whole[points][:, points])
        source = ColumnOracle(lambda nodes: whole[:, nodes], whole.size(0))
    if mode == "precomputed":
        matrix = source.read(points)[points]
        check_symmetric("columns", matrix, matrix.mT)
        return Matrix((matrix + matrix.mT) / 2)
    return (
        PerAnchor(source, points) if mode == "per_anchor" else Landmarks(source, points, landmarks)
    )
