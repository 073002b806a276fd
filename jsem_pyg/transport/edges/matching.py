"""Two graphs, matched by their edges alone: which nodes correspond."""

import logging
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
from ..._precision import without_autocast
from ..costs.adjacency import AdjacencyCost
from ..costs.cost import check_squares
from ..plan.plan import DENSE_LIMIT, Plan, Step
from ..problem.masses import read_masses
from ..problem.options import SolverOptions
from ..sinkhorn.scores import AssignmentScores, DenseScores
from .confidence import edge_confidence
from .isomorphism import find_isomorphism
from .moves import matched_difference
from .proximal import Point, Problem, transport
from .search import Found, search_assignment

Array = NDArray[Any]

_SHARED = 1 << 24  # pairs of nodes, up to which nodes of sides that differ in size share partners

_BINS = 2.0**20  # of masses that differ by a factor of two: others are the same

_log = logging.getLogger(__name__)


@without_autocast
def match_graphs(
    source: Any,
    target: Any,
    *,
    p: Tensor | None = None,
    q: Tensor | None = None,
    max_iter: int = 200,
    seed: int = 0,
) -> Plan:
    r"""Match the nodes of two graphs by Gromov-Wasserstein transport between their adjacencies.

    .. math::
        \min_{T \in \Pi(p, q)} \sum_{ijkl} |A_{ik} - B_{jl}|^2 \, T_{ij} T_{kl}

    Only edges are compared. A renamed copy of a graph is found exactly, at cost zero, if its nodes
    have the masses of the others (:mod:`jsem_pyg.transport.edges.isomorphism`). For other graphs
    the search starts from a few candidates for each node, whose surroundings look alike
    (:mod:`jsem_pyg.transport.edges.candidates`), since descent from the independent plan ends in
    wrong optima on all but random graphs. Better assignments are then searched along the edges
    (:mod:`jsem_pyg.transport.edges.moves`). Graphs of up to 2,000 nodes or so are also compared by
    the heat profile of every node (:func:`~jsem_pyg.transport.heat_profiles`), computed on the
    edges as they are, and on edges weighted by the overlap of their ends' neighbourhoods, which is
    small for random edges. Where nodes have few neighbours, as on roads and power lines, a search
    for alike branches is added (:mod:`jsem_pyg.transport.edges.branches`), which looks at all pairs
    of nodes. Otherwise memory grows with nodes and edges.

    Of a copy, and where both sides have equally many nodes of equal masses, the plan is a
    permutation. Otherwise it is dense, found by proximal steps from there
    (:mod:`jsem_pyg.transport.edges.proximal`), and takes memory for N K numbers.

    Of more than 2^24 pairs (4,096 x 4,096 nodes), of two sides that differ in size, each node of
    the smaller one gets a partner, and others stay alone. Then the weight of matched edges is what
    the search increases, the sum of :math:`A_{ik} B_{jl} T_{ij} T_{kl}`; the objective above, which
    counts other edges between partners as well, may be lower elsewhere. Of more than 2^28 pairs,
    masses have to be equal. Of more than 2^30 pairs, the candidates are the answer; a message at
    level INFO tells. `plan.history` names the stages.

    Deterministic, and computed on the CPU. No gradient flows through it.

    Args:
        source: the graph of N nodes: an :class:`~jsem_pyg.transport.AdjacencyCost`, a PyG `Data`,
            or what else the former takes.
        target: the graph of K nodes, likewise.
        p: [N] masses >= 0, divided by their sum; None: equal ones. A node without mass is matched
            with none, and its edges do not count.
        q: [K] masses of the target, likewise.
        max_iter: the most steps between candidates, the most annealings of an assignment, as long
            as they find a better one, and the most proximal steps from every start.
        seed: of the search for candidates.

    Returns:
        The plan, with exact marginals (except where nodes stay alone), and the objective above as
        its cost: a local optimum, which is not always the best. Where nodes look alike, their order
        decides which one is found. `plan.argmax()` has the partner of each node of the source.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if a graph has no node or is refused, squares of weights are not in the range of
            float64, masses are negative or all zero, or masses differ between more than 2^28 pairs
            of nodes.

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
    options = SolverOptions(max_iter=max_iter, seed=seed)
    costs = _read_cost("source", source), _read_cost("target", target)
    masses = [
        read_masses(name, mass, cost.num_points, "node").detach().cpu().numpy()
        for name, mass, cost in zip("pq", (p, q), costs, strict=True)
    ]
    kept = [np.flatnonzero(mass) for mass in masses]
    matrices = [cost.scipy()[nodes][:, nodes] for cost, nodes in zip(costs, kept, strict=True)]
    unit = max((float(each.data.max()) for each in matrices if each.nnz), default=1.0)
    check_squares("edge weights", torch.tensor(unit, dtype=torch.float64))
    first, second = (each / unit for each in matrices)
    problem = Problem(first, second, masses[0][kept[0]], masses[1][kept[1]])
    has_equal_masses = all(np.ptp(mass) <= 1e-6 * mass.max() for mass in problem[2:])
    is_uniform = has_equal_masses and first.shape == second.shape
    num_pairs = kept[0].size * kept[1].size
    if num_pairs > DENSE_LIMIT and not has_equal_masses:
        raise ValueError(
            f"Expected equal masses between {kept[0].size} x {kept[1].size} nodes, more than "
            f"{DENSE_LIMIT} pairs (got masses that differ)."
        )
    renamed = None
    if first.shape == second.shape:
        kind = np.zeros(2 * len(problem.p), np.int64) if is_uniform else _kinds(problem)
        renamed = find_isomorphism(first, second, kind)
    if renamed is not None:
        found = Found(renamed, [("isomorphism", renamed)])
    else:
        found = search_assignment(first, second, options.max_iter, options.seed)
    shape = costs[0].num_points, costs[1].num_points
    dtype = torch.promote_types(costs[0].weight.dtype, costs[1].weight.dtype)
    like = torch.zeros((), dtype=dtype, device=costs[0].device)
    if renamed is not None or is_uniform or (has_equal_masses and num_pairs > _SHARED):
        plan = _assigned(problem, found, kept, shape, like)
    else:
        point = transport(problem, found.partner, options.max_iter)
        plan = _transported(point, kept, shape, like, options.max_iter)
    return replace(
        plan,
        cost=plan.cost * unit**2,
        history=[step._replace(cost=step.cost * unit**2) for step in plan.history],
        believe=partial(_confidence, matrices[0], matrices[1], kept),
    )


def _read_cost(name: str, value: Any) -> AdjacencyCost:
    with as_argument(name, "edge_index"):
        cost = value if isinstance(value, AdjacencyCost) else AdjacencyCost(value)
    if cost.num_points == 0:
        raise ValueError(f"Expected '{name}' to have at least one node (got none).")
    return cost


def _kinds(problem: Problem) -> Array:
    """Numbers [N + K] of the nodes of both sides, the same where masses are, up to rounding."""
    mass = np.concatenate([problem.p, problem.q])
    return np.unique(np.rint(np.log2(mass) * _BINS), return_inverse=True)[1]


def _confidence(source: csr_array, target: csr_array, kept: Sequence[Array], plan: Plan) -> Tensor:
    """Of the best partners; between the nodes with mass."""
    place = np.full(plan.shape[1], -1)
    place[kept[1]] = np.arange(len(kept[1]))
    best = plan.argmax().cpu().numpy()[kept[0]]
    partner = np.where(best >= 0, place[best], -1)
    confidence = torch.zeros(plan.shape[0], dtype=torch.float32)
    confidence[torch.from_numpy(kept[0])] = torch.from_numpy(
        edge_confidence(source, target, partner)
    ).float()
    return confidence.to(plan.scores.like)


def _assigned(
    problem: Problem, found: Found, kept: Sequence[Array], shape: tuple[int, int], like: Tensor
) -> Plan:
    """The plan that sends every node with mass to its partner."""
    has_partner = np.flatnonzero(found.partner >= 0)
    size = has_partner.size
    partner = torch.full((shape[0],), -1, device=like.device)
    mass = like.new_full((shape[0],), -torch.inf)
    nodes = torch.from_numpy(kept[0][has_partner]).to(like.device)
    partner[nodes] = torch.from_numpy(kept[1][found.partner[has_partner]]).to(like.device)
    share = problem.p[has_partner]
    mass[nodes] = torch.from_numpy(np.log2(share / share.sum())).to(like)

    def cost(partner: Array) -> float:
        return matched_difference(problem.source, problem.target, partner) / size**2

    history = [Step(name, 0.0, cost(each), 0.0, 1.0) for name, each in found.stages]
    return Plan(AssignmentScores(partner, mass, shape[1]), cost(found.partner), history=history)


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
