"""The way of annealing: what was found is softened and cooled again, as long as that helps."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .assignment import Assignment
from .confidence import edge_confidence
from .moves import best_parts, open_nodes, swap
from .pair import Pair
from .soft import anneal

Array = NDArray[Any]

GAIN = 1e-4  # of what is kept, for another round to be worth it
CONFIDENT = (0.0, 0.5, 0.3, 0.7)  # pairs that an annealing begins with
UNRELATED = 0.01  # mean confidence of partners; related graphs have 0.04 and more


def repeat_annealing(pair: Pair, best: Assignment) -> Assignment:
    """Repeat annealing until a whole round of confidences brings nothing.

    Or until edges are still kept by chance after a round: there is nothing to follow.
    """
    since, confidence = 0, edge_confidence(*pair.sides, best.partner)
    for number in range(pair.max_iter):
        least = CONFIDENT[number % len(CONFIDENT)]
        confident = confidence >= least if least else None
        # The last of each round looks everywhere, the others where edges are missing.
        is_last = least == CONFIDENT[-1]
        rows = None if is_last else open_nodes(pair.task, best.partner, confident)
        found = anneal(pair.task, best, confident=confident, rows=rows)
        found = best_parts(pair.task, best, pair.note("annealing", swap(pair.task, found)))
        since = 0 if found.kept - best.kept > GAIN * best.kept else since + 1
        if found is not best:
            best, confidence = found, edge_confidence(*pair.sides, found.partner)
        is_hopeless = is_last and _is_chance(*pair.sides, best.partner)
        if since == len(CONFIDENT) or is_hopeless:
            break
    return best


def _is_chance(source: csr_array, target: csr_array, partner: Array) -> bool:
    """Return True if edges are kept as between graphs that have nothing in common.

    Only the number of edges that partners share counts, not their weights.
    """
    if any(np.ptp(each.data) > 0 for each in (source, target) if each.nnz):
        return False
    found, other = (
        float(edge_confidence(source, target, each).mean())
        for each in (partner, np.roll(partner, 1))
    )
    return found < UNRELATED + 2 * other
