"""Every number that tunes sampled transport."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """How much is drawn, and when a step ends."""

    coarse: int = 128  # points of a coarse problem, whose plan is the start
    coarse_epsilon: float = 0.01  # its lowest temperature, as a share of the critical one
    coarse_tol: float = 1e-2
    critical_sample: int = 256  # points that the critical temperature is estimated from
    loose: tuple[float, int] = (1e-3, 50)  # marginal error and iterations of a step
    exact: tuple[float, int] = (1e-6, 2000)  # the same of the last step, in float32
    exact_double: tuple[float, int] = (1e-12, 2000)
    averaging: float = 0.8  # weight of the past in the mean of the estimates
    smooth: float = 0.9  # of the costs that the plateau is looked for in
    patience: int = 30  # steps without improvement after which to stop
    draws: int = 20  # times as many pairs as in a step estimate the final cost
    columns_kept: int = 1 << 26  # numbers
    marginal_error: float = 1e-3  # of rows and columns together, in a plan that has converged


SCHEDULE = Schedule()
