"""The Gromov-Wasserstein objective at its optimum, as a function of costs and masses."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..._precision import without_autocast
from ...kernels.torch_func import outside_inference
from ..plan.plan import Plan
from ..problem.options import SolverOptions
from ..solver.task import read_task
from .envelope import value_at


@outside_inference()
@without_autocast
def gw_distance(
    source: Any,
    target: Any,
    *,
    cost: Any = None,
    p: Tensor | None = None,
    q: Tensor | None = None,
    epsilon: float = 0.01,
    absolute: bool = False,
    features: tuple[Tensor, Tensor] | None = None,
    alpha: float = 0.5,
    known_pairs: Tensor | None = None,
    coarse: int = 300,
    starts: Sequence[str] | Plan | None = None,
    tol: float = 1e-4,
    max_iter: int = 100,
    seed: int = 0,
    backend: str = "auto",
    progress: bool = True,
) -> Tensor:
    r"""Compute the entropic Gromov-Wasserstein discrepancy of two spaces; differentiable.

    .. math::
        F = \min_{\mathbf{T}} \; \alpha \sum_{ijkl} |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}
        + (1 - \alpha) \sum_{ij} |\phi_i - \psi_j|^2 T_{ij}
        + \epsilon \, \mathrm{KL}(\mathbf{T} \,|\, \mathbf{p} \mathbf{q}^T)

    plus the term of known pairs. It is not zero for equal spaces, since it
    includes the entropy; :attr:`.Plan.cost`, without entropy, tends to zero with epsilon.

    Gradients are exact, by the envelope theorem, up to the solver's tolerance: in the coordinates
    of both sides, and so in whatever a cost makes them of, such as edge weights; in `features`; and
    in `p` and `q`. They belong to a problem at the temperature of the plan, a number in the unit
    of squared costs: that a relative `epsilon` changes with the data is not seen. Where
    a function is wanted whose values differ as the gradients say, fix `epsilon` with `absolute`,
    and begin at the last plan, so that it stays in one optimum. The gradient in `p` is
    taken after masses are divided by their sum, which have to be positive then. Second derivatives,
    in which the plan moves as well, are refused, and so are forward mode and `torch.func`.

    Args:
        source: see :func:`gromov_wasserstein`, like all arguments that are not described here.
        target: likewise.
        cost: likewise.
        p: likewise.
        q: likewise.
        epsilon: likewise.
        absolute: likewise.
        features: likewise.
        alpha: likewise.
        known_pairs: likewise.
        coarse: likewise.
        starts: likewise.
        tol: likewise. Gradients are off by as much; the value by its square.
        max_iter: likewise.
        seed: likewise.
        backend: likewise.
        progress: likewise.

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
    options = SolverOptions(
        epsilon, absolute, alpha, coarse, starts, tol, max_iter, seed, backend, progress
    )  # fmt: skip
    task = read_task(source, target, cost, p, q, features, known_pairs, options)
    return value_at(task, task.solve())
