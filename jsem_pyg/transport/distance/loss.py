"""The distance as a module, for descent on the coordinates or weights of either side."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._checks import check_bool, check_choice
from ...kernels.table import SINKHORN
from ..costs.factor import Factor
from ..factored.solver import read_task
from ..factored.starts import STARTS
from ..plan.plan import Plan
from ..problem.inputs import as_factor, check_cost, check_known_pairs, read_features
from ..problem.masses import read_masses
from ..problem.options import SolverOptions, read_starts
from .distance import DIFFERENTIABLE, value_at

_CHANGE = 0.5  # of costs, features or masses between two calls, relative to their norm


class _Inputs(NamedTuple):
    """Detached copies of the inputs of one call, to detect another pair in the next call."""

    sides: list[Tensor]  # coordinates [N, r], centred, of both sides and of their features
    masses: list[Tensor]  # [N] and [K], with sum one
    known_pairs: Tensor | None

    @classmethod
    def of(
        cls,
        first: Factor,
        second: Factor,
        p: Tensor | None,
        q: Tensor | None,
        features: tuple[Tensor, Tensor] | None,
        known_pairs: Tensor | None,
    ) -> "_Inputs":
        """Read and check the arguments of a call."""
        read = () if features is None else read_features(features, first, second)
        sides = [each.detach().double() for each in (first.x, second.x, *read)]
        masses = [
            read_masses(name, mass, each.num_points).detach().cpu()
            for name, mass, each in (("p", p, first), ("q", q, second))
        ]
        if known_pairs is not None:
            check_known_pairs(known_pairs, first, second)
            known_pairs = known_pairs.clone()
        return cls([each - each.mean(0) for each in sides], masses, known_pairs)

    def is_near(self, other: "_Inputs") -> bool:
        """True if the optimum of one is a good start for the other."""
        ours, theirs = ([each.size(0) for each in inputs.sides] for inputs in (self, other))
        if ours != theirs or not _is_same(self.known_pairs, other.known_pairs):
            return False
        return all(map(_is_near, self.sides, other.sides)) and all(
            float((new - old).abs().sum()) <= _CHANGE
            for new, old in zip(self.masses, other.masses, strict=True)
        )


def _is_same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one, other)


def _is_near(x: Tensor, y: Tensor) -> bool:
    """True if X X^T and Y Y^T differ by at most half of the larger; no rotation of X counts."""
    xx, yy, xy = (float((a.T @ b).square().sum()) for a, b in ((x, x), (y, y), (x, y)))
    return xx + yy - 2 * xy <= _CHANGE**2 * max(xx, yy)


class GromovWassersteinLoss(torch.nn.Module):
    """How much two spaces differ, :func:`.gw_distance`, while one of them is learned.

    The first call looks for the optimum. A further call follows it: it starts from the last plan,
    which takes few steps, at the same temperature (and penalty) in the unit of squared costs, so
    that the loss is one function, of which each step descends. A call on another pair looks for the
    optimum anew: where the number of points differs, or known pairs do, or where the costs of a
    side, its features or its masses have changed by more than half of their norm since the last
    call. :meth:`forget` makes the next call look anew in any case.

    Args:
        cost: as in :func:`.gromov_wasserstein`, like all that follow.
        epsilon: likewise.
        absolute: likewise.
        alpha: likewise.
        marginals: "balanced", "semirelaxed" or "unbalanced".
        rho: likewise.
        coarse: likewise.
        starts: of the first call, likewise.
        tol: likewise.
        max_iter: likewise.
        seed: likewise.
        backend: likewise.
        progress: likewise.
        warm_start: whether a plan is followed; if not, each call looks anew.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if one is out of range.

    Example:
        >>> import torch
        >>> target = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> x = torch.nn.Parameter(target.flip(0) / 2)
        >>> loss, optimizer = GromovWassersteinLoss(), torch.optim.Adam([x], lr=0.1)
        >>> for _ in range(50):
        ...     optimizer.zero_grad()
        ...     loss(x, target).backward()
        ...     optimizer.step()
        >>> bool((torch.pdist(x) - torch.pdist(target.flip(0))).abs().max() < 0.1)
        True
    """

    def __init__(
        self,
        cost: Any = None,
        epsilon: float = 0.01,
        *,
        absolute: bool = False,
        alpha: float = 0.5,
        marginals: str = "balanced",
        rho: float = 0.1,
        coarse: int = 300,
        starts: Sequence[str] | None = None,
        tol: float = 1e-4,
        max_iter: int = 100,
        seed: int = 0,
        backend: str = "auto",
        progress: bool = False,
        warm_start: bool = True,
    ) -> None:
        super().__init__()
        self._options = SolverOptions(
            epsilon=epsilon, absolute=absolute, alpha=alpha, marginals=marginals, rho=rho,
            coarse=coarse, starts=read_starts(starts, STARTS, takes_plans=False), tol=tol,
            max_iter=max_iter, seed=seed, backend=backend, progress=progress,
        )  # fmt: skip
        check_choice("marginals", marginals, DIFFERENTIABLE)
        check_bool("warm_start", warm_start)
        check_cost(cost)
        SINKHORN.check(backend)
        self.cost, self.warm_start = cost, warm_start
        self.forget()

    def forget(self) -> None:
        """Look for the optimum anew in the next call."""
        self._plan: Plan | None = None
        self._inputs: _Inputs | None = None
        self._rho = 0.0

    @property
    def plan(self) -> Plan | None:
        """The plan of the last call, if there was one."""
        return self._plan

    def forward(
        self,
        source: Any,
        target: Any,
        p: Tensor | None = None,
        q: Tensor | None = None,
        features: tuple[Tensor, Tensor] | None = None,
        known_pairs: Tensor | None = None,
    ) -> Tensor:
        """Compute the loss, a number; see :func:`.gw_distance` for all arguments."""
        first, second = (
            as_factor(name, side, self.cost)
            for name, side in (("source", source), ("target", target))
        )
        inputs = _Inputs.of(first, second, p, q, features, known_pairs)
        follows = self.warm_start and self._inputs is not None and inputs.is_near(self._inputs)
        options = self._options
        if follows and self._plan is not None:
            options = replace(
                options, epsilon=self._plan.epsilon, absolute=True, rho=self._rho, starts=self._plan
            )
        task = read_task(first, second, None, p, q, features, known_pairs, options)
        if options is self._options:
            columns = task.relaxation().columns
            self._rho = columns if columns < float("inf") else 0.0
        self._plan, self._inputs = task.solve(is_sharpened=True), inputs
        return value_at(task, self._plan, first, second, p, q)

    def __repr__(self) -> str:
        options = self._options
        return (
            f"{type(self).__name__}(cost={self.cost!r}, epsilon={options.epsilon:g}, "
            f"marginals={options.marginals!r}, warm_start={self.warm_start})"
        )
