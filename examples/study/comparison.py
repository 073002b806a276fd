"""Which method is better, and could that be chance? Paired tests, corrected for their number."""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

TESTS = {"t": lambda difference: stats.ttest_1samp(difference, 0.0), "wilcoxon": stats.wilcoxon}


def holm_correction(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    r"""Correct p-values for their number, so that any false alarm has the probability alpha.

    .. math::
        \tilde p_{(i)} = \max_{j \le i} \, \min\left( 1, (m - j + 1) \, p_{(j)} \right)

    for the m p-values in ascending order. It holds for dependent tests too, and rejects all that
    Bonferroni's correction rejects.

    Args:
        p_values: [m] numbers in [0, 1].

    Returns:
        [m] corrected p-values, in the order of the input.

    Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.

    Example:
        >>> holm_correction([0.01, 0.04, 0.03]).round(6).tolist()
        [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    scaled = np.minimum(1.0, p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(scaled)
    return corrected


def paired_comparisons(
    runs: pd.DataFrame, reference: str, *, score: str = "ari", test: str = "t"
) -> pd.DataFrame:
    """Compare every method with a reference on every data set, paired over the seeds.

    All these comparisons are one family: Holm's correction is over all of them. A seed stands for
    what is random in the methods, not for another draw of the data: the tests say whether a
    difference exceeds the chance of the seeds on *this* data set.

    Args:
        runs: a row for each run, with the columns dataset, method, seed, and the score.
        reference: the method that all others are compared with; data sets without it are left out,
            and so are methods that have fewer than two seeds in common with it.
        score: the column to compare; higher is better.
        test: "t", or "wilcoxon" (signed ranks), whose two-sided p is at least 2^(1 - n) for n
            seeds: 0.06 for 5. Two-sided both. Differences that are all zero have p = 1.

    Returns:
        A row for each data set and method, but the reference: `pairs` (seeds that both have),
        `difference` (mean of method - reference), `p`, `p_holm`, and the `verdict` "better",
        "worse" or "" at the level 0.05.

    Example:
        >>> runs = pd.DataFrame({"dataset": "toy", "method": list("aaabbb"),
        ...                      "seed": [0, 1, 2] * 2, "ari": [0.5, 0.6, 0.7, 0.7, 0.8, 0.91]})
        >>> paired_comparisons(runs, "a")[["method", "pairs", "verdict"]].values.tolist()
        [['b', 3, 'better']]
    """
    rows = []
    for dataset, part in runs.groupby("dataset", sort=False):
        scores = part.pivot(index="seed", columns="method", values=score)
        if reference not in scores:
            continue
        for method in part["method"].unique():
            difference = (scores[method] - scores[reference]).dropna().to_numpy()
            if method != reference and len(difference) > 1:
                rows.append((dataset, method, *_compare(difference, test)))
    columns = ["dataset", "method", "pairs", "difference", "p"]
    table = pd.DataFrame(rows, columns=columns)
    table["p_holm"] = holm_correction(table["p"].to_numpy(dtype=float))
    better = np.where(table["difference"] > 0, "better", "worse")
    table["verdict"] = np.where(table["p_holm"] < 0.05, better, "")
    return table


def _compare(difference: np.ndarray, test: str) -> tuple[int, float, float]:
    p = 1.0  # of differences that are all zero, which both tests would divide by
    with warnings.catch_warnings():
        # Equal differences, of two methods without randomness, are as certain as they look.
        warnings.filterwarnings("ignore", "Precision loss occurred", RuntimeWarning)
        if difference.any():
            p = float(TESTS[test](difference).pvalue)
    return len(difference), float(difference.mean()), p
