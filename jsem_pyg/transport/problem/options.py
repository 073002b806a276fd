"""Options of the solvers: the same words mean the same in each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..._checks import (
    check_between,
    check_bool,
    check_choice,
    check_nonnegative_int,
    check_number,
    check_positive,
    check_positive_int,
)
from ...kernels.table import SINKHORN
from ..plan.plan import Plan

STARTS = ("heat", "costs", "axes", "zero")


@dataclass(frozen=True)
class SolverOptions:
    """Everything about a solver that a user may choose, checked; see :func:`.gromov_wasserstein`.

    A solver uses the fields that its public function has, and the defaults of that function.
    """

    epsilon: float = 0.01
    absolute: bool = False
    alpha: float = 0.5
    mass: Any = None
    starts: Any = None
    tol: float = 1e-3
    max_iter: int = 20
    seed: int = 0
    backend: str = "auto"
    progress: bool = True

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        check_bool("absolute", self.absolute)
        check_between("alpha", self.alpha, 0, 1)
        if isinstance(self.mass, str):
            check_choice("mass", self.mass, ("source",))
        elif self.mass is not None:
            check_number("mass", self.mass)
            if not 0 < self.mass <= 1:
                raise ValueError(f"Expected 'mass' to lie in (0, 1] (got {self.mass!r}).")
        if self.starts is not None and not isinstance(self.starts, Plan):
            _check_starts(self.starts)
        check_positive("tol", self.tol)
        check_positive_int("max_iter", self.max_iter)
        check_nonnegative_int("seed", self.seed)
        object.__setattr__(self, "seed", int(self.seed))  # not NumPy's, of few bits
        SINKHORN.check(self.backend)
        check_bool("progress", self.progress)


def _check_starts(starts: Any) -> None:
    if isinstance(starts, str) or not isinstance(starts, Sequence) or not starts:
        raise TypeError(
            f"Expected 'starts' to be a Plan, or some of {', '.join(map(repr, STARTS))} (got "
            f"{starts!r})."
        )
    for name in starts:
        if name not in STARTS:
            raise ValueError(
                f"Expected 'starts' to be some of {', '.join(map(repr, STARTS))} (got {name!r})."
            )
