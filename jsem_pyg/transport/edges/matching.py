"""Two graphs, matched by their edges alone: which nodes correspond."""

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from ..._checks import as_argument
from ..costs.adjacency import AdjacencyCost
from ..factored.profiles import comparable, heat_profiles, overlap_weights
from ..plan.plan import DENSE_LIMIT, Plan, Step
from ..problem.masses import read_masses
from ..problem.options import SolverOptions, read_starts
from ..sinkhorn.assignment import AssignmentScores
from ..sinkhorn.scores import DenseScores
from ..sparse.search import matched_difference, search_candidates
from .confidence import edge_confidence
from .isomorphism import find_isomorphism
from .proximal import Point, Problem, assigned, likely, transport
from .search import Found, padded, search_assignment

Array = NDArray[Any]

STARTS = ("heat", "random")

_LEAST = 1e-6  # of an entry of a given plan, to its largest: descent could not leave a zero

_log = logging.getLogger(__name__)


def match_graphs(
    source: Any,
    target: Any,
    *,
    p: Tensor | None = None,
    q: Tensor | None = None,
    starts: Sequence[str] | Plan | None = None,
    max_iter: int = 200,
    seed: int = 0,
) -> Plan:
    r"""Match the nodes of two graphs by Gromov-Wasserstein transport between their adjacencies.

    .. math::
        \min_{T \in \Pi(p, q)} \sum_{ijkl} |A_{ik} - B_{jl}|^2 \, T_{ij} T_{kl}

    Only edges are compared. A renamed copy of a graph is found exactly, at cost zero
    (:mod:`jsem_pyg.transport.edges.isomorphism`). For other graphs the search starts from the heat
    profile of every node (:func:`~jsem_pyg.transport.heat_profiles`), since descent from the
    independent plan ends in wrong optima on all but random graphs. The profiles are computed on the
    edges as they are, and on edges weighted by the overlap of their ends' neighbourhoods, which is
    small for random edges. Where nodes have few neighbours, as on roads and power lines, a search
    for alike branches is added (:mod:`jsem_pyg.transport.edges.branches`).

    Where both sides have equally many nodes of equal masses, permutations are searched
    (:mod:`jsem_pyg.transport.edges.search`). Otherwise plans are dense, found by proximal
    steps (:mod:`jsem_pyg.transport.edges.proximal`), which take longer. Both look at all
    pairs of nodes, so memory grows with N K.

    Of more than 2^28 pairs a few candidates for each node are compared instead, nodes whose
    surroundings look alike (:mod:`jsem_pyg.transport.sparse.search`), in memory that grows with
    nodes and edges. `plan.history` names the stages, and a message at level INFO tells. There
    masses have to be equal; of two sides that differ in size, each node of the smaller one gets a
    partner, and others stay alone.

    Deterministic, and computed on the CPU. No gradient flows through it.

    Args:
        source: the graph of N nodes: an :class:`~jsem_pyg.transport.AdjacencyCost`, a PyG `Data`,
            or what else the former takes.
        target: the graph of K nodes, likewise.
        p: [N] masses >= 0, divided by their sum; None: equal ones. A node without mass is matched
            with none, and its edges do not count.
        q: [K] masses of the target, likewise.
        starts: some of "heat" (nodes from which heat spreads alike) and "random" (a permutation, a
            new one each time); or a plan to go on from. None: "heat".
        max_iter: the most annealings of a permutation, as long as they find a better one; or the
            most proximal steps from every start; or steps between candidates.
        seed: of random starts, and of the search for candidates.

    Returns:
        The plan, with exact marginals (except between candidates of sides that differ in size), and
        the objective above as its cost: a local optimum, which is not always the best.
        `plan.argmax()` has the partner of each node of the source.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a graph has no node or is refused, masses are negative or all zero, or masses
            differ or starts are chosen between more than 2^28 pairs of nodes.

    Source: Mémoli, "Gromov-Wasserstein distances and the metric approach to object matching",
    Foundations of Computational Mathematics 11, 2011.

    Example:
        A triangle with a tail of two edges, and the same with its nodes renamed.

        >>> edges = torch.tensor([[0, 1, 2, 2, 3], [1, 2, 0, 3, 4]])
        >>> edges = torch.cat([edges, edges.flip(0)], 1)
        >>> names = torch.tensor([3, 0, 4, 2, 1])
        >>> plan = match_graphs(edges, names[edges])
        >>> plan.argmax()[2:], plan.cost
        (tensor([4, 2, 1]), 0.0)
    """
    options = SolverOptions(starts=starts, max_iter=max_iter, seed=seed)
    names = read_starts(starts, STARTS, default=("heat",))
    costs = _read_cost("source", source), _read_cost("target", target)
    masses = [
        read_masses(name, mass, cost.num_points, "node").detach().cpu().numpy()
        for name, mass, cost in zip("pq", (p, q), costs, strict=True)
    ]
    kept = np.flatnonzero(masses[0]), np.flatnonzero(masses[1])
    pairs = kept[0].size * kept[1].size
    matrices = [cost.scipy()[nodes][:, nodes] for cost, nodes in zip(costs, kept, strict=True)]
    unit = max((float(each.data.max()) for each in matrices if each.nnz), default=1.0)
    first, second = (each / unit for each in matrices)
    problem = Problem(first, second, masses[0][kept[0]], masses[1][kept[1]])
    shape = costs[0].num_points, costs[1].num_points
    if isinstance(starts, Plan):
        _check_start(starts, shape)
    dtype = torch.promote_types(costs[0].weight.dtype, costs[1].weight.dtype)
    like = torch.zeros((), dtype=dtype, device=costs[0].device)
    is_uniform = _is_uniform(problem)
    renamed = find_isomorphism(problem.source, problem.target) if is_uniform else None
    believe = partial(_confidence, matrices[0], matrices[1], kept)
    if renamed is not None:
        found = Found(renamed, [("isomorphism", 0.0)])
        return replace(_assigned(found, kept, shape, like), believe=believe)
    if pairs > DENSE_LIMIT:
        plan = _assigned(_matched_candidates(problem, names, options), kept, shape, like)
        return replace(_in_unit(plan, unit), believe=believe)
    distance = _profile_distance(problem)
    begun = (_partners(starts, kept),) if isinstance(starts, Plan) else names
    found = search_assignment(
        *padded(problem.source, problem.target, distance), begun, options.max_iter, options.seed
    )
    if is_uniform:
        plan = _assigned(found, kept, shape, like)
    else:
        tables = {"assignment": assigned(problem, found.partner)} | likely(distance)
        tables["independent"] = torch.zeros_like(distance)
        if isinstance(starts, Plan):
            tables["plan"] = _table(starts, kept)
        point = transport(problem, tables, options.max_iter)
        plan = _transported(point, kept, shape, like, options.max_iter)
    return replace(_in_unit(plan, unit), believe=believe)


def _confidence(source: csr_array, target: csr_array, kept: Sequence[Array], plan: Plan) -> Tensor:
    """Of the best partners; between the nodes with mass."""
    place = np.full(plan.shape[1], -1)
    place[kept[1]] = np.arange(len(kept[1]))
    best = plan.argmax().cpu().numpy()[kept[0]]
    partner = np.where(best >= 0, place[best], -1)
    confidence = torch.zeros(plan.shape[0])
    confidence[torch.from_numpy(kept[0])] = torch.from_numpy(
        edge_confidence(source, target, partner)
    ).float()
    return confidence.to(plan.scores.like)


def _in_unit(plan: Plan, unit: float) -> Plan:
    """The plan between weights of the user's unit."""
    history = [step._replace(cost=step.cost * unit**2) for step in plan.history]
    return replace(plan, cost=plan.cost * unit**2, history=history)


def _matched_candidates(problem: Problem, starts: Any, options: SolverOptions) -> Found:
    """Partners of a few candidates each, where a table of all pairs would be too large."""
    sizes = len(problem.p), len(problem.q)
    trouble = None if all(map(_is_equal, (problem.p, problem.q))) else "masses that differ"
    if starts != ("heat",):
        trouble = f"starts={options.starts!r}"
    if trouble is not None:
        raise ValueError(
            f"Expected equal masses and the default 'starts' between {sizes[0]} x {sizes[1]} "
            f"nodes, more than {DENSE_LIMIT} pairs (got {trouble})."
        )
    _log.info(
        "match_graphs compares a few candidate partners of each node, since %d x %d pairs of nodes "
        "are too many for a table.",
        *sizes,
    )
    stages = search_candidates(problem.source, problem.target, options.max_iter, options.seed)
    differences = [
        (name, matched_difference(problem.source, problem.target, partner))
        for name, partner in stages
    ]
    return Found(stages[-1][1], differences)


def _read_cost(name: str, value: Any) -> AdjacencyCost:
    with as_argument(name, "edge_index"):
        cost = value if isinstance(value, AdjacencyCost) else AdjacencyCost(value)
    if cost.num_points == 0:
        raise ValueError(f"Expected '{name}' to have at least one node (got none).")
    return cost


def _profile_distance(problem: Problem) -> Tensor:
    """The squared distances [N, K] of heat profiles, float32."""
    features = comparable(*(_features(each) for each in (problem.source, problem.target)))
    return torch.cdist(features.source, features.target).square_()


def _features(matrix: csr_array) -> Tensor:
    """Profiles [N, F] on overlaps, good where there are triangles, and on the edges as they are."""
    size, entries = matrix.shape[0], matrix.tocoo()
    edge_index = torch.from_numpy(np.stack(entries.coords).astype(np.int64))
    largest = entries.data.max() if entries.nnz else 1.0
    weight = torch.from_numpy((entries.data / largest).astype(np.float32))
    overlap = overlap_weights(edge_index, size).float()
    degree = torch.zeros(size).index_add(0, edge_index[0], weight)
    profiles = [heat_profiles(edge_index, size, each) for each in (overlap * weight, weight)]
    return torch.cat([*profiles, torch.log1p(degree)[:, None]], 1)


def _check_start(starts: Plan, shape: tuple[int, int]) -> None:
    if starts.shape != shape:
        raise ValueError(
            f"Expected 'starts' to be a plan of {shape[0]} x {shape[1]} nodes (got "
            f"{starts.shape[0]} x {starts.shape[1]})."
        )


def _table(plan: Plan, kept: Sequence[Array]) -> Tensor:
    """log2 T [N, K] of the nodes with mass, finite."""
    rows, columns = (torch.from_numpy(nodes) for nodes in kept)
    table = plan.dense().detach().cpu().float()[rows[:, None], columns]
    return table.clamp(min=_LEAST * float(table.max())).log2()


def _partners(plan: Plan, kept: Sequence[Array]) -> Array:
    """The best assignment [max(N, K)] of a plan, between graphs that are padded to one size."""
    from scipy.optimize import linear_sum_assignment  # takes half a second to import

    table = _table(plan, kept).numpy()
    wide = np.full((max(table.shape),) * 2, table.min())
    wide[: table.shape[0], : table.shape[1]] = table
    return linear_sum_assignment(wide, maximize=True)[1]


def _is_uniform(problem: Problem) -> bool:
    if len(problem.p) != len(problem.q):
        return False
    return all(_is_equal(mass) for mass in (problem.p, problem.q))


def _is_equal(mass: Array) -> bool:
    return bool(np.ptp(mass) <= 1e-6 * mass.max())


def _assigned(found: Found, kept: Sequence[Array], shape: tuple[int, int], like: Tensor) -> Plan:
    """The plan that sends every node with mass to its partner."""
    has_partner = np.flatnonzero(found.partner >= 0)
    size = has_partner.size
    partner = torch.full((shape[0],), -1, device=like.device)
    mass = like.new_full((shape[0],), -torch.inf)
    nodes = torch.from_numpy(kept[0][has_partner]).to(like.device)
    partner[nodes] = torch.from_numpy(kept[1][found.partner[has_partner]]).to(like.device)
    mass[nodes] = -math.log2(size)
    history = [Step(name, 0.0, each / size**2, 0.0, 1.0) for name, each in found.stages]
    cost = min(step.cost for step in history)
    return Plan(AssignmentScores(partner, mass, shape[1]), cost, history=history)


def _transported(
    point: Point, kept: Sequence[Array], shape: tuple[int, int], like: Tensor, max_iter: int
) -> Plan:
    """The dense plan, with rows and columns for the nodes without mass."""
    if not point.converged:
        _log.warning(
            "match_graphs stopped after max_iter = %d steps, before its plan had settled: more "
            "steps may find a better one.",
            max_iter,
        )
    table = like.new_full(shape, -torch.inf)
    rows, columns = (torch.from_numpy(nodes).to(like.device) for nodes in kept)
    table[rows[:, None], columns] = torch.from_numpy(point.plan).to(like).log2()
    epsilon = point.history[-1].epsilon
    return Plan(DenseScores(table), point.cost, epsilon, point.converged, point.history)
