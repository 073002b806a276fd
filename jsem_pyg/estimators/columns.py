"""Columns of numbers, each in its own unit: which metric they take, and how they are scaled."""

import logging

import numpy as np

from .._checks import check_choice
from ..graph.points import METRICS

logger = logging.getLogger(__name__)

MOST_COLUMNS = 50  # of a table of measurements; embeddings have more
NORMAL_IQR = 1.349  # of a normal distribution with standard deviation one
SCALES = ("auto", "robust", "standard", None)


def check_columns(metric: str, scale: str | None) -> None:
    """Raise unless both are known words."""
    check_choice("metric", metric, ("auto", *METRICS))
    check_choice("scale", scale, SCALES)


def choose_metric(metric: str, x: np.ndarray, is_reduced: bool) -> str:
    """Metric of "auto": "l2" for at most 50 columns, except for rows of length one."""
    if metric != "auto":
        return metric
    if is_reduced or x.shape[1] > MOST_COLUMNS:
        return "cosine"
    with np.errstate(over="ignore"):
        length = np.linalg.norm(x, axis=1)
    chosen = "cosine" if np.allclose(length, 1, atol=1e-3) else "l2"
    logger.info("metric=%r, for %d columns", chosen, x.shape[1])
    return chosen


def choose_scale(scale: str | None, x: np.ndarray, metric: str) -> np.ndarray | None:
    """Divisors [D] of the columns of x [N, D], or None.

    "auto" is "robust" under "l2" where most columns lie off zero, as measurements do: their median
    is more than half of their interquartile range away from it. Centred columns, such as principal
    components, keep their scale, which means something.
    """
    if scale is None or (scale == "auto" and metric != "l2"):
        return None
    if scale == "auto":
        low, middle, high = np.quantile(x.astype(np.float64), [0.25, 0.5, 0.75], axis=0)
        if (np.abs(middle) > (high - low) / 2).mean() <= 0.5:
            return None
        logger.info("scale='robust': each column by its interquartile range")
    return spread(x, robust=scale != "standard")


def spread(x: np.ndarray, robust: bool = True) -> np.ndarray:
    """The spread [D] of columns, > 0: the interquartile range of a normal distribution, or std.

    One for a column whose entries differ by rounding alone.
    """
    limits, x = np.finfo(x.dtype), x.astype(np.float64)
    largest = np.abs(x).max(0)
    exponent = np.frexp(largest)[1]  # so that no square under- or overflows
    deviation = np.ldexp(np.ldexp(x, -exponent).std(0), exponent)
    if robust:
        low, high = np.quantile(x, [0.25, 0.75], axis=0)
        differ = high - low > limits.eps * np.maximum(np.abs(low), np.abs(high))
        deviation = np.where(differ, (high - low) / NORMAL_IQR, deviation)
    is_constant = (np.ptp(x, axis=0) <= limits.eps * largest) | (deviation < limits.tiny)
    return np.where(is_constant, 1.0, deviation)
