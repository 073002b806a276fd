"""What is asked: the arguments of a call, read and checked, and the problem that they pose."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ..costs.cost import check_cost_range
from ..costs.factor import Factor
from ..problem.inputs import as_factor, check_kinds, read_features, read_known_pairs
from ..problem.masses import as_partners, read_bounds, read_masses
from ..problem.objective import num_axes
from ..problem.options import SolverOptions
from ..problem.prepare import prepare_factor
from ..problem.problem import SMALL, Problem, make_problem, resolved
from .schedule import Run


@dataclass(frozen=True, eq=False)
class Question:
    """Two sides, and what is known of them, in the user's units."""

    first: Factor
    second: Factor
    p: Tensor  # [N] float64: masses, or the most that points send, if some stay alone
    q: Tensor  # [K] float64
    features: tuple[Tensor, Tensor] | None
    known_pairs: Tensor | None
    options: SolverOptions

    @property
    def alpha(self) -> float:
        """The weight of the structure."""
        return 1.0 if self.features is None else self.options.alpha


def read_question(
    source: Any,
    target: Any,
    *,
    cost: Any = None,
    p: Tensor | None = None,
    q: Tensor | None = None,
    features: tuple[Tensor, Tensor] | None = None,
    known_pairs: Tensor | None = None,
    **options: Any,
) -> Question:
    """Read and check the arguments of :func:`.gromov_wasserstein`."""
    checked = SolverOptions(**options)
    first, second = as_factor("source", source, cost), as_factor("target", target, cost)
    check_kinds(first, second)
    shape = first.num_points, second.num_points
    if checked.mass is None or checked.mass == "source":
        masses = read_masses("p", p, shape[0]), read_masses("q", q, shape[1])
    else:
        masses = read_bounds(p, q, shape)
    left, right = (mass.to(first.x.device) for mass in masses)
    if features is not None:
        features = read_features(features, first, second)
    known_pairs = read_known_pairs(known_pairs, first, second)
    if known_pairs is not None and checked.mass is None and p is None and q is None:
        left, right = as_partners(left, right, known_pairs)
    return Question(first, second, left, right, features, known_pairs, checked)


def without_history(question: Question) -> Question:
    """Take numbers without their history, the masses in the type of the coordinates.

    Small problems, and those in which points stay alone, are solved in float64.
    """
    first, second = question.first.detach(), question.second.detach()
    is_small = first.num_points * second.num_points <= SMALL
    if is_small or question.options.mass is not None:
        first, second = (replace(each, x=each.x.double()) for each in (first, second))
    p, q = (mass.detach().to(first.x.dtype) for mass in (question.p, question.q))
    features = question.features
    if features is not None:
        features = features[0].detach().to(p.dtype), features[1].detach().to(p.dtype)
    return replace(question, first=first, second=second, p=p, q=q, features=features)


def pose(question: Question) -> tuple[Problem, Run]:
    """Make the problem of masses with sum one, and what the call asks for, in its unit."""
    options = question.options
    p, q = (mass / mass.sum() if options.mass else mass for mass in (question.p, question.q))
    first, second = prepare_factor(question.first, p), prepare_factor(question.second, q)
    for name, side in (("source", first), ("target", second)):
        check_cost_range(name, side.scale**2)
    unit = (first.scale * second.scale) ** 2
    known = None
    if question.known_pairs is not None:
        source, target = question.known_pairs
        known = first.x[source].double().T @ second.x[target].double()
        known /= source.numel() + num_axes(first.x.double(), p.double())
    problem = make_problem(
        first, second, p, q, question.alpha, question.features, (1 - question.alpha) / unit,
        known, options.backend,
    )  # fmt: skip
    if question.known_pairs is not None:
        problem = problem.bound(question.known_pairs)
    critical = problem.critical_epsilon() or problem.largest_given_score or 1.0
    lowest = options.epsilon * (1 / unit if options.absolute else critical)
    run = Run(
        lowest, critical, options.tol, options.max_iter, options.seed, not options.absolute, unit,
    )  # fmt: skip
    return resolved(problem, lowest, unit), run
