"""The way of profiles: small graphs are searched again from the heat profiles of their nodes."""

from .assignment import Assignment, Task, greedy, make_task
from .branches import is_sparse
from .features import both_features, heat_features
from .moves import best_parts, percolate, swap
from .pair import NEARLY, Pair
from .soft import anneal, soft_start

MOST_PROFILED = 1 << 22  # pairs of nodes up to which heat profiles take a second or two


def is_small(pair: Pair) -> bool:
    """Return True if the heat profiles of all nodes take no longer than the rest of the search."""
    return pair.num_pairs <= MOST_PROFILED


def search_profiles(pair: Pair, best: Assignment) -> Assignment:
    """Start from nodes with alike heat profiles, then also from both kinds of profiles."""
    heat = heat_features(*pair.sides)
    pair.task = make_task(*pair.sides, heat, pair.seed)
    best = _cross(pair, "heat", best, pair.task)
    if pair.misses(best, NEARLY) and not is_sparse(*pair.sides):
        both = both_features(pair.local, heat)
        best = _cross(pair, "both profiles", best, make_task(*pair.sides, both, pair.seed))
    return best


def _cross(pair: Pair, stage: str, best: Assignment, task: Task) -> Assignment:
    """Take the best of a start from features, of what was found, and of both annealed."""
    start = max(greedy(task), soft_start(task), key=lambda each: each.kept)
    other = pair.note(stage, swap(task, percolate(task, start)))
    mixed = pair.note("both", swap(task, anneal(task, best, other)))
    return best_parts(task, best_parts(task, best, other), mixed)
