"""Gromov-Wasserstein transport between factored costs: the public solver."""

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor

from ..._precision import without_autocast
from ..plan.plan import Plan
from .task import read_task


@without_autocast
def gromov_wasserstein(
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
    mass: float | Literal["source"] | None = None,
    coarse: int = 300,
    starts: Sequence[str] | Plan | None = None,
    tol: float = 1e-3,
    max_iter: int = 20,
    seed: int = 0,
    backend: str = "auto",
    progress: bool = True,
) -> Plan:
    r"""Find which points of two spaces correspond, from the costs inside each space alone.

    .. math::
        \min_{\mathbf{T}} \; \alpha \sum_{ijkl} |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}
        + (1 - \alpha) \sum_{ij} |\phi_i - \psi_j|^2 T_{ij}
        + \epsilon \, \mathrm{KL}(\mathbf{T} \,|\, \mathbf{p} \mathbf{q}^T)

    Without features alpha is one. The costs are factored, so the plan is never stored: a
    step takes O(N K r) time and O((N + K) r) memory. The problem has many local optima, and the
    start decides; so several are raced on a few hundred quantised points while the temperature
    falls, and the best goes on among all points.

    Args:
        source: N points: a :class:`Factor`, a :class:`~torch_geometric.data.Data`, or coordinates
            [N, r].
        target: K points, of another space; the same kind of cost.
        cost: what makes a factor of a `Data` or of coordinates, such as ``HeatCost(t=2.0)``. None:
            centred inner products of coordinates; they determine squared distances, and mislead
            less if lengths disagree. For a `Data` without coordinates: ``HeatCost()``.
        p: [N] masses of the source, non-negative, divided by their sum; None: the same for all.
            If `q` is None as well, known points of the smaller side have that of their partners.
        q: [K] masses of the target.
        epsilon: the temperature at the end, as a share of the critical one, above which all goes
            everywhere. Small ones give sharp plans. Cooling ends before if rows are so sharp
            that a colder plan would be the same, and goes on if both sides turn out to be
            copies; :attr:`Plan.epsilon` is the last temperature.
        absolute: whether `epsilon` is in the unit of squared costs instead, and holds whatever
            happens.
        features: [N, d] and [K, d] in one space, whose squared distances are linear costs: fused
            Gromov-Wasserstein (Vayer et al. 2019).
        alpha: in (0, 1), the weight of the structure; features have the rest.
        known_pairs: [2, M] pairs of a source and a target point that are known to correspond. All
            mass goes from the ones to the others that both have, and they pull the rest.
        mass: where the sides do not hold the same things, the share in (0, 1] of the smaller side
            that is sent; others stay alone, which :meth:`.Plan.argmax` says by -1. Then `p` and `q`
            are the most that points send and receive, in one unit, by default the same for all
            points of both sides. "source" keeps the masses of the source alone, and all its points
            find partners: semi-relaxed, such as a sample that is mapped into an atlas. None: both
            masses are kept.
        coarse: the number of cells that starts are raced on.
        starts: some of "heat" (points from which heat spreads alike on neighbour graphs), "costs"
            (points whose costs are distributed alike), "axes" (principal axes, with all signs),
            "zero" (the independent plan); or a plan to go on from. None: all; without "heat" if
            one side has no more than three dimensions.
        tol: of the marginal error `sum |c - q|`, and of the relative change of a solution in a
            step.
        max_iter: steps at the last temperature, after which it is a warning not to have converged.
        seed: of samples and quantisation.
        backend: "torch", "numba", "triton" or "auto".
        progress: show a bar, if there is a terminal to show it in.

    Returns:
        The plan; its `cost` is the objective without the entropy, in the unit of squared costs.

    Raises:
        ValueError: if `epsilon` is too small to be resolved.

    Source: Peyré, Cuturi and Solomon, "Gromov-Wasserstein averaging of kernel and distance
    matrices", ICML 2016 (the entropic problem); Scetbon, Peyré and Cuturi, "Linear-time
    Gromov-Wasserstein distances using low rank couplings and costs", ICML 2022 (factored costs);
    Chapel, Alaya and Gasso, "Partial optimal transport", NeurIPS 2020 (`mass`).

    Example:
        >>> import torch
        >>> x = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [4.0, 2.0], [-2.0, 2.0]])
        >>> turned = x.flip(0) @ torch.tensor([[0.6, 0.8], [-0.8, 0.6]])
        >>> gromov_wasserstein(x, turned, progress=False).argmax()
        tensor([4, 3, 2, 1, 0])
    """
    task = read_task(
        source, target, cost=cost, p=p, q=q, features=features, known_pairs=known_pairs,
        epsilon=epsilon, absolute=absolute, alpha=alpha, mass=mass, coarse=coarse, starts=starts,
        tol=tol, max_iter=max_iter, seed=seed, backend=backend, progress=progress,
    )  # fmt: skip
    return task.solve(is_sharpened=True)
