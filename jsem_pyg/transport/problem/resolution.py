"""The number type in which scores of a problem are distinct at a temperature."""

import math

import torch

from .problem import LOG2E, Problem, Side

# Bits. Scores are sums of products with relative errors of 2^-23 in float32: beyond this, entries
# of the plan would be off by a per cent, and float64 is taken, up to its own limit, which leaves
# coordinates below the 2^40 that the kernels hold them within.
_SINGLE_BITS, _DOUBLE_BITS = 2.0**18, 2.0**38
FINAL_BITS = 2.0**10  # of the plan that is returned, whose marginals are known to 1e-4


def resolved(
    problem: Problem, epsilon: float, unit: float, single_bits: float = _SINGLE_BITS
) -> Problem:
    """The problem in a type that resolves its scores at a temperature.

    Args:
        problem: the problem.
        epsilon: the temperature.
        unit: what one of its squared costs is in those of the user.
        single_bits: the largest score, in bits, for which float32 is enough.

    Raises:
        ValueError: if float64 does not, or scores overflow.
    """
    bits = problem.largest_score * LOG2E / epsilon
    if math.isnan(bits):
        raise ValueError(
            f"Expected 'features' near the scale of the costs, whose squares are about {unit:.3g} "
            "(got ones so much larger that their ratio overflows). To fix this, scale either."
        )
    if bits > _DOUBLE_BITS:
        smallest = epsilon * bits / _DOUBLE_BITS
        raise ValueError(
            f"Expected 'epsilon' to be at least {smallest * unit:.3g} in the unit of squared "
            f"costs, below which scores cannot be told apart (got {epsilon * unit:.3g})."
        )
    if bits <= single_bits or problem.source.z.dtype == torch.float64:
        return problem
    return problem.at(*(_double(side) for side in (problem.source, problem.target)))


def _double(side: Side) -> Side:
    return Side(side.z.double(), side.log2_mass.double())
