r"""The probability that partners are right, from the edges around them.

Any search matches many edges of two graphs that have nothing in common: two thirds, if nodes
have few neighbours. So a matched edge is weak evidence. Stronger is whether a pair follows from
others: the partners of some nodes are kept, and the node of the target that most edges from these
lead to is compared with the partner. Nodes that nothing tells apart share the probability.

A logistic model weighs this evidence. `examples/benchmarks/alignment_confidence.py` fits it to
simulated pairs of graphs, among them ones that do not correspond, and measures it on others.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from .assignment import BLOCK, sparse_rows

Array = NDArray[Any]

FEW_PAIRS = 10.0  # known pairs that say as much about the sides as their edges do
SPLITS = 3  # into nodes that are kept, and nodes to predict

WEIGHTS = (-18.38, 0.9, 2.07, 3.97, 11.22, 11.22, 0.55)  # of `evidence`

BELIEF_WEIGHTS = (0.64, 0.49, 1.3, -2.73, 0.53)  # of `belief_evidence`


def belief_confidence(belief: Array, of_known: Array, bits: float | None, by_edges: Array) -> Array:
    """Estimate probabilities [N] that partners are right from beliefs [N]; zero for none.

    Known pairs agree with the beliefs that come from them, and a search by edges with the edges
    that it keeps. Each says too much where it is alone, so their geometric mean counts. Features
    say in bits whether the sides correspond; as far as not, known pairs [M] say it by what they
    would have if they were not known, and where they are few, edges.
    """
    if bits is None:
        return np.sqrt(belief * by_edges)
    logit = belief_evidence(belief, of_known, bits, by_edges) @ np.array(BELIEF_WEIGHTS)
    return np.where(belief > 0, 1 / (1 + np.exp(-logit)), 0.0)


def belief_evidence(belief: Array, of_known: Array, bits: float, by_edges: Array) -> Array:
    """Compute logarithmic odds of beliefs, of edges, and of known pairs on average: [N, 5].

    Where few pairs are known, and features say little, beliefs agree with themselves whether they
    are right or not, known pairs as well: edges count in their place.
    """
    few = FEW_PAIRS / (FEW_PAIRS + len(of_known)) * (1 - min(bits, 1.0))
    mean = (of_known.sum() + 1) / (len(of_known) + 2)
    both = (np.clip(each, 1e-3, 1 - 1e-3) for each in (belief, by_edges))
    own, edges = (np.log(each / (1 - each)) for each in both)
    sides = np.array([1, few, (1 - few) * np.log(mean / (1 - mean))])
    return np.column_stack([own, few * edges, np.tile(sides, (len(belief), 1))])


def edge_confidence(source: csr_array, target: csr_array, partner: Array) -> Array:
    """Estimate the probabilities [N] that partners [N] are right; zero for none, -1.

    Of nodes that are alike, it is that of any of them. The graphs [N, N] and [K, K] are symmetric,
    and their weights do not count; edges of T types stand side by side, [N, T N] and [K, T K].
    """
    found = evidence(source, target, partner)
    is_kept = (partner >= 0) & (found[:, 4] > 0)
    return np.where(is_kept, 1 / (1 + np.exp(-found @ np.array(WEIGHTS))), 0.0)


def evidence(source: csr_array, target: csr_array, partner: Array) -> Array:
    """Collect evidence for each pair: [N, 7]; arguments as above."""
    first, second = (pattern(each) for each in (source, target))
    size = len(partner)
    chosen = sparse_rows(partner[:, None], np.ones((size, 1), np.float32), target.shape[0])
    both = (first.T * (_beyond(chosen, second) @ chosen.T)).sum(0)
    degree = np.diff(first.indptr)
    fewer = np.minimum(degree, chosen @ np.diff(second.indptr))
    predicted = _predicted(first, chosen, second, partner)
    share = first.data / np.repeat(degree, degree)
    around = csr_array((share, first.indices % max(1, size), first.indptr), (size, size))
    near = around @ predicted
    columns = [
        np.ones(size),
        both / np.maximum(fewer, 1),
        near,
        around @ near,
        np.full(size, both.sum() / max(1, min(first.nnz, second.nnz))),
        np.full(size, predicted.mean() if size else 0.0),
        np.log1p(fewer),
    ]
    return np.stack(columns, 1)


def pattern(matrix: csr_array) -> csr_array:
    """Make ones of weights."""
    ones = np.ones(matrix.nnz, np.float32)
    return csr_array((ones, matrix.indices, matrix.indptr), matrix.shape)


def _predicted(first: csr_array, chosen: csr_array, second: csr_array, partner: Array) -> Array:
    """Count how often [N] a partner follows from the partners of a random half of the nodes."""
    draw, found = np.random.default_rng(0), np.zeros(len(partner))
    for _ in range(SPLITS):
        half = draw.permutation(len(partner)) < len(partner) / 2
        for hidden in (half, ~half):
            rest = csr_array(chosen.multiply(~hidden[:, None]))
            found[hidden] += _share_of_best(first[hidden], _beyond(rest, second), partner[hidden])
    return found / SPLITS


def _beyond(chosen: csr_array, second: csr_array) -> csr_array:
    """Count the edges of each type from partners [N, K] to the target's nodes: [T N, K]."""
    size = second.shape[0]
    ends = range(0, second.shape[1], size)
    return vstack([chosen @ second[:, each : each + size] for each in ends], format="csr")


def _share_of_best(first: csr_array, beyond: csr_array, partner: Array) -> Array:
    """Divide one by the number of target nodes that most matched edges lead to.

    For some rows [R, T N] of the source, and their partners [R]; 0 if those are not among them.
    """
    work = np.concatenate([[0], np.cumsum(first @ np.diff(beyond.indptr))])
    share = np.zeros(len(partner))
    start = 0
    while start < len(partner):
        stop = max(start + 1, int(np.searchsorted(work, work[start] + BLOCK, "right")) - 1)
        product = first[start:stop] @ beyond
        top, scores = product.max(axis=1).toarray().reshape(-1), product.tocoo()
        (row, column), value = scores.coords, scores.data
        own = np.zeros(stop - start)
        is_own = column == partner[start:stop][row]
        own[row[is_own]] = value[is_own]
        count = np.bincount(row, value == top[row], stop - start)
        share[start:stop] = ((own == top) & (top > 0)) / np.maximum(count, 1)
        start = stop
    return share
