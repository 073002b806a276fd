r"""The begin of a search: a few candidate partners for each node.

Candidates are the nodes of the other graph whose local profiles are nearest. Soft assignments of
them are refined along the edges of both graphs: the score of a pair follows from the likely
partners of its neighbours, :math:`\mathbf{A} \mathbf{M} \mathbf{B}`, and a little from profiles
that look alike. Each node keeps a few of these scores, and the next soft assignment M follows from
them, in which a node without support is matched with none: so right pairs spread along edges, also
to partners that no profile had suggested. It is cooled in the end, and becomes one assignment.

Source: marks of neighbours, Yartseva and Grossglauser, "On the performance of percolation graph
matching", 2013; see :mod:`.soft`.
"""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .assignment import PARTNERS, Task, filled, greedy_partners
from .soft import COLD, Soft, balanced, from_likeness, neighbor_scores, one_each

Array = NDArray[Any]

CANDIDATES = 12  # partners of each node in a soft assignment
LIKENESS_TEMPERATURE = 0.005
UNMATCHED = 1.0  # edges that count as much as having no partner
COLDER = (3.0, 4.0, 6.0, 10.0)
SUPPORT_GAIN = 2e-3  # relative gain of a step that is worth more of them
PATIENCE = 3  # steps without such a gain
FINISHING = 4  # rounds in which nodes that are left are matched by their neighbours

_log = logging.getLogger(__name__)


def search_candidates(task: Task, max_iter: int) -> list[tuple[str, Array]]:
    """Find partners of the nodes of the source, stage by stage; the last ones are the result.

    `max_iter` bounds the steps before cooling. Each stage has a name and partners [N].
    """
    size, kept = task.target.shape[0], CANDIDATES
    soft = from_likeness(task, LIKENESS_TEMPERATURE)
    best, since = 0.0, 0
    for number in range(1, max_iter + 1):
        soft, support = _step(task, soft, COLD, kept)
        _log.debug("step %d: support %.4f", number, support)
        since = since + 1 if support <= best * (1 + SUPPORT_GAIN) else 0
        best = max(best, support)
        if since == PATIENCE:
            break
    *colds, last = COLDER
    for cold in colds:
        soft, _ = _step(task, soft, cold, kept)
    soft, _ = _step(task, soft, last, PARTNERS)
    partner = greedy_partners(soft.column, soft.mass, size)
    stages = [(f"{task.candidate.shape[1]} candidates, {number} steps", filled(partner, size))]
    for _ in range(FINISHING):
        scores = neighbor_scores(task, one_each(partner), PARTNERS)
        found = greedy_partners(*scores, size)
        if np.array_equal(found, partner):
            break
        partner = found
        stages.append(("neighbours", filled(partner, size)))
    return stages


def _step(task: Task, soft: Soft, cold: float, kept: int) -> tuple[Soft, float]:
    """Make the soft assignment that scores give; and the mean score of its pairs, by mass."""
    column, score = neighbor_scores(task, soft, kept)
    top = score[:, :1]
    likely = np.exp(np.float32(cold) * (score - top))
    alone = np.float32(cold) * (np.float32(UNMATCHED) - top[:, 0])
    found = balanced(column, likely, task.target.shape[0], np.exp(np.minimum(alone, 30.0)))
    support = float((found.mass * np.maximum(score, 0)).sum(dtype=np.float64))
    return found, support / max(1, len(score))
