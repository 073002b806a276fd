r"""Graphs whose nodes are not all on both sides: some have a partner, strangers have none.

Beliefs as in :mod:`.beliefs`, with one more choice for every node, to be alone. If i and j are
partners, and so are k and l, then an edge between i and k is one between j and l but for a few; so
each edge that only one side has, between nodes that have partners, counts against a pair as a
common one counts for it. Beliefs start from a few candidates, and are cooled slowly; where they end
with nobody on small graphs, they start from the best assignment instead. Then all but sure pairs
are forgotten, of which each has three edges in common with the others; the rest grows from these.

Such a search finds pairs that agree between any two graphs. Whether to believe them is asked of
all pairs together: in nats a pair, their edges say

.. math::
    \frac1m \Big( \sum_{(ij)} \ln \frac{s}{q_{ij}} + u \ln (1 - s) \Big) - \ln N

with m pairs, s the share of edges that is kept, u edges on one side only, and q the chance of an
edge: that of any two nodes, or, for an edge that closes a triangle, that of two neighbours of a
node. Between unrelated graphs that is below zero; if it is little, all nodes are alone. The less it
is, the more a pair has to have in common with the others to stay.

Source: a subgraph of least degree k that both graphs share is right with high probability, Cullina,
Kiyavash, Mittal and Poor, "Partial recovery of Erdős-Rényi graph alignment via k-core alignment",
POMACS 3, 2019.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack
from scipy.sparse.csgraph import connected_components

from .assignment import make_task, pulled, sparse_rows
from .beliefs import LEAST_BELIEF, Beliefs, neighbour_evidence
from .candidates import search_candidates
from .confidence import edge_confidence, pattern
from .features import local_features
from .isomorphism import count_alike
from .search import search_assignment

Array = NDArray[Any]

SHARE = 0.8  # of nodes that have a partner, before anything is known
KEPT = 0.95  # share of common edges, between nodes that have partners
FIRST = (0.1, 0.95)  # the least and the largest first belief
GROWTH = (1.0,) * 5  # inverse temperatures, of beliefs that begin with sure pairs
COLDS = (*np.geomspace(0.15, 1, 30), *GROWTH)
DAMPING = np.float32(0.2)  # share of the step before
SCORED = 60  # pairs of a node
BALANCING = 30  # steps of a posterior
HALF = 0.51  # of two pairs that share a node, one has less; twins have rounding around one half
SURE = 0.9  # belief of pairs that others grow from
# Nats a pair; then the least belief, and how many common edges, of a pair that stays.
LEVELS = ((2.5, HALF, 1), (0.5, SURE, 2))
FEW_PAIRS = 40_000  # of so small graphs, candidates start from too little belief


def match_with_strangers(
    source: csr_array, target: csr_array, max_iter: int, seed: int
) -> tuple[list[tuple[str, Array]], Beliefs]:
    """Find partners [N] of K nodes, -1 for none, stage by stage, and what is believed of them."""
    first, second = pattern(source), pattern(target)
    task = make_task(source, target, local_features(source, target), seed)
    stages = search_candidates(task, max_iter)[-1:]
    partner = stages[0][1]
    begin = np.clip(edge_confidence(first, second, partner), *FIRST)
    partner, belief, nats = _grown(first, second, partner, begin, COLDS)
    if (partner < 0).all() and source.shape[0] * target.shape[0] <= FEW_PAIRS:
        stages = search_assignment(source, target, max_iter, seed)[-1:]
        begin = np.full(begin.shape, FIRST[1])
        partner, belief, nats = _grown(first, second, stages[0][1], begin, GROWTH)
    stages.append((f"strangers, {nats:.1f} nats a pair", partner))
    found = sparse_rows(partner[:, None], belief[:, None], target.shape[0])
    return stages, Beliefs(found, np.empty(0))


def _grown(
    source: csr_array, target: csr_array, partner: Array, begin: Array, colds: tuple[float, ...]
) -> tuple[Array, Array, float]:
    """Grow pairs from first partners [N] and beliefs [N]; return as `_believed` does."""
    shape = source.shape[0], target.shape[0]
    beliefs = sparse_rows(partner[:, None], begin[:, None].astype(np.float32), shape[1])
    partner, belief, before = _believed(source, target, beliefs, colds)
    core = _core(source, target, np.where(belief > SURE, partner, -1), 3)
    beliefs = sparse_rows(core[:, None], np.full((shape[0], 1), FIRST[1], np.float32), shape[1])
    partner, belief, nats = _believed(source, target, beliefs, GROWTH)
    levels = ((p, k) for level, p, k in LEVELS if nats > level and before > 0)
    least, common = next(levels, (1.0, 0))
    return _core(source, target, np.where(belief > least, partner, -1), common), belief, nats


def _believed(
    source: csr_array, target: csr_array, beliefs: csr_array, colds: tuple[float, ...]
) -> tuple[Array, Array, float]:
    """Repeat beliefs [N, K]: likely partners [N], their probabilities [N], and nats a pair."""
    for cold in colds:
        new = _posterior(*_scores(source, target, beliefs), beliefs.shape, cold)
        beliefs = (DAMPING * beliefs + (1 - DAMPING) * new).tocsr()
        beliefs.data[beliefs.data < LEAST_BELIEF] = 0
        beliefs.eliminate_zeros()
    likely = beliefs.tocoo()
    row, column, share = (each[likely.data > HALF] for each in (*likely.coords, likely.data))
    partner, belief = np.full(source.shape[0], -1), np.zeros(source.shape[0])
    partner[row], belief[row] = column, share
    nats = nats_of_pairs(source, target, partner)
    alike = np.maximum(count_alike(source), count_alike(target)[partner])
    return partner, belief / alike, nats  # nobody knows which of them it is


def nats_of_pairs(source: csr_array, target: csr_array, partner: Array) -> float:
    """Compute what the edges between pairs say for them, as above; minus infinity of no pair."""
    nodes = np.flatnonzero(partner >= 0)
    if not nodes.size:
        return -np.inf
    own, other = source[nodes][:, nodes], pulled(target, partner[nodes])
    common = csr_array(own * other)
    edges = common.nnz / 2
    alone = (own.nnz + other.nnz) / 2 - 2 * edges
    chance = np.mean([each.nnz / each.shape[0] ** 2 for each in (source, target)])
    closing = max(chance, np.mean([_transitivity(each) for each in (source, target)]))
    # Edges of a forest join the pairs; of the others, a share closes triangles.
    forest = nodes.size - connected_components(common, directed=False)[0]
    share = ((common @ common) * common).nnz / max(1, common.nnz)
    closed = (edges - forest) * share
    total = (edges - closed) * np.log(KEPT / chance) + closed * np.log(KEPT / closing)
    total += alone * np.log(1 - KEPT)
    return float(total / nodes.size - np.log(max(source.shape[0], target.shape[0])))


def _scores(source: csr_array, target: csr_array, beliefs: csr_array) -> tuple[Array, Array]:
    """Find the best pairs by the likelihood ratio of their edges: columns and scores [N, m]."""
    from ...kernels.candidates.numba_cpu import top_products  # numba loads slowly

    certain = np.minimum(beliefs.sum(1), 1), np.minimum(beliefs.sum(0), 1)
    ratio, without = neighbour_evidence(source, beliefs, certain[1], KEPT, KEPT)
    back, before = neighbour_evidence(target, beliefs.T.tocsr(), certain[0], KEPT, KEPT)
    first = hstack([ratio / 2, source], format="csr").astype(np.float32)
    second = vstack([target, back.T / 2], format="csr").astype(np.float32)
    column, score = top_products(first, second, (target @ without).astype(np.float32), SCORED)
    return column, score + (source @ before)[:, None]


def _posterior(column: Array, score: Array, shape: tuple[int, int], cold: float) -> csr_array:
    """Turn scores into probabilities of pairs, of nodes that have one partner or none."""
    prior = SHARE / (np.sqrt(shape[0] * shape[1]) * (1 - SHARE) ** 2)
    weight = np.exp(np.minimum(cold * score.astype(float) + np.log(prior), 60))
    odds = sparse_rows(np.where(weight > 1e-6, column, -1), weight, shape[1])
    back, right = odds.T.tocsr(), np.ones(shape[1])
    for _ in range(BALANCING):
        left = 1 / (1 + odds @ right)  # the probability of being alone
        right = 1 / (1 + back @ left)
    left = 1 / (1 + odds @ right)
    row = np.repeat(np.arange(shape[0]), np.diff(odds.indptr))
    odds.data *= left[row] * right[odds.indices]
    return odds.astype(np.float32)


def _core(source: csr_array, target: csr_array, partner: Array, common: int) -> Array:
    """Drop pairs that have fewer edges in common with the others, until none has."""
    while True:
        nodes = np.flatnonzero(partner >= 0)
        kept = (source[nodes][:, nodes] * pulled(target, partner[nodes])).sum(1)
        if (kept >= common).all():
            return partner
        partner[nodes[kept < common]] = -1


def _transitivity(graph: csr_array) -> float:
    """Compute the share of paths of two edges whose ends are joined."""
    paths = float((graph.sum(1) * (graph.sum(1) - 1)).sum())
    return float(((graph @ graph) * graph).sum()) / max(1.0, paths)
