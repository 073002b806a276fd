"""A transport plan, and quantities of it that do not need the whole table."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ..._checks import check_finite, check_float, check_positive_int, check_rows
from ...kernels.csr import quiet_sparse_tensors
from ...kernels.torch_func import without_autocast
from .scores import Scores, SparseScores, average, row_blocks, row_sums

_DENSE_LIMIT = 1 << 28  # numbers of `Plan.dense`, at most: a gigabyte of float32


class Step(NamedTuple):
    """What a solver reports of one step."""

    stage: str  #: such as "200 x 200 cells, profiles" or "all points"
    epsilon: float  #: the temperature, in the unit of squared costs
    cost: float  #: the objective without the entropy, and of factored costs less a constant
    marginal_error: float  #: `sum_j |c_j - q_j| / sum_j q_j` of the column sums c
    sharpness: float  #: the mean over the mass of a row's largest share, 1 for a permutation


@dataclass(frozen=True, eq=False)
class Plan:
    """Holds a transport plan: the mass T [N, K] that each source point sends to each target.

    Args:
        scores: log2 T.
        cost: the objective at the end, without the entropy: the squared GW discrepancy
            `sum |C_ik - D_jl|^2 T_ij T_kl`, with the costs of features, if any.
        epsilon: the temperature at the end, in the unit of squared costs.
        converged: whether the solver's tolerance was met.
        history: the steps of the solver, in their order.
        source: [N, r] the coordinates that the plan was computed from, centred; None where there
            are none.
        target: [K, s] the same of the other side.
        confidence_model: what computes :attr:`confidence` of a plan; None if nothing does.
        dtype: the type of the tensors that the methods return; None for the type of the scores,
            float64 if float32 would not resolve them.
        bounds: [N] and [K], the most that points of a partial plan may send and receive.
    """

    scores: Scores
    cost: float
    epsilon: float = 0.0
    converged: bool = True
    history: list[Step] = field(default_factory=list)
    source: Tensor | None = None
    target: Tensor | None = None
    confidence_model: "Callable[[Plan], Tensor] | None" = field(default=None, repr=False)
    dtype: torch.dtype | None = None
    bounds: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.scores.shape

    def argmax(self) -> Tensor:
        """Find the target point that gets most of a source point: [N] int64.

        -1 without mass, and for a point without a partner in a partial plan.
        """
        if isinstance(self.scores, SparseScores):
            return self.scores.best()
        best = [_best(block) for _, block in row_blocks(self.scores)]
        found = torch.cat(best) if best else self.scores.like.new_zeros(0, dtype=torch.int64)
        return found if self.bounds is None else torch.where(self._share() < 0.5, -1, found)

    def _share(self) -> Tensor:
        """Compute the share [N] of what points may send that they do send."""
        assert self.bounds is not None
        most = self.bounds[0]
        return row_sums(self.scores) / torch.where(most > 0, most, 1)

    def topk(self, k: int) -> Tensor:
        """Find the k largest entries of every row, as a sparse tensor.

        Args:
            k: how many; all if there are fewer columns.

        Returns:
            A coalesced sparse COO tensor [N, K]; entries without mass are left out.
        """
        check_positive_int("k", k)
        kept = min(k, self.shape[1])
        if isinstance(self.scores, SparseScores):
            row, column, mass = self.scores.largest(kept)
            return self._sparse(torch.stack([row, column]), mass.exp2())
        parts = []
        for rows, block in row_blocks(self.scores):
            value, column = block.topk(kept, dim=1)
            row = torch.arange(rows.start, rows.stop, device=block.device)[:, None].expand_as(value)
            has_mass = value > -torch.inf
            parts.append((torch.stack([row[has_mass], column[has_mass]]), value[has_mass].exp2()))
        index, value = (torch.cat(each, -1) for each in zip(*parts, strict=True))
        return self._sparse(index, value)

    def _sparse(self, index: Tensor, value: Tensor) -> Tensor:
        with quiet_sparse_tensors():
            return torch.sparse_coo_tensor(
                index,
                self._cast(value),
                self.shape,
                check_invariants=False,  # indices of `topk` are what they should be
            ).coalesce()

    def apply(self, y: Tensor) -> Tensor:
        """Average `y` over the targets of each source point: the barycentric projection.

        Args:
            y: [K, D] a signal of the target points, such as features, or classes one-hot.

        Returns:
            [N, D], the rows of diag(1 / T1) T y; zero in rows without mass. Differentiable in `y`.
        """
        check_float("y", y)
        check_rows("y", y, self.shape[1], "target point")
        check_finite("y", y)
        dtype = torch.promote_types(self.scores.like.dtype, y.dtype)
        columns = y.to(dtype).reshape(self.shape[1], -1)
        means = average(self.scores.shares(dtype), columns).reshape(self.shape[0], *y.shape[1:])
        return means.to(torch.promote_types(self.dtype or dtype, y.dtype))

    def dense(self) -> Tensor:
        """Compute the table of the plan: [N, K].

        Raises:
            ValueError: if it has more than 2^28 entries, a gigabyte in float32.
        """
        if self.shape[0] * self.shape[1] > _DENSE_LIMIT:
            raise ValueError(
                f"Expected a plan of at most {_DENSE_LIMIT} entries (got {self.shape[0]} x "
                f"{self.shape[1]}). To fix this, ask for 'topk', 'argmax' or 'apply' instead."
            )
        return self._cast(self.scores.rows(0, self.shape[0]).exp2())

    def marginals(self) -> tuple[Tensor, Tensor]:
        """Sum the masses that leave the source [N] and arrive at the target [K], float64."""
        return row_sums(self.scores), self.scores.column_sums()

    def perplexity(self) -> Tensor:
        """Count the target points that share a source point's mass, [N]: exp of the entropy.

        One for a point that goes to a single other, K for one that goes everywhere, and zero for
        one without mass.
        """
        share = self.scores.shares(self.scores.like.dtype)
        if isinstance(share, SparseScores):
            return self._cast(torch.where(share.best() >= 0, share.entropies().exp(), 0))
        parts = [_perplexity(block) for _, block in row_blocks(share)]
        return self._cast(torch.cat(parts) if parts else self.scores.like.new_zeros(0))

    @cached_property
    @without_autocast
    def confidence(self) -> Tensor:
        """Estimate the probability [N] that the partner, :meth:`argmax`, is right.

        Of :func:`match_graphs` it is the probability of the true partner; nodes that nothing tells
        apart share it, and if no edge is kept it is zero. A known pair has the confidence that it
        would have if it were not known: a low one points to a wrong pair. Of
        :func:`gromov_wasserstein` it is the probability that the partner is among the tenth of all
        targets that is nearest to the true one; features and known pairs do not count. Zero without
        mass. All are fitted to simulated pairs, some with nothing in common
        (`examples/benchmarks/alignment_confidence.py`): a low mean says that sides do not
        correspond, or do not show how. Reading it first takes as long as a small alignment.

        Raises:
            ValueError: if the plan comes from another solver.
        """
        if self.confidence_model is None:
            raise ValueError(
                "Expected a plan of match_graphs or gromov_wasserstein (got one of another solver, "
                "which has no model of its confidence)."
            )
        found = self.confidence_model(self)
        return found if self.bounds is None else found * self._share().clamp(max=1).to(found)

    def transposed(self) -> "Plan":
        """Turn the plan round, from the target to the source."""
        return Plan(
            self.scores.transposed(),
            self.cost,
            self.epsilon,
            self.converged,
            self.history,
            self.target,
            self.source,
            None if self.confidence_model is None else self._confidence_of_targets,
            self.dtype,
            None if self.bounds is None else self.bounds[::-1],
        )

    def _cast(self, result: Tensor) -> Tensor:
        return result.to(self.dtype or result.dtype)

    def _confidence_of_targets(self, received: "Plan") -> Tensor:
        """Average over the mass of a target point the confidence of its source points: [K]."""
        return received.apply(self.confidence[:, None])[:, 0]

    @without_autocast
    def joint_embedding(self, dim: int = 2) -> tuple[Tensor, Tensor]:
        """Put both sides in one space, matched points close together.

        The singular vectors of the matched coordinates X^T T Y turn both sides onto shared axes
        (the largest matched covariance first), as canonical correlations would.

        Args:
            dim: the number of axes, at most the smaller rank.

        Returns:
            [N, dim] and [K, dim].

        Raises:
            ValueError: if `dim` is larger than the ranks allow, or if the plan was not computed
                from coordinates.
        """
        check_positive_int("dim", dim)
        if self.source is None or self.target is None:
            raise ValueError(
                "Expected a plan between factored costs, which have coordinates (got one between "
                "matrices). To fix this, use `apply` on coordinates of your own."
            )
        most = min(self.source.size(1), self.target.size(1))
        if dim > most:
            raise ValueError(f"Expected 'dim' to be at most {most}, the smaller rank (got {dim}).")
        source, target = self._cast(self.source.detach()), self._cast(self.target.detach())
        mass = row_sums(self.scores).to(source)
        matched = source.T @ (mass[:, None] * self.apply(target))
        left, _, right = torch.linalg.svd(matched, full_matrices=False)
        return source @ left[:, :dim], target @ right[:dim].T

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.shape[0]} x {self.shape[1]}, cost={self.cost:.4g}, "
            f"epsilon={self.epsilon:.3g}, converged={self.converged})"
        )


def _best(block: Tensor) -> Tensor:
    value, column = block.max(1)
    return torch.where(value > -torch.inf, column, -1)


def _perplexity(block: Tensor) -> Tensor:
    """Compute exp(entropy) of rows of log2 T that have the sum one, or no mass."""
    entropy = torch.special.entr(block.exp2()).sum(1)
    return torch.where(block.amax(1) > -torch.inf, entropy.exp(), 0)
