"""Two graphs, matched by their edges and by what else is known: which nodes correspond."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack
from torch import Tensor

from ..._checks import (
    as_argument,
    check_bool,
    check_nonnegative,
    check_nonnegative_int,
    check_positive_int,
)
from ...kernels.torch_func import without_autocast
from ..costs.adjacency import AdjacencyCost
from ..costs.cost import check_cost_range
from ..plan.plan import Plan, Step
from ..plan.scores import SparseScores
from .assignment import matched_difference, sparse_rows
from .beliefs import Beliefs
from .confidence import belief_confidence, edge_confidence, pattern
from .isomorphism import count_alike, find_isomorphism
from .knowledge import Knowledge, match_by_knowledge, nats_of_types, read_knowledge
from .search import search_assignment
from .strangers import match_with_strangers

Array = NDArray[Any]


@without_autocast
def match_graphs(
    source: Any,
    target: Any,
    *,
    known_pairs: Tensor | None = None,
    features: tuple[Any, Any] | None = None,
    edge_type: tuple[Tensor, Tensor] | None = None,
    feature_weight: float = 1.0,
    strangers: bool = False,
    max_iter: int = 200,
    seed: int = 0,
) -> Plan:
    r"""Match the nodes of two graphs, by their edges and by what else is known.

    By edges alone, nodes are matched one to one:

    .. math::
        \min_m \sum_{ik} |A_{ik} - B_{m_i m_k}|^2

    A renamed copy of a graph is found exactly, at cost zero, by the colours of its nodes
    (:mod:`jsem_pyg.transport.match.isomorphism`). Otherwise the search starts from a few
    candidates for each node, whose surroundings look alike
    (:mod:`jsem_pyg.transport.match.candidates`), and goes on along the edges
    (:mod:`jsem_pyg.transport.match.moves`). Graphs of up to 2,000 nodes or so are also compared by
    the heat profile of every node (:mod:`jsem_pyg.transport.profiles`). If nodes have few
    neighbours, as on roads and power lines, a search for alike branches is added
    (:mod:`jsem_pyg.transport.match.branches`); it looks at all pairs of nodes. Otherwise memory
    grows with nodes and edges. Nodes without edges get any partner, of a low confidence.

    Of two sides that differ in size, each node of the smaller one gets a partner, and others get
    none. With `strangers`, a node of either side gets none (-1 in `plan.argmax()`) unless much
    speaks for one (:mod:`jsem_pyg.transport.match.strangers`). Of more than 2^30 pairs of nodes,
    the candidates are the answer, as a message at level INFO says. `plan.history` names the stages.

    With known pairs, features or types of edges, the plan has probabilities of partners
    (:mod:`jsem_pyg.transport.match.beliefs`): `plan.argmax()` is the likeliest partner, which two
    nodes may share, and `plan.topk(k)` has the k likeliest. Known pairs keep all their mass; of
    graphs of up to 2,000 nodes or so, those that disagree with edges lead no others. How much
    features count is learned from the partners that edges suggest; `plan.history` has it in bits a
    node; beside known pairs, features of less than half a bit are left out. Weights of edges do not
    count there. The confidence of rings and roads with known pairs is not calibrated.

    Deterministic, and computed on the CPU. No gradient flows through it.

    Args:
        source: the graph of N nodes: an :class:`~jsem_pyg.transport.AdjacencyCost`, a PyG `Data`,
            or what else the former takes.
        target: the graph of K nodes, likewise.
        known_pairs: [2, M] pairs of a source and a target node that are known to correspond, each
            node at most once.
        features: [N, d] and [K, d] in one space, tensors, arrays, or SciPy sparse matrices such as
            a TfidfVectorizer's. Squared distances count, by their ranks. Take logarithms of counts.
        edge_type: [E] and [E'] integers, the types of both sides' edges, which are edge_index
            [2, E] or Data. Edges of one type are compared with edges of this type. Types that do
            not agree more than by chance are left out.
        feature_weight: what the features' logarithmic likelihood ratio is multiplied by.
        strangers: both sides may have nodes that the other one lacks. Edges alone count there,
            without their weights, and no pair may be known.
        max_iter: the most steps between candidates, and the most annealings of an assignment, as
            long as they find a better one.
        seed: of the search for candidates.

    Returns:
        The plan that sends the same mass from every node to its partners. Its cost
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
    check_nonnegative("feature_weight", feature_weight)
    costs = _read_cost("source", source), _read_cost("target", target)
    knowledge = read_knowledge(
        known_pairs, features, feature_weight, edge_type, (source, target), costs
    )
    check_bool("strangers", strangers)
    if strangers and knowledge is not None:
        raise ValueError(
            "Expected 'strangers' to stand without 'known_pairs', 'features' and 'edge_type' (got "
            "some): it goes by edges alone. To fix this, leave them out, or strangers=False."
        )
    matrices = costs[0].scipy(), costs[1].scipy()
    unit = max((float(each.data.max()) for each in matrices if each.nnz), default=1.0)
    first, second = (each / unit for each in matrices)
    dtype = torch.promote_types(costs[0].weight.dtype, costs[1].weight.dtype)

    def solve(knowledge: Knowledge | None) -> Plan:
        stages, found = _search(first, second, knowledge, strangers, max_iter, int(seed))
        shares = stages[-1][1]
        mass = 1 / max(1, min(shares.shape))
        steps = [Step(name, 0.0, _cost(*matrices, each * mass), 0.0, 1.0) for name, each in stages]
        return Plan(
            _scores(shares * mass, costs[0].weight.to(dtype)),
            steps[-1].cost,
            history=steps,
            confidence_model=partial(_confidence, first, second, knowledge, found),
        )

    # Types and features that say nothing may not lose what is found without them.
    untyped = None
    if knowledge is not None and knowledge.kinds:
        untyped = match_graphs(
            source, target, known_pairs=known_pairs, features=features,
            feature_weight=feature_weight, max_iter=max_iter, seed=seed,
        )  # fmt: skip
        knowledge = replace(knowledge, rival=untyped.argmax().cpu().numpy())
    plan = solve(knowledge)
    if features is not None and knowledge is not None:
        is_other = knowledge.pairs.size or knowledge.kinds is not None
        rival = solve(replace(knowledge, features=None) if is_other else None)
        plan = plan if plan.confidence.mean() >= rival.confidence.mean() else rival
    if untyped is None or knowledge is None:
        return plan
    nats = partial(nats_of_types, *matrices, knowledge)
    return max(plan, untyped, key=lambda each: nats(each.argmax().cpu().numpy()))


def _search(
    source: csr_array,
    target: csr_array,
    knowledge: Knowledge | None,
    strangers: bool,
    max_iter: int,
    seed: int,
) -> tuple[list[tuple[str, csr_array]], Beliefs | None]:
    """Find shares [N, K] of partners, stage by stage: the last one is the result."""
    found = None
    is_plain = knowledge is None or knowledge.features is None
    sides = (source, target) if knowledge is None else knowledge.typed(source, target)
    renamed = find_isomorphism(*sides) if is_plain else None
    if renamed is not None and (
        knowledge is None or np.array_equal(renamed[knowledge.pairs[0]], knowledge.pairs[1])
    ):
        stages = [("isomorphism", renamed)]
        if knowledge is not None:
            shares = _assigned(renamed, target.shape[0])
            found = Beliefs(shares, np.ones(knowledge.pairs.shape[1]))
    elif strangers:
        stages, found = match_with_strangers(source, target, max_iter, seed)
    elif knowledge is None:
        stages = search_assignment(source, target, max_iter, seed)
    else:
        found, name = match_by_knowledge(source, target, knowledge, max_iter, seed)
        return [(name, found.shares)], found
    return [(name, _assigned(partner, target.shape[0])) for name, partner in stages], found


def _assigned(partner: Array, num_targets: int) -> csr_array:
    """Make the matrix [N, K] of partners [N], -1 for none."""
    return sparse_rows(partner[:, None], np.ones((len(partner), 1)), num_targets)


def _cost(source: csr_array, target: csr_array, mass: csr_array) -> float:
    """Sum |A_ik - B_jl|^2 T_ij T_kl; without rounding for one partner a node."""
    if np.all(np.diff(mass.indptr) <= 1) and len(np.unique(mass.data)) == 1:
        partner = np.full(mass.shape[0], -1)
        partner[np.diff(mass.indptr) > 0] = mass.indices
        return matched_difference(source, target, partner) * float(mass.data[0]) ** 2
    rows, columns = mass.sum(1), mass.sum(0)
    both = float(((source @ mass) * (mass @ target)).sum())
    squares = rows @ (source.power(2) @ rows) + columns @ (target.power(2) @ columns)
    return max(0.0, float(squares) - 2 * both)


def _scores(mass: csr_array, like: Tensor) -> SparseScores:
    """Sort masses by rows, the largest first, as their logarithms."""
    entries = mass.tocoo()
    row, column = entries.coords
    order = np.lexsort((column, -entries.data, row))
    places = (torch.from_numpy(each[order].astype(np.int64)) for each in (row, column))
    row, column = (each.to(like.device) for each in places)
    log = torch.from_numpy(np.log2(entries.data[order].astype(np.float64)))
    return SparseScores(row, column, log.to(like), mass.shape)


def _read_cost(name: str, value: Any) -> AdjacencyCost:
    with as_argument(name, "edge_index"):
        cost = value if isinstance(value, AdjacencyCost) else AdjacencyCost(value)
    check_cost_range(name, float(cost.weight.max()) if cost.weight.numel() else 0.0)
    return cost


def _confidence(
    source: csr_array,
    target: csr_array,
    knowledge: Knowledge | None,
    beliefs: Beliefs | None,
    plan: Plan,
) -> Tensor:
    partner = plan.argmax().cpu().numpy()
    sides = pattern(source), pattern(target)
    if knowledge is None or beliefs is None:
        found = edge_confidence(*sides, partner) if beliefs is None else beliefs.shares.sum(1)
    else:
        first, second = zip(*(knowledge.kinds or [sides]), strict=True)
        by_edges = edge_confidence(hstack(first, "csr"), hstack(second, "csr"), partner)
        belief = torch.sparse.sum(plan.topk(1), 1).to_dense().cpu().double().numpy()
        belief *= min(plan.shape)
        belief[knowledge.pairs[0]] = beliefs.of_known
        found = belief_confidence(belief, beliefs.of_known, beliefs.bits, by_edges)
    if knowledge is None or knowledge.features is None:
        given = knowledge or Knowledge(np.empty((2, 0), np.int64), None, 1.0, None)
        left, right = map(count_alike, given.typed(*sides), given.pairs)
        alike = np.maximum(left, right[partner])  # which may share their beliefs already
        found = found / alike if knowledge is None else np.minimum(found, 1 / alike)
    return torch.from_numpy(found).to(plan.scores.like)
