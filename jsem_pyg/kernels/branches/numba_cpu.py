"""The comparison of branches compiled by numba, on one thread."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled
from .graph import CERTAIN, EXACT, LEAST, SMALLEST, Kinds, Neighbours, Pairs, Rates

Array = NDArray[Any]


def sweep(
    source: Neighbours,
    target: Neighbours,
    pairs: Pairs,
    message: Array,
    belief: Array,
    rates: Rates,
) -> tuple[Array, Array]:
    r"""Score every pair of nodes by the best knowledge of their neighbours.

    The score of (i, j) is the likelihood ratio of their neighbours, if i and j are the same node,
    against nodes drawn at random: a sum over all partial matchings of their neighbours,

    .. math::
        S_{ij} = b \sum_{\sigma} \prod_{(k, l) \in \sigma} w\, \min(B_{kl} m_{kl \to ij}, c)
            \cdot q_s^{d_i - |\sigma|} q_t^{d_j - |\sigma|}.

    Here B is the odds of a pair and m takes out of it what came from (i, j) itself.

    Args:
        source: neighbours of N nodes.
        target: neighbours of K nodes.
        pairs: M pairs of nodes; other pairs count as impossible.
        message: float32, for each pair (i, j) the d_i x d_j numbers m of (i, j) to its neighbours.
        belief: [M] B.
        rates: q_s, q_t, w and b.

    Returns:
        [M] scores, and the next messages: the score without one neighbour on each side, over the
        score.
    """
    scores, following = np.empty(len(pairs.node)), np.empty_like(message)
    _sweep(*source, *target, *pairs, message, belief, *rates, scores, following)
    return scores, following


def compare(source: Kinds, target: Kinds, known: Array, rates: Rates) -> Array:
    """Score [L, K] float32 all pairs of lists, from the likelihood ratios `known` of all kinds.

    The same sum as in :func:`sweep`, but every pair of nodes is compared and none competes:
    then knowledge of two branches depends on nothing but their kinds.
    """
    scores = np.empty([len(each.indptr) - 1 for each in (source, target)], np.float32)
    _compare(*source, *target, known, *rates, scores)
    return scores


@compiled(nogil=True)
def _compare(
    source_ptr: Array,
    source_kind: Array,
    target_ptr: Array,
    target_kind: Array,
    known: Array,
    source_rate: float,
    target_rate: float,
    match: float,
    base: float,
    scores: Array,
) -> None:
    if scores.size == 0:
        return
    widths = max(1, np.diff(source_ptr).max()), max(1, np.diff(target_ptr).max())
    weight, sums = np.empty(widths), np.empty(max(1 << EXACT, min(widths)))
    match /= source_rate * target_rate
    for i in range(scores.shape[0]):
        a = source_ptr[i + 1] - source_ptr[i]
        for j in range(scores.shape[1]):
            b = target_ptr[j + 1] - target_ptr[j]
            for x in range(a):
                row = known[source_kind[source_ptr[i] + x]]
                for y in range(b):
                    weight[x, y] = match * min(row[target_kind[target_ptr[j] + y]], CERTAIN)
            whole = base * source_rate**a * target_rate**b
            scores[i, j] = max(whole * _matchings(weight, a, b, sums), SMALLEST)


@compiled(nogil=True)
def _sweep(
    source_ptr: Array,
    source_node: Array,
    source_back: Array,
    target_ptr: Array,
    target_node: Array,
    target_back: Array,
    pair_ptr: Array,
    pair_node: Array,
    offset: Array,
    message: Array,
    belief: Array,
    source_rate: float,
    target_rate: float,
    match: float,
    base: float,
    scores: Array,
    following: Array,
) -> None:
    widths = max(1, np.diff(source_ptr).max()), max(1, np.diff(target_ptr).max())
    weight, left = np.empty(widths), np.empty(widths)
    sums = np.empty(max(1 << EXACT, min(widths)))
    before, after = np.empty((2, max(widths) + 1, 1 << EXACT))
    place = np.full((widths[0], len(target_ptr) - 1), -1)
    match /= source_rate * target_rate
    for i in range(len(pair_ptr) - 1):
        around = source_node[source_ptr[i] : source_ptr[i + 1]]
        a = len(around)
        for x in range(a):
            for pair in range(pair_ptr[around[x]], pair_ptr[around[x] + 1]):
                place[x, pair_node[pair]] = pair
        for pair in range(pair_ptr[i], pair_ptr[i + 1]):
            j = pair_node[pair]
            b = target_ptr[j + 1] - target_ptr[j]
            for y in range(b):
                f = target_ptr[j] + y
                n = target_node[f]
                width = target_ptr[n + 1] - target_ptr[n]
                for x in range(a):
                    other = place[x, n]
                    weight[x, y] = 0.0
                    if other >= 0:
                        back = source_back[source_ptr[i] + x]
                        at = offset[other] + back * width + target_back[f]
                        weight[x, y] = match * min(message[at] * belief[other], CERTAIN)
            total = _matchings_without(weight, a, b, left, sums, before, after)
            whole = base * source_rate**a * target_rate**b
            scores[pair] = max(whole * total, LEAST)
            share = whole / (source_rate * target_rate) / scores[pair]
            for x in range(a):
                for y in range(b):
                    following[offset[pair] + x * b + y] = share * left[x, y]
        for x in range(a):
            for pair in range(pair_ptr[around[x]], pair_ptr[around[x] + 1]):
                place[x, pair_node[pair]] = -1


@compiled(nogil=True)
def _matchings_without(
    weight: Array, a: int, b: int, left: Array, sums: Array, before: Array, after: Array
) -> float:
    """Sum over partial matchings; `left` gets the sums without a row and a column in turn."""
    few = min(a, b)
    if few <= EXACT:
        if a >= b:
            return _few_without(weight, a, b, left, before, after)
        return _few_without(weight.T, b, a, left.T, before, after)
    _hubs_without(weight, a, b, left)
    return _matchings(weight, a, b, sums)


@compiled(nogil=True, inline="always")
def _few_without(
    table: Array, long: int, short: int, found: Array, before: Array, after: Array
) -> float:
    """Sum between few columns, by subsets of these, from the first row on and from the last.

    `before` has the sum over the rows before one, which take just these columns; `after` that over
    the rows from one on, which take none but these.
    """
    size = 1 << short
    before[0, :size], after[long, :size] = 0.0, 1.0
    before[0, 0] = 1.0
    for row in range(long):
        _add_row(table, row, before, row, row + 1, short)
    for row in range(long - 1, -1, -1):
        _add_row(table, row, after, row + 1, row, short)
    for row in range(long):
        for column in range(short):
            value, others = 0.0, size - 1 - (1 << column)
            for subset in range(size):
                if not subset >> column & 1:
                    value += before[row, subset] * after[row + 1, others - subset]
            found[row, column] = value
    return after[0, size - 1]


@compiled(nogil=True, inline="always")
def _add_row(table: Array, row: int, sums: Array, known: int, following: int, short: int) -> None:
    """Add one more row to known sums."""
    for subset in range(1 << short):
        value = sums[known, subset]
        for column in range(short):
            if subset >> column & 1:
                value += table[row, column] * sums[known, subset - (1 << column)]
        sums[following, subset] = value


@compiled(nogil=True)
def _matchings(weight: Array, a: int, b: int, sums: Array) -> float:
    """Sum over partial matchings, by subsets of the side that has fewer nodes."""
    table = weight if a >= b else weight.T
    long, short = max(a, b), min(a, b)
    if short > EXACT:
        sums[:short] = 1.0
        for row in range(long):
            whole = table[row, :short].sum()
            for column in range(short):
                rivals = max(0.0, whole - table[row, column])
                sums[column] += table[row, column] / (1 + rivals)
        return sums[:short].prod()
    size = 1 << short
    sums[:size] = 0.0
    sums[0] = 1.0
    for row in range(long):
        for subset in range(size - 1, 0, -1):
            for column in range(short):
                if subset >> column & 1:
                    sums[subset] += table[row, column] * sums[subset ^ (1 << column)]
    return sums[:size].sum()


@compiled(nogil=True)
def _hubs_without(weight: Array, a: int, b: int, found: Array) -> None:
    """Sum between hubs, without each row and column in turn: their columns share the work.

    Terms of the rows that stay are added from both ends, since to subtract the one that goes would
    leave its rounding.
    """
    table, out = (weight, found) if a >= b else (weight.T, found.T)
    long, short = max(a, b), min(a, b)
    term, after, whole = np.empty(long), np.empty(long), np.empty(long)
    for left_out in range(short):
        out[:long, left_out] = 1.0
        for row in range(long):
            whole[row] = 0.0
            for column in range(short):
                if column != left_out:
                    whole[row] += table[row, column]
        for column in range(short):
            if column == left_out:
                continue
            following = 0.0
            for row in range(long - 1, -1, -1):
                rivals = max(0.0, whole[row] - table[row, column])
                term[row] = table[row, column] / (1 + rivals)
                after[row] = following
                following += term[row]
            before = 0.0
            for row in range(long):
                out[row, left_out] *= 1 + before + after[row]
                before += term[row]
