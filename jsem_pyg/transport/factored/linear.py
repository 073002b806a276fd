"""Linear entropic transport between features: which points look alike, as moments of a problem."""

import torch
from torch import Tensor

from ..problem.problem import LOG2E, Side
from ..sinkhorn.anderson import Mixer
from .descent import Pass

_PASSES, _TOL = 12, 1e-2  # a start need not be exact


def match_features(
    first: Tensor,
    second: Tensor,
    source: Side,
    target: Side,
    temperature: float,
    one_pass: Pass,
) -> Tensor:
    """The moments [R, R'] of the entropic plan between points with features [N, F] and [K, F].

    Args:
        first: features of the source points.
        second: features of the target points.
        source: the source points, with their masses.
        target: the target points.
        temperature: of the plan, as a share of the mean squared distance of features.
        one_pass: a `sinkhorn_pass`.
    """
    p, q = source.mass, target.mass
    spread = p @ first.square().sum(1) + q @ second.square().sum(1)
    bits = LOG2E / (temperature * float(spread) or 1.0)
    u = 2 * bits * first
    bias = target.log2_mass - bits * second.square().sum(1)
    floor = torch.finfo(q.dtype).tiny
    psi, mixer = torch.zeros_like(q), Mixer(q)
    for _ in range(_PASSES):
        done = one_pass(u, second, bias + psi, source.log2_mass, target.z)
        if float((done.column_mass - q).abs().sum()) < _TOL:
            break
        residual = (q / done.column_mass.clamp(min=floor)).log2()
        psi = mixer.next(psi, torch.where(q > 0, residual, 0).to(psi))
    return source.z.T.double() @ done.average.double()
