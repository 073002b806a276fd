"""scikit-learn's own checks of an estimator."""

from functools import partial

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from jsem_pyg.estimators import (
    DiffusionClusterer,
    DiffusionLabelSpreading,
    DiffusionMap,
    HeatDiffusion,
    neighbor_estimator,
)

CANNOT_HOLD = {
    "HeatDiffusion": {},
    "DiffusionMap": {},
    "DiffusionClusterer": {},
    "DiffusionLabelSpreading": {
        "check_classifiers_classes": "its classes are -1 and 1, but -1 means that there is none "
        "(scikit-learn leaves out its own label spreading, by name)",
    },
}


def cannot_hold(estimator):
    return CANNOT_HOLD[type(estimator).__name__]


@pytest.mark.ci
@parametrize_with_checks(
    [
        HeatDiffusion(t=1.0),
        DiffusionClusterer(3, t=2.0),
        DiffusionLabelSpreading(t=2.0),
        DiffusionMap(),
    ],
    expected_failed_checks=cannot_hold,
)
def test_scikit_learn_finds_nothing(estimator, check, monkeypatch):
    # One round of self-training in place of four: there are a hundred checks.
    once = partial(neighbor_estimator.self_train, rounds=1)
    monkeypatch.setattr(neighbor_estimator, "self_train", once)
    check(estimator)
