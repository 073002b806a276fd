"""The tests of examples/study that say which method is better."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

_FILE = Path(__file__).parents[1] / "examples/study/comparison.py"
_spec = importlib.util.spec_from_file_location("study_comparison", _FILE)
comparison = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(comparison)
holm_correction = comparison.holm_correction
paired_comparisons = comparison.paired_comparisons


def runs_of(**scores):
    """Runs on one data set, from a list of scores for each method."""
    rows = [
        {"dataset": "toy", "method": method, "seed": seed, "ari": value}
        for method, values in scores.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_holm_agrees_with_the_step_down_procedure():
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 30):
        p = rng.random(size) ** 3
        rejected = set()
        for rank, index in enumerate(np.argsort(p)):  # Holm's own words: stop at the first failure
            if p[index] >= 0.05 / (size - rank):
                break
            rejected.add(int(index))
        assert set(np.flatnonzero(holm_correction(p) < 0.05).tolist()) == rejected


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_pairs_are_seeds_whatever_the_order_of_the_rows(test):
    rng = np.random.default_rng(1)
    a, b = rng.random(8), rng.random(8)
    shuffled = runs_of(a=a, b=b).sample(frac=1, random_state=0)
    row = paired_comparisons(shuffled, "a", test=test).iloc[0]
    expected = stats.ttest_rel(b, a) if test == "t" else stats.wilcoxon(b, a)
    assert row["p"] == pytest.approx(expected.pvalue)
    assert row["difference"] == pytest.approx((b - a).mean())
    assert row["pairs"] == 8


def test_verdicts_are_corrected_over_all_data_sets_and_methods():
    base = np.array([0.50, 0.51, 0.49, 0.52, 0.50])
    noise = np.array([0.01, -0.01, 0.02, 0.0, 0.01])
    runs = runs_of(base=base, up=base + 0.1 + noise, down=base - 0.2 - noise, same=base + noise)
    both = pd.concat([runs, runs.assign(dataset="other")])
    one, two = (paired_comparisons(each, "base").set_index("method") for each in (runs, both))
    assert one["verdict"].to_dict() == {"up": "better", "down": "worse", "same": ""}
    assert (two.loc["up", "p_holm"] > one.loc["up", "p_holm"]).all()
    assert two["p_holm"].to_numpy() == pytest.approx(holm_correction(two["p"]))


def test_only_common_seeds_are_paired_and_sets_without_the_reference_left_out():
    runs = runs_of(a=[0.1, 0.3, 0.2], b=[0.4, 0.5, 0.7, 0.9])
    lone = runs_of(b=[0.4, 0.5]).assign(dataset="lone")
    table = paired_comparisons(pd.concat([runs, lone]), "a")
    assert table[["dataset", "method", "pairs"]].values.tolist() == [["toy", "b", 3]]
