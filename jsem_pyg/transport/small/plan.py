"""Many small plans, one for each pair of graphs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..._checks import check_finite, check_float, check_nonnegative_int, check_rows
from ..plan.plan import Plan
from ..sinkhorn.scores import DenseScores
from .costs import is_point


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """Masses that go from the points of graph b of the one batch to those of graph b of the other.

    Args:
        table: [B, n, m] the plans, zero in what pads a smaller pair.
        cost: [B] float64, the squared Gromov-Wasserstein discrepancies that they reach.
        sizes: the sizes [B] of the source graphs and of the target graphs, int64 on the CPU.
        converged: [B] bool, whether no vertex of the polytope of plans was better in the end.
        potentials: [B, n] and [B, m] float64, the derivatives of the costs in the masses, each up
            to a constant.
        marginal_error: [B] float64, how much of a pair's mass is not where it should be.
    """

    table: Tensor
    cost: Tensor
    sizes: tuple[Tensor, Tensor]
    converged: Tensor
    potentials: tuple[Tensor, Tensor]
    marginal_error: Tensor

    def __len__(self) -> int:
        return self.table.size(0)

    def dense(self) -> Tensor:
        """All plans [B, n, m], n and m the sizes of the largest graphs."""
        return self.table

    def plan(self, pair: int) -> Plan:
        """The plan of one pair, without padding.

        Raises:
            TypeError: if `pair` is not an integer.
            ValueError: if there is no such pair.
        """
        check_nonnegative_int("pair", pair)
        if pair >= len(self):
            raise ValueError(f"Expected 'pair' to be below {len(self)} (got {pair}).")
        n, m = (int(size[pair]) for size in self.sizes)
        return Plan(
            DenseScores(self.table[pair, :n, :m].log2()),
            float(self.cost[pair]),
            converged=bool(self.converged[pair]),
        )

    def argmax(self) -> Tensor:
        """The node of the target graph that gets most of each source node.

        Returns:
            [sum of n_b] int64, indices into the nodes of the target batch as PyG numbers them; -1
            for a node without mass.
        """
        mass, place = self.table.max(2)
        first = (self.sizes[1].cumsum(0) - self.sizes[1]).to(place.device)
        place = torch.where(mass > 0, place + first[:, None], -1)
        return place[is_point(self.sizes[0], self.table)]

    def apply(self, y: Tensor) -> Tensor:
        """The barycentric projection: each source node gets the mean of what it is sent to.

        Args:
            y: [sum of m_b, D] a signal of the nodes of the target batch.

        Returns:
            [sum of n_b, D], zero for nodes without mass. Differentiable in `y`.

        Raises:
            TypeError: if `y` is not a floating-point tensor.
            ValueError: if it has no row for each node of the target batch, or is not finite.
        """
        check_float("y", y)
        check_rows("y", y, int(self.sizes[1].sum()), "node of the target batch")
        check_finite("y", y)
        signal = y[:, None] if y.dim() == 1 else y
        padded = signal.new_zeros(len(self), self.table.size(2), signal.size(1))
        padded = padded.index_put((is_point(self.sizes[1], padded),), signal)
        mass = self.table.sum(2, keepdim=True)
        share = self.table / torch.where(mass > 0, mass, 1)
        dtype = torch.promote_types(share.dtype, signal.dtype)
        out = (share.to(dtype) @ padded.to(dtype))[is_point(self.sizes[0], self.table)]
        return out[:, 0] if y.dim() == 1 else out

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self)} pairs, mean cost="
            f"{float(self.cost.mean()):.4g}, converged={int(self.converged.sum())})"
        )
