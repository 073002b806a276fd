r"""The mean of several spaces, as a factor.

With kernels and the plans :math:`\mathbf{T}_s` from its points to those of the members held fixed,
the kernel that is nearest to all of them is (Peyré, Cuturi and Solomon 2016, proposition 3)

.. math::
    \mathbf{C} = \sum_s \lambda_s \mathrm{diag}(1/p) \mathbf{T}_s \mathbf{C}_s \mathbf{T}_s^T
    \mathrm{diag}(1/p)

which has the factor :math:`[\sqrt{\lambda_s} \, \mathrm{diag}(1/p) \mathbf{T}_s \mathbf{X}_s]_s`,
the members' coordinates averaged and put side by side. So no cost matrix is ever formed.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._checks import check_positive_int
from ..._precision import without_autocast
from ..._random import seeded
from ...kernels.torch_func import outside_inference
from ..costs.factor import Factor
from ..factored.solver import read_task
from ..plan.plan import Plan
from ..problem.inputs import as_factor
from ..problem.masses import read_masses
from ..problem.options import SolverOptions
from ..problem.prepare import centred
from ..problem.problem import second_moments
from .envelope import value_at

logger = logging.getLogger(__name__)

_WARM = 0.05  # of the critical temperature, where the first plans are looked for
_COOLING = 2.0  # a round
_ALIGNMENT_STEPS = 100  # at most, in a round
_JITTER = 0.1  # of points that stand for the same one at the start, in standard deviations
_NEGLIGIBLE = 10  # eigenvalues below that many roundings of the largest


@dataclass(frozen=True, eq=False)
class Barycenter:
    """The barycenter of several spaces, see :func:`gw_barycenter`.

    Args:
        factor: its costs.
        p: [N] the masses of its points.
        plans: from its points to those of each member.
        history: the objective after each round at the temperature asked for.
        converged: whether the last round changed it by less than the tolerance, and all plans
            have converged.
    """

    factor: Factor
    p: Tensor
    plans: list[Plan]
    history: list[float]
    converged: bool

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.factor!r}, of {len(self.plans)} members, "
            f"objective={self.history[-1]:.4g}, converged={self.converged})"
        )


@outside_inference()
@without_autocast
def gw_barycenter(
    sources: Sequence[Any],
    size: int,
    *,
    cost: Any = None,
    weights: Tensor | None = None,
    masses: Sequence[Tensor | None] | None = None,
    p: Tensor | None = None,
    rank: int | None = None,
    epsilon: float = 0.01,
    absolute: bool = False,
    tol: float = 1e-4,
    max_iter: int = 50,
    seed: int = 0,
    backend: str = "auto",
    progress: bool = True,
) -> Barycenter:
    r"""Find the space of `size` points that is nearest to several others.

    .. math::
        \min_{\mathbf{C}} \sum_s \lambda_s \min_{\mathbf{T}_s} \Big( \sum_{ijkl}
        |C_{ik} - (\mathbf{C}_s)_{jl}|^2 (T_s)_{ij} (T_s)_{kl}
        + \epsilon_s \, \mathrm{KL}(\mathbf{T}_s \,|\, \mathbf{p} \mathbf{q}_s^T) \Big)

    Rounds alternate between the plans and the kernel C, each of which is a descent; they begin at
    the member that is nearest to the others (S^2 alignments), of those that are not at one place,
    and at a higher temperature. The optimum is a local one. Entropy blurs: at a large `epsilon` the
    barycentre is smaller than the members.

    Squared distances are not averaged as they are, as their mean is not one of points. The
    barycentre is that of the centred inner products (classical scaling), which are equivalent; its
    coordinates are a factor of squared distances again.

    Args:
        sources: S spaces, each as in :func:`.gromov_wasserstein`, of one kind of cost.
        size: N, the number of points of the barycentre.
        cost: what makes factors of the members, likewise.
        weights: [S] lambda, non-negative, divided by their sum; None: all the same.
        masses: [N_s] of each member, or None for uniform ones; None: all uniform.
        p: [N] the masses of the barycentre; None: uniform.
        rank: columns of its factor at most, those of the largest eigenvalues; None: as many as it
            takes, up to all of the members' together.
        epsilon: the temperature, for each member as a share of the critical one between it and a
            space as large as all of them in the mean.
        absolute: whether `epsilon` is in the unit of squared costs instead, for all the same.
        tol: rounds end when they lower the objective by less than this share; and of alignments.
            A warning tells where either misses it, and what helps.
        max_iter: rounds at most.
        seed: of alignments, and of the start where a member has fewer than N points.
        backend: see :func:`.gromov_wasserstein`.
        progress: whether alignments show a bar.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if one is out of range, shapes do not fit, or costs are of different kinds.

    Source: Peyré, Cuturi and Solomon, "Gromov-Wasserstein averaging of kernel and distance
    matrices", ICML 2016, section 4.

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [4.0, 2.0], [-2.0, 2.0]])
        >>> middle = gw_barycenter([x, 3 * x.flip(0)], 5, epsilon=1e-3, progress=False)
        >>> ratio = torch.pdist(middle.factor.x)[0] / torch.pdist(x[middle.plans[0].argmax()])[0]
        >>> round(float(ratio), 2)  # kernels are averaged: ((1 + 3^2) / 2) ** 0.5
        2.24
    """
    check_positive_int("size", size)
    options = SolverOptions(
        epsilon=epsilon, absolute=absolute, tol=tol, max_iter=max_iter, seed=seed,
        backend=backend, progress=progress,
    )  # fmt: skip
    if rank is not None:
        check_positive_int("rank", rank)
    options = replace(options, absolute=True, max_iter=_ALIGNMENT_STEPS)
    members, kind = _read_members(sources, cost, masses, weights, epsilon, absolute)
    mass = read_masses("p", p, size).detach().to(members[0].factor.x)
    generator = seeded(seed)
    # No round leaves a single place, where all plans are as good.
    spread = [each for each in members if bool((each.factor.x != each.factor.x[0]).any())]
    starts = [_sampled(each.factor, size, generator) for each in spread or members]
    share = _WARM
    begun = [_matched(members, each, mass, None, share, options) for each in starts]
    state = min(begun, key=lambda each: each.objective)

    def next_round(state: _State, share: float) -> _State:
        parts = [
            (each.weight, plan.apply(each.factor.x), each.factor.signs)
            for each, plan in zip(members, state.plans, strict=True)
        ]
        factor = _mean_kernel(parts, mass, rank)
        return _matched(members, factor, mass, state.plans, share, options)

    while any(share * each.critical > each.lowest for each in members):
        share /= _COOLING
        state = next_round(state, share)
    history = [state.objective]
    converged = False
    for _ in range(max_iter):
        state = next_round(state, 0.0)
        history.append(state.objective)
        change, least = history[-2] - history[-1], tol * abs(history[-2])
        if change <= least:
            # Between plans that miss their marginals, the objective may rise.
            converged = change >= -least and all(plan.converged for plan in state.plans)
            break
    if not converged:
        is_rough = not all(plan.converged for plan in state.plans)
        logger.warning(
            "gw_barycenter has not converged in %d rounds%s. To fix this, raise %s.",
            len(history) - 1,
            ": its plans miss their masses or settle badly" * is_rough,
            f"'epsilon' ({epsilon:g})"
            if is_rough
            else f"'max_iter' ({max_iter}) or 'tol' ({tol:g})",
        )
    return Barycenter(replace(state.factor, kind=kind), mass, state.plans, history, converged)


class _Member(NamedTuple):
    factor: Factor  # a kernel
    mass: Tensor
    weight: float
    critical: float  # the temperature above which it goes everywhere
    lowest: float  # that of its last plan


class _State(NamedTuple):
    factor: Factor  # the barycentre
    plans: list[Plan]  # from it to each member
    objective: float


def _matched(
    members: list[_Member],
    factor: Factor,
    p: Tensor,
    starts: list[Plan] | None,
    share: float,
    options: SolverOptions,
) -> _State:
    """Plans between a kernel and all members, from those before on.

    Temperatures are a share of the critical ones, or the lowest, whichever is higher.
    """
    plans, objective = [], 0.0
    for index, member in enumerate(members):
        start, low = starts and starts[index], max(share * member.critical, member.lowest)
        each = replace(options, epsilon=low, starts=start)
        task = read_task(factor, member.factor, None, p, member.mass, None, None, each)
        plans.append(task.solve(is_start=True))
        objective += member.weight * float(value_at(task, plans[-1]))
    return _State(factor, plans, objective)


def _read_members(
    sources: Any, cost: Any, masses: Any, weights: Tensor | None, epsilon: float, absolute: bool
) -> tuple[list[_Member], str]:
    """The members as kernels, and what kind of cost they had."""
    if isinstance(sources, Tensor) or not isinstance(sources, Sequence) or not sources:
        raise TypeError(
            f"Expected 'sources' to be a list of spaces (got {type(sources).__name__})."
        )
    factors = [as_factor("sources", each, cost).detach() for each in sources]
    first = factors[0]
    for each in factors[1:]:
        if (each.kind, each.x.dtype, each.x.device) != (first.kind, first.x.dtype, first.x.device):
            raise ValueError(
                "Expected 'sources' to have one kind of cost and one type on one device (got "
                f"{first!r} of {first.x.dtype} and {each!r} of {each.x.dtype})."
            )
    if masses is None:
        masses = [None] * len(factors)
    if not isinstance(masses, list | tuple) or len(masses) != len(factors):
        raise ValueError(f"Expected 'masses' to be a list of {len(factors)} (got {masses!r}).")
    read = [
        read_masses("masses", mass, each.num_points).detach().to(each.x)
        for mass, each in zip(masses, factors, strict=True)
    ]
    shares = read_masses("weights", weights, len(factors), "member").tolist()
    kernels = [_as_kernel(*each) for each in zip(factors, read, strict=True)]
    spreads = [_spread(*each) for each in zip(kernels, read, strict=True)]
    mean = sum(share * spread for share, spread in zip(shares, spreads, strict=True))
    # Of each with their mean; a member at one place has none, and takes their unit.
    critical = [4 * (spread or mean) * mean or 1.0 for spread in spreads]
    lowest = [epsilon if absolute else epsilon * each for each in critical]
    fields = zip(kernels, read, shares, critical, lowest, strict=True)
    return [_Member(*each) for each in fields], first.kind


def _spread(factor: Factor, mass: Tensor) -> float:
    """The largest variance of the coordinates along any axis."""
    x, mass = factor.x.double(), mass.double()
    return float(torch.linalg.eigvalsh(second_moments(centred(x, mass)[0], mass))[-1])


def _as_kernel(factor: Factor, mass: Tensor) -> Factor:
    """Centred inner products of what has squared distances."""
    if factor.kind == "kernel":
        return factor
    x, _ = centred(factor.x.double(), mass.double())
    return Factor(x.to(factor.x), "kernel", edge_index=factor.edge_index)


def _sampled(factor: Factor, size: int, generator: torch.Generator) -> Factor:
    """`size` points of a factor, far from each other; where it has fewer, some of them twice."""
    x, count = factor.x, factor.num_points
    if size > count:
        noise = torch.randn(size, x.size(1), generator=generator, dtype=x.dtype).to(x.device)
        index = torch.arange(size, device=x.device) % count
        x = x[index] + _JITTER * x.std(0, correction=0) * noise
    elif size < count:
        x = x[_farthest(x, size)]
    return Factor(x, "kernel", factor.sign)


def _farthest(x: Tensor, size: int) -> Tensor:
    """Points far from the middle and from each other [size], whatever the order of the points."""
    chosen = [(x - x.mean(0)).square().sum(1).argmax()]
    distance = torch.full_like(x[:, 0], torch.inf)
    for _ in range(size - 1):
        distance = torch.minimum(distance, (x - x[chosen[-1]]).square().sum(1))
        chosen.append(distance.argmax())
    return torch.stack(chosen)


def _mean_kernel(parts: list[tuple[float, Tensor, Tensor]], p: Tensor, rank: int | None) -> Factor:
    """The factor of the weighted mean of kernels, on the principal axes, weighted by mass.

    Parts are the weight of each member, its coordinates [N, r_s] averaged, and their signs.
    """
    z = torch.cat([weight**0.5 * x for weight, x, _ in parts], 1).double()
    signs = torch.cat([signs for _, _, signs in parts]).double()
    root = p.double().sqrt()[:, None]
    basis, core = torch.linalg.qr(root * z)
    value, axes = torch.linalg.eigh((core * signs) @ core.T)
    order = value.abs().argsort(descending=True)
    floor = _NEGLIGIBLE * torch.finfo(p.dtype).eps * float(value.abs().max())
    kept = order[value.abs()[order] > floor][:rank]
    if kept.numel() == 0:  # all points are one
        kept = order[:1]
    x = (basis @ axes[:, kept]) * value[kept].abs().sqrt()
    x = torch.where(root > 0, x / torch.where(root > 0, root, 1), 0)
    sign = value[kept].sign()
    return Factor(x.to(p), "kernel", None if bool((sign >= 0).all()) else sign.to(p))
