r"""The probability that points have come near their true partners, from costs alone.

Two sets of points that have nothing in common can be aligned as well, and their costs agree by what
their spectra share. So the agreement of the costs of matched pairs,

.. math::
    \rho = \frac{||\mathbf{X}^T \mathbf{T} \mathbf{Y}||^2}
        {||\mathbf{X}^T \mathbf{P} \mathbf{X}|| \, ||\mathbf{Y}^T \mathbf{Q} \mathbf{Y}||},

is compared with that of an alignment with a target of the same spectrum and another shape: the
coordinates on each principal axis of the matched target points, permuted. A logistic model weighs
by what factor the disagreement is smaller (as noise grows, hardly, long before partners are wrong:
so its logarithm counts), and the agreement of the costs of each point.
`examples/benchmarks/alignment_confidence.py` fits it to simulated pairs, among them ones that do
not correspond, and measures it on others.
"""

import math

import torch
from torch import Tensor

from ..costs.factor import Factor
from ..plan.plan import Plan
from ..plan.scores import row_sums
from ..problem.prepare import centred, prepare_factor
from ..problem.problem import agreement, make_problem, second_moments
from .race import race_at
from .schedule import SCHEDULE, Run
from .starts import Cloud, find_starts

NEAR = 0.1  # of the target points: who is among the nearest to the true partner is near it
WEIGHTS = (0.73, 1.49, 0.69)  # of `evidence`

_LEAST = 1e-3  # disagreement: less is the same
_SMALLER = 0.05  # logarithm of the factor by which chance makes it smaller


def near_confidence(first: Factor, second: Factor, plan: Plan, backend: str = "auto") -> Tensor:
    """Estimate the probability [N] that a partner is among the :data:`NEAR` nearest to the true."""
    found = evidence(first, second, plan, backend)
    confidence = torch.sigmoid(found @ found.new_tensor(WEIGHTS))
    return torch.where(plan.argmax() >= 0, confidence, 0).to(plan.scores.like)


def evidence(first: Factor, second: Factor, plan: Plan, backend: str = "auto") -> Tensor:
    """Collect evidence for the partner of each point: [N, 3] float64; arguments as above."""
    assert plan.source is not None
    assert plan.target is not None
    mass = row_sums(plan.scores)
    mass = mass / mass.sum()
    # About what is sent: who stays alone has no part in the agreement of the others.
    received = plan.marginals()[1]
    x, _ = centred(plan.source.double(), mass)
    target, _ = centred(plan.target.double(), received / received.sum())
    y = plan.apply(target)
    together = x.T @ (mass[:, None] * y)
    cosine = agreement(x, y, mass)
    whole = _agreement(together, x, mass, target, received)
    null = _null_agreement(first, second, plan, mass, backend)
    smaller = math.log((1 - null + _LEAST) / (max(1 - whole, 0) + _LEAST))
    ones = torch.ones_like(cosine)
    columns = [ones, math.log(max(smaller, 0) + _SMALLER) * ones, -(1 - cosine + _LEAST).log()]
    return torch.stack(columns, 1)


def _agreement(together: Tensor, x: Tensor, p: Tensor, y: Tensor, q: Tensor) -> float:
    """Compute rho, of the moments X^T T Y [r, s]."""
    q = q / q.sum()
    norms = [second_moments(each.double(), mass).norm() for each, mass in ((x, p), (y, q))]
    return float(together.square().sum() / (norms[0] * norms[1]).clamp(min=1e-30))


def _null_agreement(first: Factor, second: Factor, plan: Plan, mass: Tensor, backend: str) -> float:
    """Compute rho of some source points and a target of the spectrum of their partners."""
    generator = torch.Generator().manual_seed(0)
    partner = plan.argmax()
    count = min(SCHEDULE.confidence_sample, int((partner >= 0).sum()))
    if count < 2:
        return 1.0
    has_partner = torch.where(partner >= 0, mass, 0).cpu()
    chosen = torch.multinomial(has_partner, count, generator=generator).to(partner.device)
    x, y = first.x[chosen], second.x[partner[chosen]]
    sides = (
        Factor(x, kind=first.kind, sign=first.sign),
        Factor(_without_shape(y, second, generator), kind=second.kind, sign=second.sign),
    )
    equal = torch.full_like(x[:, 0], 1 / count)
    source, target = (prepare_factor(side, equal) for side in sides)
    problem = make_problem(source, target, equal, equal, backend=backend)
    points = Cloud(sides[0].x, "l2", None), Cloud(sides[1].x, "l2", None)
    starts = find_starts(None, problem, points, 0)
    critical = problem.critical_epsilon() or 1.0
    hot = [share * critical for share in SCHEDULE.confidence_hot]
    run = Run(SCHEDULE.confidence_cold * critical, critical)
    states, _ = race_at(problem, starts, hot, run)
    left, right = problem.coordinates
    found = states.moments[0, : left.size(1), : right.size(1)]
    return min(_agreement(found, left, equal.double(), right, equal.double()), 1.0)


def _without_shape(y: Tensor, factor: Factor, generator: torch.Generator) -> Tensor:
    """Permute points [M, s] on every principal axis by itself."""
    mean = y.mean(0)
    if bool((factor.signs > 0).all()):
        left, size, axes = torch.linalg.svd(y - mean, full_matrices=False)
        parts = left * size
    else:
        parts, axes = y - mean, torch.eye(y.size(1)).to(y)
    orders = [torch.randperm(len(y), generator=generator).to(y.device) for _ in parts.T]
    mixed = [part[order] for part, order in zip(parts.T, orders, strict=True)]
    return torch.stack(mixed, 1) @ axes + mean
