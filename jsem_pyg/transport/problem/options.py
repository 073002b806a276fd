"""What may be chosen about a transport problem, but for its data."""

from dataclasses import dataclass

from ..._checks import (
    check_between,
    check_bool,
    check_choice,
    check_nonnegative,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from .relaxation import BALANCED, MARGINALS, Relaxation


@dataclass(frozen=True)
class Options:
    """See :func:`.gromov_wasserstein`."""

    epsilon: float
    absolute: bool
    alpha: float
    marginals: str
    rho: float
    mass: float
    coarse: int
    tol: float
    max_iter: int
    seed: int
    progress: bool

    def check(self) -> None:
        """Raise a TypeError or ValueError unless all are what they should be."""
        check_positive("epsilon", self.epsilon)
        check_bool("absolute", self.absolute)
        check_between("alpha", self.alpha, 0, 1)
        check_choice("marginals", self.marginals, MARGINALS)
        check_nonnegative("rho", self.rho)
        check_positive("mass", self.mass)
        check_positive_int("coarse", self.coarse)
        check_positive("tol", self.tol)
        check_positive_int("max_iter", self.max_iter)
        check_nonnegative_int("seed", self.seed)
        check_bool("progress", self.progress)

    def relaxation(self, unit: float) -> Relaxation:
        """How much marginals are held, where rho counts in this unit."""
        rho = self.rho * unit
        if self.marginals == "semirelaxed":
            return Relaxation(columns=rho)
        if self.marginals == "unbalanced":
            return Relaxation(rows=rho, columns=rho)
        return Relaxation(mass=self.mass) if self.marginals == "partial" else BALANCED
