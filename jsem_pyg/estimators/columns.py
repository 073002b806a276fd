"""Chooses a metric and scales for columns of numbers that may have different units."""

import logging
import math
from collections.abc import Sequence

import numpy as np

logger = logging.getLogger(__name__)

MOST_COLUMNS = 50  # of a table of measurements; embeddings have more
NORMAL_IQR = 1.349  # of a normal distribution with standard deviation one
UNITS = 30  # times a column varies more than another: a different unit
WINDOW = 0.02  # of the values, whose range is how much a column varies, wherever its groups are
UNCORRELATED = 1e-3  # neighbouring principal components
ROWS, NEAR = 2_000, 10  # rows, and the nearest of each, by which categories are compared
NAMED_BY = 2  # columns, that make the name of a cluster
NAMED_APART = 0.5  # spreads that the median of such a column is away from that of all


def choose_metric(metric: str, x: np.ndarray) -> str:
    """Return the metric; "auto" is "l2" for up to 50 columns unless rows have length one."""
    if metric != "auto":
        return metric
    if x.shape[1] > MOST_COLUMNS:
        return "cosine"
    has_unit_rows = np.allclose(np.linalg.norm(x, axis=1), 1, atol=1e-3)
    chosen = "cosine" if has_unit_rows else "l2"
    logger.info("metric=%r, for %d columns", chosen, x.shape[1])
    return chosen


def choose_scale(scale: str | None, x: np.ndarray, metric: str) -> np.ndarray | None:
    """Choose the divisors [D] of the columns of x [N, D], or None.

    "auto" is "robust" under "l2" if the columns have different units: neighbouring values of one
    lie thirty times farther apart than neighbouring values of another. Columns that are not
    correlated, such as principal components, keep their scale: it means something.
    """
    if scale is None or (scale == "auto" and metric != "l2"):
        return None
    if scale == "auto":
        if not _units_differ(x):
            return None
        logger.info("scale='robust': each column by its interquartile range")
    return spread(x, robust=scale != "standard")


def _units_differ(x: np.ndarray) -> bool:
    """Return True if the columns of x [N, D] have different units, whatever zeros and groups."""
    unit = spread(x, robust=False)
    x = (x - np.median(x, axis=0)) / unit
    x, unit = x[:, x.std(0) > 0], unit[x.std(0) > 0]
    window = math.ceil(WINDOW * len(x))
    ordered = np.sort(x, axis=0)
    local = np.median(ordered[window:] - ordered[:-window], axis=0)
    local = np.where(local > 0, local, WINDOW) * unit  # where most are equal: as if they were even
    if local.size == 0 or local.max() <= UNITS * local.min():
        return False
    x = (x - x.mean(0)) / x.std(0)
    return bool(np.abs((x[:, 1:] * x[:, :-1]).mean(0)).max() > UNCORRELATED)


def spread(x: np.ndarray, robust: bool = True) -> np.ndarray:
    """Compute the spread [D] > 0 of columns: interquartile range over 1.35, or deviation.

    It is one for a column whose entries differ by rounding only.
    """
    limits, x = np.finfo(x.dtype), x.astype(np.float64)
    deviation = x.std(0)
    if robust:
        low, high = np.quantile(x, [0.25, 0.75], axis=0)
        differ = high - low > limits.eps * np.maximum(np.abs(low), np.abs(high))
        deviation = np.where(differ, (high - low) / NORMAL_IQR, deviation)
    is_constant = np.ptp(x, axis=0) <= limits.eps * np.abs(x).max(0)
    return np.where(is_constant | (deviation < limits.tiny), 1.0, deviation)


def agreement(x: np.ndarray, category: np.ndarray) -> float:
    """Measure how much oftener than by chance near rows of x [N, D] have one category [N].

    The answer is in [0, 1]; it is zero within twice the error that chance makes.
    """
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(x))[:ROWS]
    x, category, count = x[rows], category[rows], min(NEAR, len(rows) - 1)
    square = (x**2).sum(1)
    distance = square[:, None] + square - 2 * x @ x.T + 1e-9 * rng.random((len(x), len(x)))
    np.fill_diagonal(distance, np.inf)
    near = np.argsort(distance, axis=1)[:, :count]  # equally near ones at random
    chance = ((np.bincount(category) ** 2).sum() / len(x) - 1) / (len(x) - 1)
    if chance >= 1:
        return 0.0
    same = float((category[near] == category[:, None]).mean())
    error = np.sqrt(2 * chance / (1 - chance) / (len(x) * count))
    return max((same - chance) / (1 - chance) - 2 * error, 0.0)


def name_by_columns(
    x: np.ndarray,
    clusters: np.ndarray,
    columns: Sequence[str],
    is_category: np.ndarray | None = None,
) -> list[str]:
    """Name each cluster by the columns whose median is far from the median of all rows.

    Distances are in interquartile ranges of the column, over 1.35; the farthest two make a name,
    more where two clusters would have the same. Of categories, columns of zeros and ones, the mean
    and the standard deviation count.
    """
    ones = np.zeros(len(columns), bool) if is_category is None else is_category

    def middle(x: np.ndarray) -> np.ndarray:
        return np.where(ones, x.mean(0), np.median(x, axis=0))

    width, parts = np.where(ones, spread(x, robust=False), spread(x)), []
    for cluster in range(int(clusters.max()) + 1):
        apart = (middle(x[clusters == cluster]) - middle(x)) / width
        apart = np.where(ones, np.maximum(apart, 0), apart)  # a category that is there
        parts.append(
            [
                columns[i] if ones[i] else f"{'high' if apart[i] > 0 else 'low'} {columns[i]}"
                for i in np.argsort(-np.abs(apart), kind="stable")
                if abs(apart[i]) >= NAMED_APART
            ]
        )
    used = [NAMED_BY] * len(parts)
    while True:
        names = [
            ", ".join(part[:most]) or "all columns in the middle"
            for part, most in zip(parts, used, strict=True)
        ]
        alike = [i for i, name in enumerate(names) if names.count(name) > 1]
        alike = [i for i in alike if used[i] < len(parts[i])]
        if not alike:
            return number_alike(names)
        for i in alike:
            used[i] += 1


def number_alike(names: Sequence[str]) -> list[str]:
    """Put the number of a cluster behind its name where another one has the same."""
    return [
        f"{name} ({cluster})" if names.count(name) > 1 else name
        for cluster, name in enumerate(names)
    ]
