"""The Gromov-Wasserstein objective at its optimum, as a function of costs.

By the envelope theorem (Danskin), the derivative of a minimum is the derivative of the objective at
the minimiser held fixed.
"""

import math
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from ...kernels.torch_func import outside_inference, without_autocast
from ..costs.first_order import refuse_second_derivative
from ..plan.plan import Plan
from ..plan.scores import FactoredScores, average
from ..problem.objective import fused_cost, known_pull
from ..solver.pose import Question, read_question
from ..solver.solver import gromov_wasserstein, solve


@outside_inference()
@without_autocast
def gw_distance(
    source: Any,
    target: Any,
    *,
    p: Tensor | None = None,
    q: Tensor | None = None,
    tol: float = 1e-4,
    max_iter: int = 100,
    **options: Any,
) -> Tensor:
    r"""Compute the entropic Gromov-Wasserstein discrepancy of two spaces; differentiable.

    .. math::
        F = \min_{\mathbf{T}} \; \alpha \sum_{ijkl} |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}
        + (1 - \alpha) \sum_{ij} |\phi_i - \psi_j|^2 T_{ij}
        + \epsilon \, \mathrm{KL}(\mathbf{T} \,|\, \mathbf{p} \mathbf{q}^T)

    plus the term of known pairs, but for `mass=`. It is not zero for equal spaces, since it
    includes the entropy; :attr:`.Plan.cost`, without entropy, tends to zero with epsilon.

    Gradients are exact, by the envelope theorem, up to the solver's tolerance: in the coordinates
    of both sides, and so in whatever a cost makes them of, such as edge weights; and in `features`.
    They belong to a problem at the temperature of the plan, a number in the unit of squared costs:
    that a relative `epsilon` changes with the data is not seen. If a function is wanted whose
    values differ as the gradients say, fix `epsilon` with `absolute`, and begin at the last plan,
    so that it stays in one optimum. Gradients in masses, second derivatives, in which the plan
    moves as well, forward mode and `torch.func` are refused.

    Args:
        source: N points, as in :func:`gromov_wasserstein`.
        target: K points, likewise.
        p: [N] masses of the source, likewise.
        q: [K] masses of the target, likewise.
        tol: likewise. Value and gradients are off by as much.
        max_iter: likewise.
        **options: all others of :func:`gromov_wasserstein`, such as `epsilon` and `features`.

    Returns:
        F, a number, in the type of the coordinates and the unit of squared costs.

    Source: Peyré, Cuturi and Solomon, "Gromov-Wasserstein averaging of kernel and distance
    matrices", ICML 2016; the gradient as in Xu, Luo and Carin, "Scalable Gromov-Wasserstein
    learning for graph partitioning and matching", NeurIPS 2019, but with its entropy.

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]], requires_grad=True)
        >>> gw_distance(x, 2 * x.detach(), progress=False).backward()
        >>> bool((x.grad * x).sum() < 0)  # it falls as x grows
        True
    """
    for name, mass in (("p", p), ("q", q)):
        if isinstance(mass, Tensor) and mass.requires_grad:
            raise ValueError(
                f"Expected '{name}' without a gradient (got requires_grad=True). To fix this, pass "
                f"{name}.detach(); POT's ot.gromov.gromov_wasserstein2 has gradients in masses."
            )
    for name in options:
        if name not in signature(gromov_wasserstein).parameters:
            raise TypeError(
                f"Expected '{name}' to be left out of gw_distance, which takes the options of "
                f"gromov_wasserstein (got {options[name]!r})."
            )
    question = read_question(source, target, p=p, q=q, tol=tol, max_iter=max_iter, **options)
    tensors = (question.first.x, question.second.x, *(question.features or ()))
    value: Tensor = _Optimum.apply(question, solve(question), *tensors)
    return value


class _Optimum(torch.autograd.Function):
    """The objective, whose derivatives are computed together with it."""

    @staticmethod
    def forward(ctx: Any, question: Question, plan: Plan, *tensors: Tensor) -> Tensor:
        with torch.enable_grad():
            given = [each.detach().clone().requires_grad_() for each in tensors]
            x, y, *features = given
            value = _objective(question, x, y, tuple(features), plan)
            if any(ctx.needs_input_grad):
                ctx.save_for_backward(*torch.autograd.grad(value, given))
        return value.detach().to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative("the optimum of a transport problem")
        return None, None, *(grad * each for each in ctx.saved_tensors)


def _objective(
    question: Question, x: Tensor, y: Tensor, features: tuple[Tensor, ...], plan: Plan
) -> Tensor:
    """Compute the objective of a plan, float64."""
    assert isinstance(plan.scores, FactoredScores)
    sent, (r, c) = partial(average, plan.scores), plan.marginals()
    first, second = replace(question.first, x=x.double()), replace(question.second, x=y.double())
    both = (features[0], features[1]) if features else None
    value = fused_cost(first, second, both, question.alpha, sent, r, c)
    if question.known_pairs is not None and question.options.mass is None:
        pull = known_pull(first, second, question.known_pairs, sent, r, c)
        value = value + question.alpha * pull
    entropy = _entropy(plan.scores, r, c, question.p, question.q)
    if plan.bounds is not None:  # what stays alone has an entropy, too
        for done, most in ((r, plan.bounds[0]), (c, plan.bounds[1])):
            rest = (most - done).clamp(min=0)
            entropy += torch.special.xlogy(rest, rest / torch.where(most > 0, most, 1)).sum()
        entropy *= r.sum()
    return value + plan.epsilon * entropy


def _entropy(scores: FactoredScores, r: Tensor, c: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """Compute KL(T | p q^T) of a plan with the masses r and c."""
    means, mass = scores.averages(scores.v)
    log2 = (mass[:, None] * scores.u.double() * means).sum()
    for sent, potential, wanted in ((r, scores.f, p), (c, scores.g, q)):
        log2 = log2 + sent @ torch.where(wanted > 0, potential.double() - wanted.log2(), 0)
    return math.log(2) * log2 - r.sum() + 1
