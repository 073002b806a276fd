"""The distance as a module, for descent on the coordinates or weights of either side."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._checks import check_choice
from ..._precision import power_of_two, without_autocast
from ...kernels.table import SINKHORN
from ...kernels.torch_func import outside_inference
from ..costs.factor import Factor
from ..costs.first_order import check_reverse_mode
from ..factored.solver import Task, read_task
from ..factored.starts import STARTS
from ..plan.plan import Plan
from ..problem.inputs import check_cost
from ..problem.options import SolverOptions, read_starts
from .distance import DIFFERENTIABLE
from .envelope import OPTIMUM, value_at

_CHANGE = 0.5  # of costs, features or masses between two calls, relative to their norm


class _Inputs(NamedTuple):
    """What a call was given."""

    sides: list[Factor]  # costs of both sides, and their features, in float64
    masses: list[Tensor]
    known_pairs: Tensor  # [2, M]


class GromovWassersteinLoss(torch.nn.Module):
    """The discrepancy :func:`.gw_distance` as a loss, which starts from the plan of the last call.

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
    ) -> None:
        super().__init__()
        self.options = SolverOptions(
            epsilon=epsilon, absolute=absolute, alpha=alpha, marginals=marginals, rho=rho,
            coarse=coarse, starts=read_starts(starts, STARTS, takes_plans=False), tol=tol,
            max_iter=max_iter, seed=seed, backend=backend, progress=progress,
        )  # fmt: skip
        check_choice("marginals", marginals, DIFFERENTIABLE)
        check_cost(cost)
        SINKHORN.check(backend)
        self.cost = cost
        self.forget()

    def forget(self) -> None:
        """Clear the last plan: the next call looks for the optimum anew."""
        self._plan: Plan | None = None
        self._inputs = _Inputs([], [], torch.empty(0))
        self._rho = 0.0

    @property
    def plan(self) -> Plan | None:
        """The plan of the last call, if there was one."""
        return self._plan

    @outside_inference()
    @without_autocast
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
        task = read_task(source, target, self.cost, p, q, features, known_pairs, self.options)
        check_reverse_mode(OPTIMUM, *task.tensors)
        inputs, rho = _snapshot(task), self._rho
        if self._plan is not None and _is_near(inputs, self._inputs):
            options = replace(
                self.options, epsilon=self._plan.epsilon, absolute=True, rho=rho,
                starts=self._plan,
            )  # fmt: skip
            task = replace(task, options=options)
        else:
            columns = task.relaxation().columns
            rho = columns if columns < float("inf") else 0.0
        # All at once: a call that fails or is interrupted leaves what the last one left.
        self._plan, self._inputs, self._rho = task.solve(is_sharpened=True), inputs, rho
        return value_at(task, self._plan)

    def __repr__(self) -> str:
        options = self.options
        return (
            f"{type(self).__name__}(cost={self.cost!r}, epsilon={options.epsilon:g}, "
            f"marginals={options.marginals!r})"
        )


def _snapshot(task: Task) -> _Inputs:
    """Everything that tells one pair from another, copied."""
    factors = task.first, task.second
    features = [Factor(each.detach()) for each in task.features or ()]  # only where they lie apart
    none = torch.empty(2, 0, dtype=torch.int64)
    return _Inputs(
        [_copied(each.detach()) for each in (*factors, *features)],
        [task.p.detach(), task.q.detach()],
        none if task.known_pairs is None else task.known_pairs.cpu().clone(),
    )


def _copied(factor: Factor) -> Factor:
    """A factor in float64, centred where only distances count."""
    x = factor.x.double()
    return replace(factor, x=x - x.mean(0) if factor.kind == "sqdist" else x.clone())


def _is_near(new: _Inputs, old: _Inputs) -> bool:
    """True if the optimum of one call is a good start for the other."""
    shapes, old_shapes = (
        [(each.kind, each.num_points) for each in inputs.sides] for inputs in (new, old)
    )
    if shapes != old_shapes or not torch.equal(new.known_pairs, old.known_pairs):
        return False
    return all(map(_are_alike, new.sides, old.sides)) and all(
        float((mass - before).abs().sum()) <= _CHANGE
        for mass, before in zip(new.masses, old.masses, strict=True)
    )


def _are_alike(first: Factor, second: Factor) -> bool:
    """True if two kernels differ by at most half of the larger; no rotation of X counts."""
    # In the unit of the larger coordinates, of which fourth powers are summed.
    largest = torch.maximum(first.x.abs().max(), second.x.abs().max())
    first, second = (replace(each, x=each.x / power_of_two(largest)) for each in (first, second))
    pairs = (first, first), (second, second), (first, second)
    xx, yy, xy = (float(a.signs @ (a.x.T @ b.x).square() @ b.signs) for a, b in pairs)
    return xx + yy - 2 * xy <= _CHANGE**2 * max(xx, yy)
