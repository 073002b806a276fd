r"""Graphs whose nodes are not all on both sides: some have a partner, strangers have none.

Beliefs as in :mod:`.beliefs`, with one more choice for every node, to be alone. If i and j are
partners, and so are k and l, then an edge between i and k is one between j and l but for a few; so
each edge that only one side has, between nodes that have partners, counts against a pair as a
common one counts for it. Beliefs start from a few candidates, of small graphs from the best
assignment, and are cooled. Then all but sure pairs are forgotten, of which each has some edges in
common with the others; the rest grows from these.

Such a search finds pairs that agree between any two graphs. So it is repeated while both lack some
edges: partners are found again, and what only happens to agree is not. A logistic model weighs how
often a pair is found, how often all are, and how many edges they have in common.
`examples/benchmarks/alignment_confidence.py --fit` fits it to simulated pairs of graphs, among them
unrelated ones. Pairs that are less likely than a limit, or found again in less than half of the
searches, are dropped.

Source: a subgraph of least degree k that both graphs share is right with high probability, Cullina,
Kiyavash, Mittal and Poor, "Partial recovery of Erdős-Rényi graph alignment via k-core alignment",
POMACS 3, 2019.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, triu, vstack

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
COLDS = (*np.geomspace(0.3, 1, 12), *GROWTH)
DAMPING = np.float32(0.2)  # share of the step before
SCORED = 60  # pairs of a node
BALANCING = 30  # steps of a posterior
HALF = 0.51  # of two pairs that share a node, one has less; twins have rounding around one half
SURE = 0.9  # belief of pairs that others grow from
FEW_PAIRS = 40_000  # of nodes; of so small graphs, candidates start from too little belief
DENSE = 6.0  # mean degree from which on sure pairs have three common edges, not two
REPEATS, LOST = 4, 0.06  # searches, in which both graphs lack so many of their edges
WEIGHTS = (-14.59, 2.12, 0.36, 2.49, 2.34, 7.98, 8.84)  # of `evidence`
LEAST, OFTEN = 0.8, 0.5  # probability of a pair that stays, and share of searches that find it


def match_with_strangers(
    source: csr_array, target: csr_array, max_iter: int, seed: int
) -> tuple[list[tuple[str, Array]], Beliefs]:
    """Find partners [N] of K nodes, -1 for none, stage by stage, and what is believed of them."""
    first, second = pattern(source), pattern(target)
    partner = _search(first, second, max_iter, seed)
    found = evidence(first, second, partner, max_iter, seed)
    chance = 1 / (1 + np.exp(-found @ np.array(WEIGHTS)))
    kept = np.where((chance > LEAST) & (found[:, 1] >= OFTEN), partner, -1)
    shares = sparse_rows(kept[:, None], chance[:, None], target.shape[0])
    return [("believed", partner), ("found again", kept)], Beliefs(shares, np.empty(0))


def evidence(
    source: csr_array, target: csr_array, partner: Array, max_iter: int, seed: int
) -> Array:
    """Collect evidence for pairs, as above: [N, 7], zero for nodes alone; edges weigh one."""
    draw = np.random.default_rng(seed)
    again = np.zeros(len(partner))
    for _ in range(REPEATS):
        first, second = _without_some(source, draw), _without_some(target, draw)
        again += (_search(first, second, max_iter, seed) == partner) / REPEATS
    nodes = np.flatnonzero(partner >= 0)
    own, other = source[nodes][:, nodes], pulled(target, partner[nodes])
    common = csr_array(own * other).sum(1)
    every = own.sum(1) + other.sum(1) - common
    found = np.zeros((len(partner), len(WEIGHTS)))
    found[nodes, 0] = 1
    found[nodes, 1] = again[nodes]
    found[nodes, 2] = np.log(common)
    found[nodes, 3] = common / every
    found[nodes, 4] = again[nodes].sum() / max(1, nodes.size)
    found[nodes, 5] = common.sum() / max(1, every.sum())
    found[nodes, 6] = nodes.size / max(1, min(source.shape[0], target.shape[0]))
    return found


def _without_some(graph: csr_array, draw: np.random.Generator) -> csr_array:
    """Drop some of the edges of a symmetric graph of ones."""
    upper = triu(graph, 1).tocoo()
    kept = draw.random(upper.nnz) >= LOST
    half = csr_array((upper.data[kept], tuple(each[kept] for each in upper.coords)), graph.shape)
    return half + half.T


def _search(source: csr_array, target: csr_array, max_iter: int, seed: int) -> Array:
    """Find likely pairs by beliefs: partners [N], -1 for none."""
    if source.shape[0] * target.shape[0] <= FEW_PAIRS:
        partner = search_assignment(source, target, max_iter, seed)[-1][1]
    else:
        task = make_task(source, target, local_features(source, target), seed)
        partner = search_candidates(task, max_iter)[-1][1]
    common = 3 if min(each.nnz / max(1, each.shape[0]) for each in (source, target)) > DENSE else 2
    begin = np.clip(edge_confidence(source, target, partner), *FIRST)
    partner, belief = _believed(source, target, partner, begin, COLDS)
    core = _core(source, target, np.where(belief > SURE, partner, -1), common)
    return grown(source, target, core)


def grown(source: csr_array, target: csr_array, sure: Array) -> Array:
    """Find likely pairs by beliefs that begin with sure ones: partners [N], -1 for none."""
    partner, belief = _believed(source, target, sure, np.full(len(sure), FIRST[1]), GROWTH)
    return _core(source, target, np.where(belief > HALF, partner, -1), 1)


def _believed(
    source: csr_array, target: csr_array, partner: Array, begin: Array, colds: tuple[float, ...]
) -> tuple[Array, Array]:
    """Repeat beliefs that begin with partners [N]: return likely ones, and their probabilities."""
    shape = source.shape[0], target.shape[0]
    beliefs = sparse_rows(partner[:, None], begin[:, None].astype(np.float32), shape[1])
    for cold in colds:
        new = _posterior(*_scores(source, target, beliefs), shape, cold)
        beliefs = (DAMPING * beliefs + (1 - DAMPING) * new).tocsr()
        beliefs.data[beliefs.data < LEAST_BELIEF] = 0
        beliefs.eliminate_zeros()
    likely = beliefs.tocoo()
    row, column, share = (each[likely.data > HALF] for each in (*likely.coords, likely.data))
    partner, belief = np.full(shape[0], -1), np.zeros(shape[0])
    partner[row], belief[row] = column, share
    # Nobody knows which of two alike nodes it is.
    return partner, belief / np.maximum(count_alike(source), count_alike(target)[partner])


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
