"""Every number that tunes the solver, in the order in which its three steps use them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..plan.plan import Step


@dataclass(frozen=True)
class Schedule:
    """How much is tried; temperatures are shares of the critical one."""

    # Starts: rough plans between features of the points.
    neighbors: tuple[int, ...] = (15, 30)  # of the graphs for heat profiles
    most_points: int = 4000  # with heat profiles; a sample where there are more
    sampled_costs: int = 200  # in the cost profile of a point
    quantiles: int = 32
    match_temperatures: tuple[float, ...] = (0.05, 0.02)  # shares of the mean squared distance
    match_passes: int = 12  # of Sinkhorn's iteration: a start need not be exact
    match_tol: float = 1e-2

    # Race: all starts between a few cells, the best of them between more cells.
    coarse: int = 300  # cells of the first level
    middle: int = 800  # and of the second
    cell_training: int = 32  # points a cell
    cell_iterations: int = 6  # of k-means
    hot: tuple[float, ...] = (0.3, 0.3 / 1.5**3)  # where starts begin
    warm: float = 0.2  # where plans of new moments begin
    cooling: float = 1.5  # a step
    race_updates: int = 3  # of the moments at a temperature
    kept: int = 4  # plans that go on to the second level
    same: float = 0.02  # relative difference of the moments of plans that are the same
    feasible: float = 0.1  # marginal error of plans whose energies can be compared
    sharp: float = 0.7  # mean largest share of rows from which on cells are not cooled
    limited: float = 0.25  # the same from which on cells, not the temperature, limit a plan
    close: float = 0.05  # of the energy: plans between cells that are compared among all points

    # Descent: the best plans among all points, and restarts.
    cooling_tol: float = 1e-2  # before the last temperature
    cooling_updates: int = 12
    final_sharp: float = 0.95  # a colder plan would be the same
    many_passes: int = 60  # where four lose the mass of columns
    restarted: float = 0.06  # warm enough for points to find new partners
    restarts: int = 6  # at most
    agreeing: float = 0.5  # the share of the mass that a restart begins from
    lower: float = 1e-4  # of the energy: a better plan
    stable: float = 0.9  # from which temperature on the independent plan may be stable

    # From a plan: cooling goes on from there.
    follow_tol: float = 1e-2
    follow_passes: int = 30
    follow_updates: int = 3
    far: float = 1e3  # times a temperature: potentials of plans there say nothing

    # Copies: colder plans by their known potentials.
    nearly_copy: float = 0.02  # mismatch of sides that may be copies
    copy: float = 2e-3  # and of copies
    sharpening: float = 100.0  # times colder
    coldest: float = 1e-6  # below which no copies are cooled
    copy_steps: int = 8  # of the moments, at most

    # Confidence: a sample is aligned with a set of the same spectrum.
    confidence_sample: int = 200  # points
    confidence_hot: tuple[float, ...] = (0.3, 0.1)
    confidence_cold: float = 0.01


SCHEDULE = Schedule()


@dataclass(frozen=True)
class Run:
    """What one call asks for, in the unit of its problem."""

    lowest: float  # the last temperature
    critical: float  # the one above which the plan is p q^T
    tol: float = 1e-3
    max_iter: int = 20  # updates of the moments at the last temperature
    seed: int = 0
    may_stop: bool = True  # before the last temperature, if rows are sharp
    unit: float = 1.0  # one of its squared costs, in the user's unit
    report: Callable[[Step], Any] = lambda step: None
