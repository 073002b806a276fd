"""Columns of the points that have mass: all of them, the latest, or some landmarks' alone."""

from collections import OrderedDict
from typing import Protocol

import torch
from torch import Tensor

from ..._checks import check_choice
from ..costs.cost import Cost, check_symmetry

MODES = ("precomputed", "landmark", "per_anchor")

_KEPT = 1 << 26  # numbers of columns that "per_anchor" keeps
_NULL = 1e-5  # eigenvalues of the landmarks' block below this share of the largest are rounding


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

    def __init__(self, cost: Cost, points: Tensor) -> None:
        self.cost, self.points = cost, points
        self.kept: OrderedDict[int, Tensor] = OrderedDict()
        self.room = max(1, _KEPT // points.numel())

    def of(self, anchors: Tensor) -> Tensor:
        """The columns [N, M] of M anchors."""
        wanted = anchors.tolist()
        missing = [each for each in dict.fromkeys(wanted) if each not in self.kept]
        if missing:
            new = self.cost.columns(self.points[missing])[self.points]
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

    def __init__(self, cost: Cost, points: Tensor, count: int) -> None:
        columns = [cost.columns(points[:1])[points]]
        chosen, gap = [0], _gap(columns[0], 0)
        for _ in range(min(count, points.numel()) - 1):  # farthest from those so far
            farthest = int(gap.argmax())
            if float(gap[farthest]) <= 0:
                break  # what is left are copies
            chosen.append(farthest)
            columns.append(cost.columns(points[[farthest]])[points])
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


def prepare(cost: Cost, points: Tensor, mode: str, landmarks: int) -> Columns:
    """The columns of the points that have mass, as `mode` says."""
    check_choice("mode", mode, MODES)
    if mode == "precomputed":
        matrix = cost.columns(points)[points]
        check_symmetry("columns", matrix)
        return Matrix((matrix + matrix.mT) / 2)
    return PerAnchor(cost, points) if mode == "per_anchor" else Landmarks(cost, points, landmarks)
