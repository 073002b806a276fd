r"""Where a search begins: a few candidate partners for each node.

Candidates are the nodes of the other graph whose local profiles are nearest. Soft assignments of
them are refined along the edges of both graphs: the score of a pair follows from the likely
partners of its neighbours, :math:`\mathbf{A} \mathbf{M} \mathbf{B}`, and a little from profiles
that look alike. Of these scores each node keeps a few, and a soft assignment M of them follows, in
which a node without support is matched with none: so right pairs spread along edges, also to
partners that no profile had suggested. It is cooled in the end, and becomes one assignment.

Source: Gold and Rangarajan, "A graduated assignment algorithm for graph matching", IEEE PAMI 18,
1996; marks of neighbours, Yartseva and Grossglauser, "On the performance of percolation graph
matching", 2013.
"""

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .moves import Soft, Task, balanced, filled, greedy_assignment, neighbor_scores, one_each

Array = NDArray[Any]

_log = logging.getLogger(__name__)

_KEPT = 12  # partners of each node in a soft assignment
_LAST_KEPT = 30  # in the last one
_PROFILES = 0.005  # temperature of likeness
_SUPPORT = 1.0  # edges that count as much as having no partner
_COLD = 2.0  # inverse temperature, per edge
_COLDER = (3.0, 4.0, 6.0, 10.0)
_GAIN, _PATIENCE = 2e-3, 3  # a step's gain in support that is worth more; steps without one
_FINISHING = 4  # rounds in which nodes that are left are matched by their neighbours


def search_candidates(task: Task, max_iter: int) -> list[tuple[str, Array]]:
    """Partners of the nodes of the source, stage by stage; the last ones are the result.

    `max_iter` bounds the steps before cooling. Each stage has a name and partners [N].
    """
    size = task.target.shape[0]
    alike = np.exp((task.bonus - task.bonus[:, :1]) / np.float32(_PROFILES))
    soft = balanced(task.candidate, alike, size)
    best, since = 0.0, 0
    for number in range(max_iter):
        soft, support = _step(task, soft, _COLD, _KEPT)
        _log.debug("step %d: support %.4f", number, support)
        since = since + 1 if support <= best * (1 + _GAIN) else 0
        best = max(best, support)
        if since == _PATIENCE:
            break
    for cold in _COLDER:
        soft, _ = _step(task, soft, cold, _LAST_KEPT if cold == _COLDER[-1] else _KEPT)
    partner = greedy_assignment(soft.column, soft.mass, size)
    name = f"{task.candidate.shape[1]} candidates, {number + 1} steps"
    stages = [(name, filled(partner, size))]
    for _ in range(_FINISHING):
        found = greedy_assignment(*neighbor_scores(task, one_each(partner), _LAST_KEPT), size)
        if np.array_equal(found, partner):
            break
        partner = found
        stages.append(("neighbours", filled(partner, size)))
    return stages


def _step(task: Task, soft: Soft, cold: float, kept: int) -> tuple[Soft, float]:
    """The soft assignment that scores give, and the mean score of its pairs, by mass."""
    column, score = neighbor_scores(task, soft, kept)
    top = score[:, :1]
    likely = np.exp(np.float32(cold) * (score - top))
    unmatched = np.exp(np.minimum(np.float32(cold) * (np.float32(_SUPPORT) - top[:, 0]), 30.0))
    found = balanced(column, likely, task.target.shape[0], unmatched)
    support = float((found.mass * np.maximum(score, 0)).sum(dtype=np.float64))
    return found, support / max(1, len(score))
