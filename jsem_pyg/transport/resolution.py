"""Whether the scores of a problem can be told apart at a temperature, and in which type."""

import torch

from .problem import LOG2E, Problem, Side

# Bits. Scores are sums of products with relative errors of 2^-23 in float32: beyond this, entries
# of the plan would be off by a per cent, and float64 is taken, up to its own limit.
_SINGLE_BITS, _DOUBLE_BITS = 2.0**19, 2.0**45


def resolved(problem: Problem, epsilon: float, unit: float) -> Problem:
    """The problem in a type that resolves its scores at a temperature.

    Args:
        problem: the problem.
        epsilon: the temperature.
        unit: what one of its squared costs is in those of the user.

    Raises:
        ValueError: if float64 does not.
    """
    bits = largest_score(problem) * LOG2E / epsilon
    if bits > _DOUBLE_BITS:
        smallest = epsilon * bits / _DOUBLE_BITS
        raise ValueError(
            f"Expected 'epsilon' to be at least {smallest * unit:.3g} in the unit of squared "
            f"costs, below which scores cannot be told apart (got {epsilon * unit:.3g})."
        )
    if bits <= _SINGLE_BITS or problem.source.z.dtype == torch.float64:
        return problem
    return problem.at(*(_double(side) for side in (problem.source, problem.target)))


def largest_score(problem: Problem) -> float:
    """A bound of the scores of plans with the masses of the problem, without temperature."""
    z, v = problem.source.z.double(), problem.target.z.double()
    sizes = [(mass.double() @ x.square()).sqrt() for x, mass in (
        (z, problem.source.mass), (v, problem.target.mass)
    )]  # fmt: skip
    # |M_ab| is at most the product of both deviations, by Cauchy and Schwarz.
    most = problem.coupling.scores(sizes[0][:, None] * sizes[1]).abs()
    return float((z.abs() @ most @ v.abs().amax(0)).max())


def _double(side: Side) -> Side:
    return Side(side.z.double(), side.log2_mass.double())
