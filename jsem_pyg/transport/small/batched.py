"""Many small pairs at once: graph b of the one batch against graph b of the other."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..._checks import check_vector
from ..._precision import compute_dtype, full_precision, power_of_two, without_autocast
from ...kernels.table import LINEAR_TRANSPORT, lists_backends
from ..costs.cost import check_squares
from ..costs.first_order import check_reverse_mode, first_order
from ..plan.plan import Plan
from ..problem.masses import check_masses, normalized
from ..problem.objective import in_range
from ..problem.options import SolverOptions, read_starts
from ..sinkhorn.scores import DenseScores
from .costs import BatchCosts, read_costs
from .frank_wolfe import Descent, descend
from .proximal import STEPS, Pairs, anneal
from .starts import STARTS, start

_EPSILON = 0.2  # the last temperature, in units of the largest entry of the first gradient
_TOL = 1e-9  # of a descent's gain, relative to the constant terms of the objective
_DESCENT = 100  # vertices that a pair may go to
_PERFECT = 1e-9  # a cost, relative to the same terms, that another start cannot better
_MULTIPLE = 8  # sizes of pairs are rounded up to it, and pairs of one size go together
_CPU = torch.device("cpu")
_OPTIMUM = "the optimum of a transport problem"  # for errors about its derivatives
_BLOCK = 1 << 22  # numbers of plans that are moved at a time


@lists_backends(LINEAR_TRANSPORT)
@without_autocast
def batch_gromov_wasserstein(
    source: Any,
    target: Any,
    *,
    cost: Any = None,
    p: Tensor | Sequence[Tensor] | None = None,
    q: Tensor | Sequence[Tensor] | None = None,
    starts: Sequence[str] | None = None,
    max_iter: int = STEPS,
    seed: int = 0,
    backend: str = "auto",
) -> list[Plan]:
    r"""Align many pairs of small graphs, each by the costs inside it.

    For every pair, this looks for the plan T of marginals p and q that minimises

    .. math::
        \sum_{ikjl} |C_{ik} - D_{jl}|^2 T_{ij} T_{kl}.

    From every start, proximal steps on all plans at once, at falling temperatures, lead to a good
    region; from there the Frank-Wolfe algorithm leads to a plan with exact marginals that no vertex
    of the polytope of plans improves. So the plan has no entropic bias, and there is no `epsilon`.
    The best of the starts is kept; pairs whose costs agree already take no other. The plan of a
    pair does not depend on the other pairs.

    Args:
        source: B graphs: a `torch_geometric.data.Batch`, a list or a tensor [B, n, m]; of points
            [n_b, D], of `Data`, of symmetric matrices [n_b, n_b], or of costs, such as factors.
        target: likewise, as many graphs; sizes may differ.
        cost: None: squared distances of points, of which a `Data` has `x` or `pos`; "matrix" of
            matrices; or what is called with each graph, such as ``HeatCost(1.0)``, and returns its
            matrix or its cost.
        p: masses of the source points, non-negative: [sum of n_b], or a list of vectors. What
            counts is the share of a point in its graph. None: equal shares.
        q: masses of the target points, likewise.
        starts: some of "costs" (points whose costs are distributed alike), "zero" (the independent
            plan), and "random", a new one each time. None: "costs" and "zero".
        max_iter: the most proximal steps from every start.
        seed: of random starts.
        backend: of the linear transport problems, on the CPU: {backends}.

    Returns:
        A plan for each pair, on the device of the costs; it has converged if no vertex was better.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if the numbers of graphs differ, a graph has no point or no mass, costs or
            masses are not finite, or `backend` cannot run.

    Source:
        Y. Xie, X. Wang, R. Wang, H. Zha, "A fast proximal point method for computing exact
        Wasserstein distance", 2020, on which H. Xu, D. Luo, H. Zha, L. Carin, "Gromov-Wasserstein
        learning for graph matching and node embedding", 2019, build; T. Vayer et al., "Fused
        Gromov-Wasserstein distance for structured objects", 2020, for the conditional gradient.

    Example:
        >>> triangle = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> plans = batch_gromov_wasserstein([triangle], [triangle[[2, 0, 1]] + 5])
        >>> plans[0].argmax()
        tensor([1, 2, 0])
    """
    sides = _read_sides(source, target, cost, p, q)
    solved = _solve(*sides, starts, max_iter, seed, backend)
    sizes = (side.sizes.tolist() for side in sides[:2])
    each = zip(solved.table.log2(), *sizes, solved.cost.tolist(), solved.converged, strict=True)
    return [
        Plan(DenseScores(table[:n, :m]), value, converged=bool(converged))
        for table, n, m, value, converged in each
    ]


@without_autocast
def batch_gw_distance(
    source: Any,
    target: Any,
    *,
    cost: Any = None,
    p: Tensor | Sequence[Tensor] | None = None,
    q: Tensor | Sequence[Tensor] | None = None,
    **options: Any,
) -> Tensor:
    """The squared Gromov-Wasserstein discrepancies of many pairs of small graphs: a loss.

    Differentiable in points, matrices and whatever `cost` is differentiable in, and in the masses,
    by the envelope theorem: the plan counts as constant, and the derivatives in the masses are its
    dual potentials. These are gradients of the local minimum that was found, where it is isolated;
    there are no second derivatives, which are refused, as are those of forward mode and of
    `torch.func`.

    Args:
        source: see :func:`batch_gromov_wasserstein`.
        target: see there.
        cost: see there.
        p: see there.
        q: see there.
        options: the others of that function.

    Returns:
        [B], in the type of the costs.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: see there.

    Example:
        >>> x = torch.tensor([[0.0], [1.0], [3.0]], requires_grad=True)
        >>> loss = batch_gw_distance([x], [torch.tensor([[0.0], [2.0], [6.0]])]).sum()
        >>> loss.backward()
        >>> bool((x.grad[2] < x.grad[1]))  # to stretch x brings it closer
        True
    """
    first, second, own, other = _read_sides(source, target, cost, p, q)
    needs = (first.matrix, second.matrix, own, other)
    check_reverse_mode(_OPTIMUM, *needs)
    left, right = (each._replace(matrix=each.matrix.detach()) for each in (first, second))
    solved = _solve(left, right, own.detach(), other.detach(), **options)
    value = in_range(solved.cost.to(first.matrix.device), first.matrix.dtype)
    if not (torch.is_grad_enabled() and any(each.requires_grad for each in needs)):
        return value
    once = (first_order(each, _OPTIMUM) for each in needs)
    linear = _at_fixed_plan(solved, *(each.double() for each in once))
    return value + (linear - linear.detach()).to(value)


class _Solved(NamedTuple):
    """The plans of B pairs; places beyond the size of a graph are zero."""

    table: Tensor  # [B, n, m]
    cost: Tensor  # [B] float64
    converged: Tensor  # [B] bool
    f: Tensor  # [B, n] float64, d cost / d p up to a constant
    g: Tensor  # [B, m] float64, d cost / d q likewise


def _at_fixed_plan(solved: _Solved, c: Tensor, d: Tensor, p: Tensor, q: Tensor) -> Tensor:
    """[B] values with the gradients of the cost: in C and D at fixed T, in p, q by the duals."""
    table = solved.table.to(c)
    rows, columns = table.sum(2), table.sum(1)
    own = torch.einsum("bi,bik,bk->b", rows, c.square(), rows)
    other = torch.einsum("bj,bjl,bl->b", columns, d.square(), columns)
    shared = (torch.bmm(torch.bmm(c, table), d) * table).sum((1, 2))
    prices = (solved.f.to(p) * p).sum(1) + (solved.g.to(q) * q).sum(1)
    return own + other - 2 * shared + prices


def _read_sides(
    source: Any, target: Any, cost: Any, p: Any, q: Any
) -> tuple[BatchCosts, BatchCosts, Tensor, Tensor]:
    """The costs of both sides, of one type, and shares of mass [B, N]."""
    first, second = read_costs("source", source, cost), read_costs("target", target, cost)
    if first.sizes.numel() != second.sizes.numel():
        raise ValueError(
            "Expected 'source' and 'target' to hold as many graphs each, a pair for every graph "
            f"(got {first.sizes.numel()} and {second.sizes.numel()})."
        )
    if first.matrix.device != second.matrix.device:
        raise ValueError(
            "Expected 'source' and 'target' to be on one device (got "
            f"{str(first.matrix.device)!r} and {str(second.matrix.device)!r})."
        )
    dtype = torch.promote_types(compute_dtype(first.matrix), compute_dtype(second.matrix))
    first, second = (each._replace(matrix=each.matrix.to(dtype)) for each in (first, second))
    return first, second, _masses("p", p, first), _masses("q", q, second)


def _masses(name: str, given: Any, costs: BatchCosts) -> Tensor:
    """[B, N] shares of mass, zero in what pads a graph; differentiable in what is given."""
    like, sizes = costs.matrix, costs.sizes.tolist()
    if given is None:
        return costs.is_point.to(like) / costs.sizes.to(like)[:, None]
    if isinstance(given, list | tuple):
        if len(given) != len(sizes):
            raise ValueError(
                f"Expected '{name}' to hold a vector for each of {len(sizes)} graphs (got "
                f"{len(given)})."
            )
        for index, (each, size) in enumerate(zip(given, sizes, strict=True)):
            check_vector(f"{name}[{index}]", each, size, "point of this graph")
        given = torch.cat(list(given))
    check_masses(name, given, sum(sizes), "point of all graphs in their order")
    # In float64 until they are shares: masses may be of a size that the type of the costs is not.
    mass = like.new_zeros(like.shape[:2], dtype=torch.float64)
    mass = mass.index_put((costs.is_point,), given.to(mass))
    empty = (mass.detach().amax(1) == 0).nonzero()[:, 0]
    if empty.numel():
        raise ValueError(
            f"Expected every graph to have mass in '{name}' (got none in graph {int(empty[0])})."
        )
    return normalized(mass).to(like)


@torch.no_grad()
def _solve(
    first: BatchCosts,
    second: BatchCosts,
    p: Tensor,
    q: Tensor,
    starts: Sequence[str] | None = None,
    max_iter: int = STEPS,
    seed: int = 0,
    backend: str = "auto",
) -> _Solved:
    starts = read_starts(starts, STARTS, default=STARTS[:2], takes_plans=False)
    options = SolverOptions(starts=starts, max_iter=max_iter, seed=seed, backend=backend)
    LINEAR_TRANSPORT.find(backend, _CPU)
    c, d = first.matrix, second.matrix
    num_pairs, n, m = c.size(0), c.size(1), d.size(1)
    zeros = partial(torch.zeros, dtype=torch.float64, device=c.device)
    converged = torch.zeros(num_pairs, dtype=torch.bool, device=c.device)
    found = _Solved(
        c.new_zeros(num_pairs, n, m), zeros(num_pairs), converged, zeros(num_pairs, n),
        zeros(num_pairs, m),
    )  # fmt: skip
    for index, size in _groups(first.sizes, second.sizes):
        index = index.to(c.device)
        rows, columns = min(n, size), min(m, size)
        pairs = Pairs(
            pad(c[index, :rows, :rows], (0, size - rows) * 2),
            pad(d[index, :columns, :columns], (0, size - columns) * 2),
            pad(p[index, :rows], (0, size - rows)),
            pad(q[index, :columns], (0, size - columns)),
        )
        with full_precision(c.device):
            best = _best_of_starts(pairs, options)
        found.table[index, :rows, :columns] = best.plan[:, :rows, :columns].to(c)
        found.cost[index] = best.cost.to(c.device)
        found.converged[index] = best.converged.to(c.device)
        found.f[index, :rows] = best.f[:, :rows].to(c.device)
        found.g[index, :columns] = best.g[:, :columns].to(c.device)
    return found


def _groups(first: Tensor, second: Tensor) -> Iterator[tuple[Tensor, int]]:
    """Pairs that are padded to one size, which depends on the pair alone."""
    size = torch.maximum(first, second)
    size = (size + _MULTIPLE - 1) // _MULTIPLE * _MULTIPLE
    for each in size.unique().tolist():
        index = (size == each).nonzero()[:, 0]
        for part in index.split(max(1, _BLOCK // each**2)):
            yield part, each


def _best_of_starts(pairs: Pairs, options: SolverOptions) -> Descent:
    # Costs of order one, for squares that stay in range; a power of two leaves no rounding.
    largest = torch.maximum(*(each.abs().flatten(1).amax(1) for each in pairs[:2]))
    check_squares("costs", largest.double(), 4)
    unit = power_of_two(largest.clamp(min=torch.finfo(largest.dtype).tiny))
    pairs = pairs._replace(c=pairs.c / unit[:, None, None], d=pairs.d / unit[:, None, None])
    perfect = _PERFECT * sum(_mean_square(*side) for side in (pairs[0::2], pairs[1::2]))
    best = _descend(pairs, 0, options)
    for number in range(1, len(options.starts)):
        index = (best.cost > perfect).nonzero()[:, 0]
        if index.numel() == 0:
            break
        other = _descend(pairs.take(index.to(pairs.p.device)), number, options)
        better = other.cost < best.cost[index]
        for whole, part in zip(best, other, strict=True):
            whole[index[better]] = part[better]
    unit = unit.cpu().double()
    unit = unit * unit
    return best._replace(cost=best.cost * unit, f=best.f * unit[:, None], g=best.g * unit[:, None])


def _mean_square(cost: Tensor, mass: Tensor) -> Tensor:
    """[B] p^T C^2 p, on the CPU in float64."""
    total = torch.bmm(torch.bmm(mass[:, None], cost.square()), mass[..., None])
    return total[:, 0, 0].cpu().double()


def _descend(pairs: Pairs, number: int, options: SolverOptions) -> Descent:
    begin = start(pairs, options.starts[number], options.seed + number)
    plan = anneal(pairs, begin, options.max_iter, _EPSILON)
    kernel = LINEAR_TRANSPORT.find(options.backend, _CPU)
    on_cpu = Pairs(*(each.cpu().double() for each in pairs))
    return descend(on_cpu, plan.cpu(), _DESCENT, _TOL, kernel.linear_transport)
