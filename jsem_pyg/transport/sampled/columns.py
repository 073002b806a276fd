"""Columns of the points that have mass: all of them, or the latest that were needed."""

from collections import OrderedDict

import torch
from torch import Tensor

from ..costs.cost import Cost, check_symmetry

MODES = ("precomputed", "per_anchor")

_KEPT = 1 << 26  # numbers of columns that "per_anchor" keeps


class Columns:
    """Columns of a cost matrix.

    Args:
        cost: the matrix.
        points: [N] those that have mass; others are left out.
        mode: one of :data:`MODES`.
        dtype: of the columns.
    """

    def __init__(self, cost: Cost, points: Tensor, mode: str, dtype: torch.dtype) -> None:
        self.cost, self.points, self.dtype = cost, points, dtype
        self.kept: OrderedDict[int, Tensor] = OrderedDict()
        self.room = max(1, _KEPT // points.numel())
        self.matrix: Tensor | None = None
        if mode == "precomputed":
            matrix = self._compute(points)
            check_symmetry("columns", matrix)
            self.matrix = (matrix + matrix.mT) / 2

    def of(self, anchors: Tensor) -> Tensor:
        """The columns [N, M] of M anchors."""
        if self.matrix is not None:
            return self.matrix[:, anchors]
        wanted = anchors.tolist()
        missing = [each for each in dict.fromkeys(wanted) if each not in self.kept]
        if missing:
            new = self._compute(self.points[missing])
            self.kept.update(zip(missing, new.unbind(1), strict=True))
        for each in wanted:
            self.kept.move_to_end(each)
        out = torch.stack([self.kept[each] for each in wanted], 1)
        while len(self.kept) > self.room:
            self.kept.popitem(last=False)
        return out

    def _compute(self, nodes: Tensor) -> Tensor:
        return self.cost.columns(nodes)[self.points].to(self.dtype)
