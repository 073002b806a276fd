r"""Probabilities of partners, from known pairs, features, and edges of one or several kinds.

Known pairs say something about their neighbours, these about theirs, and so on. With probabilities
T of pairs, the partner of l is a neighbour of i with probability :math:`q_{il} = \sum_k A_{ik}
T_{kl}`. If i and j are partners, that is so for the neighbours l of j, as far as the source has the
target's edges. So the pair (i, j) gets, for each neighbour l of j, the logarithm of

.. math::
    \frac{s \sum_k A_{ik} T_{kl} / p_{ik} + (1 - s) (c_l - q_{il}) + 1 - c_l}{1 - s' q_{il}}

with s the share of the target's edges that the source has, s' the reverse, and :math:`p_{ik}` the
chance of an edge. Nothing is known about a node l without likely partners: :math:`c_l = \sum_k
T_{kl}` counts them. Both directions are averaged, by s and s'. Kinds of edges add up, and so does
the likelihood ratio of features. Scores become probabilities that sum to one for every node.

Source: mean-field inference of the posterior of two correlated graphs, whose message-passing form
is in Piccioli, Semerjian, Sicuro and Zdeborová, "Aligning random graphs with a sub-tree similarity
message-passing algorithm", Journal of Statistical Mechanics, 2022.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, dia_array, hstack, vstack

from .assignment import PARTNERS, sparse_rows
from .confidence import pattern
from .likelihood import FeatureLikelihood
from .soft import Soft, shares_of

Array = NDArray[Any]

PRIOR_KEPT = 0.7  # share of the edges of the smaller graph that the other one has
PRIOR_EDGES = 2.0  # edges that this counts as
MOST_KEPT = 0.98
BELIEF_STEPS = 16
BELIEF_COLD = 0.7  # what evidence counts, since that of neighbours is not independent
BELIEF_DAMPING = 0.2  # share of the step before
LEAST_BELIEF = 1e-4
LEAST_BELIEVED = 1 << 17  # pairs of nodes in all, at least


class Layer(NamedTuple):
    """Edges of one kind, of both graphs."""

    source: csr_array  # [N, N] ones, symmetric
    target: csr_array  # [K, K]
    kept: tuple[float, float]  # shares of the target's edges that the source has, and the reverse


def make_layer(source: csr_array, target: csr_array, known: Array) -> Layer:
    """Estimate from edges between known pairs [2, M] which share of edges both graphs have.

    With few of them it is near the prior: 0.7 of the edges of the graph that has fewer.
    """
    first, second = pattern(source), pattern(target)
    parts = first[known[0]][:, known[0]], second[known[1]][:, known[1]]
    both, edges = float((parts[0] * parts[1]).sum()), (second.nnz, first.nnz)
    seen = parts[1].nnz, parts[0].nnz
    count = PRIOR_EDGES
    shares = []
    for side in (0, 1):
        prior = PRIOR_KEPT * min(1.0, edges[1 - side] / max(1, edges[side]))
        shares.append(min((both + count * prior) / (seen[side] + count), MOST_KEPT))
    return Layer(first, second, (shares[0], shares[1]))


class Beliefs(NamedTuple):
    """Probabilities of partners."""

    shares: csr_array  # [N, K] a few for a node, that sum to one or less
    of_known: Array  # [M] of known pairs: what they would have if they were not known
    bits: float | None = None  # what features say on average, if there are any


def find_beliefs(
    layers: list[Layer], known: Array, start: csr_array, features: FeatureLikelihood | None = None
) -> Beliefs:
    """Find probabilities of partners.

    Args:
        layers: edges, kind by kind; N is not larger than K.
        known: [2, M] pairs, which keep a probability of one.
        start: [N, K] first probabilities.
        features: what features say; they learn how much from what the edges say.
    """
    shape = start.shape
    fixed = csr_array((np.ones(known.shape[1], np.float32), tuple(known)), shape)
    kept = max(PARTNERS, LEAST_BELIEVED // max(1, shape[0]))
    beliefs = with_known(start, fixed)
    if not layers:
        return Beliefs(beliefs, (start * fixed).sum(1)[known[0]])
    for _ in range(BELIEF_STEPS):
        found, offset = _edge_scores(layers, beliefs, fixed, kept)
        if features is not None:
            features.learn(from_scores(*found, shape[1]))
            found = features.joined(*found, offset)
        damping = np.float32(BELIEF_DAMPING)
        new = with_known(from_scores(*found, shape[1]), fixed)
        beliefs = (damping * beliefs + (1 - damping) * new).tocsr()
        beliefs.data[beliefs.data < LEAST_BELIEF] = 0
        beliefs.eliminate_zeros()
    found, offset = _edge_scores(layers, beliefs, csr_array(shape), kept)
    found = found if features is None else features.joined(*found, offset)
    alone = from_scores(*found, shape[1]) * fixed
    return Beliefs(beliefs, alone.sum(1)[known[0]])


def with_known(beliefs: csr_array, fixed: csr_array) -> csr_array:
    """Replace the rows and columns of known nodes by their pairs."""
    entries = beliefs.tocoo()
    is_free = (fixed.sum(1) == 0)[entries.coords[0]] & (fixed.sum(0) == 0)[entries.coords[1]]
    places = tuple(each[is_free] for each in entries.coords)
    return csr_array((entries.data[is_free], places), beliefs.shape) + fixed


def from_scores(column: Array, score: Array, num_targets: int) -> csr_array:
    """Turn scores [N, m] of columns [N, m], -1 for none, into probabilities [N, K].

    Sums of rows are one, and sums of columns one at most.
    """
    top = np.maximum(score.max(1, initial=-np.inf, keepdims=True), -1e30)
    likely = np.exp(BELIEF_COLD * (score - top), dtype=np.float64)
    matrix = sparse_rows(np.where(likely > 0, column, -1), likely, num_targets)
    return shares_of(matrix).astype(np.float32)


def _edge_scores(
    layers: list[Layer], beliefs: csr_array, fixed: csr_array, kept: int
) -> tuple[Soft, Array]:
    """Score pairs by edges: the best of every row, and what all pairs of a column have."""
    from ...kernels.candidates.numba_cpu import top_products  # numba loads slowly

    turned = beliefs.T.tocsr()
    certain = np.minimum(beliefs.sum(1), 1), np.minimum(beliefs.sum(0), 1)
    offset = np.zeros(fixed.shape[1])
    left, right = [], []
    for source, target, (kept_target, kept_source) in layers:
        share = kept_target / (kept_target + kept_source)
        ratio, without = neighbour_evidence(source, beliefs, certain[1], kept_target, kept_source)
        back, _ = neighbour_evidence(target, turned, certain[0], kept_source, kept_target)
        offset += share * (target @ without)
        left += [share * ratio, source]
        right += [target, ((1 - share) * back).T]
    offset[fixed.sum(0) > 0] = -np.inf
    first = hstack(left, format="csr").astype(np.float32)
    second = vstack(right, format="csr").astype(np.float32)
    column, score = top_products(first, second, offset.astype(np.float32), kept)
    is_known = (fixed.sum(1) > 0)[:, None]
    return Soft(np.where(is_known | (score == -np.inf), -1, column), score), offset


def neighbour_evidence(
    edges: csr_array, beliefs: csr_array, certain: Array, kept: float, kept_back: float
) -> tuple[csr_array, Array]:
    """Compute logarithms [N, K] of the ratio, less what they are without any edge [K]."""
    degree = np.maximum(edges.sum(1), 1)
    # The geometric mean of an even chance and of a chance by degrees.
    rarity = (degree**-0.5).astype(np.float32)
    chance = max(edges.nnz, 1) / (degree**0.5).sum() ** 2
    near = (edges @ beliefs).tocsr()
    rare = (edges @ (dia_array((rarity[None], [0]), (rarity.size,) * 2) @ beliefs)).tocsr()
    for each in (near, rare):
        each.sort_indices()
    ratio = rare.data * np.repeat(rarity / chance, np.diff(near.indptr))
    probability, known = np.minimum(near.data, 1), certain[near.indices]
    missing = (1 - kept) * np.maximum(known - probability, 0) + 1 - known
    without = np.log(1 - kept * certain)
    value = np.log(kept * ratio + missing) - np.log(1 - kept_back * probability)
    value -= without[near.indices]
    return csr_array((value.astype(np.float32), near.indices, near.indptr), near.shape), without
