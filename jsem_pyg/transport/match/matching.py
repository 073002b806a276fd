"""Two graphs, matched by their edges alone: which nodes correspond."""

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from ..._checks import as_argument, check_nonnegative_int, check_positive_int
from ..._precision import without_autocast
from ..costs.adjacency import AdjacencyCost
from ..costs.cost import check_cost_range
from ..plan.plan import Plan, Step
from ..plan.scores import AssignmentScores
from .assignment import matched_difference
from .confidence import edge_confidence
from .isomorphism import find_isomorphism
from .search import Found, search_assignment

Array = NDArray[Any]


@without_autocast
def match_graphs(source: Any, target: Any, *, max_iter: int = 200, seed: int = 0) -> Plan:
    r"""Match the nodes of two graphs one to one, by their edges alone.

    .. math::
        \min_m \sum_{ik} |A_{ik} - B_{m_i m_k}|^2

    A renamed copy of a graph is found exactly, at cost zero, by the colours of its nodes
    (:mod:`jsem_pyg.transport.match.isomorphism`). Otherwise the search starts from a few
    candidates for each node, whose surroundings look alike
    (:mod:`jsem_pyg.transport.match.candidates`), since descent from the independent plan ends in
    wrong optima on all but random graphs. Better assignments are then searched along the edges
    (:mod:`jsem_pyg.transport.match.moves`). Graphs of up to 2,000 nodes or so are also compared by
    the heat profile of every node (:mod:`jsem_pyg.transport.profiles`), computed on the edges as
    they are, and on edges weighted by the overlap of their ends' neighbourhoods: it is
    small for random edges. If nodes have few neighbours, as on roads and power lines, a search
    for alike branches is added (:mod:`jsem_pyg.transport.match.branches`); it looks at all pairs
    of nodes. Otherwise memory grows with nodes and edges.

    Of two sides that differ in size, each node of the smaller one gets a partner, and others stay
    alone. Of more than 2^30 pairs of nodes, the candidates are the answer; a message at level INFO
    says so. `plan.history` names the stages.

    Deterministic, and computed on the CPU. No gradient flows through it.

    Args:
        source: the graph of N nodes: an :class:`~jsem_pyg.transport.AdjacencyCost`, a PyG `Data`,
            or what else the former takes.
        target: the graph of K nodes, likewise.
        max_iter: the most steps between candidates, and the most annealings of an assignment, as
            long as they find a better one.
        seed: of the search for candidates.

    Returns:
        The plan that sends the same mass from every node to its partner, `plan.argmax()`. Its cost
        is :math:`\sum |A_{ik} - B_{jl}|^2 T_{ij} T_{kl}`: a local optimum, not always the
        best. If nodes look alike, their order decides which one is found.

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
    check_positive_int("max_iter", max_iter)
    check_nonnegative_int("seed", seed)
    costs = _read_cost("source", source), _read_cost("target", target)
    matrices = costs[0].scipy(), costs[1].scipy()
    unit = max((float(each.data.max()) for each in matrices if each.nnz), default=1.0)
    first, second = (each / unit for each in matrices)
    renamed = find_isomorphism(first, second)
    if renamed is not None:
        found = Found(renamed, [("isomorphism", renamed)])
    else:
        found = search_assignment(first, second, max_iter, int(seed))
    count = min(first.shape[0], second.shape[0])

    def cost_of(partner: Array) -> float:
        return matched_difference(*matrices, partner) / count**2

    history = [Step(name, 0.0, cost_of(partner), 0.0, 1.0) for name, partner in found.stages]
    device = costs[0].device
    dtype = torch.promote_types(costs[0].weight.dtype, costs[1].weight.dtype)
    partner = torch.from_numpy(found.partner).to(device)
    mass = torch.where(partner >= 0, -np.log2(count), -torch.inf).to(dtype)
    return Plan(
        AssignmentScores(partner, mass, second.shape[0]),
        cost_of(found.partner),
        history=history,
        confidence_model=partial(_confidence, first, second),
    )


def _read_cost(name: str, value: Any) -> AdjacencyCost:
    with as_argument(name, "edge_index"):
        cost = value if isinstance(value, AdjacencyCost) else AdjacencyCost(value)
    check_cost_range(name, float(cost.weight.max()) if cost.weight.numel() else 0.0)
    return cost


def _confidence(source: csr_array, target: csr_array, plan: Plan) -> Tensor:
    found = edge_confidence(source, target, plan.argmax().cpu().numpy())
    return torch.from_numpy(found).to(plan.scores.like)
