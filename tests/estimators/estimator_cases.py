"""Points in three groups, and the three estimators on them."""

import numpy as np

from jsem_pyg.estimators import DiffusionClusterer, DiffusionLabelSpreading, HeatDiffusion

NUM_FITTED, NUM_NEW, DIM = 90, 12, 6


def blobs(count, seed=0, dtype=np.float32, spread=0.25):
    """Points [count, DIM] around three corners, and which corner each belongs to."""
    y = np.arange(count) % 3
    noise = np.random.default_rng(seed).normal(size=(count, DIM))
    return (np.eye(DIM)[y] + spread * noise).astype(dtype), y


def few_labels(y):
    """-1 but for the first two of each class."""
    known = np.full(len(y), -1)
    known[:6] = y[:6]
    return known


ESTIMATORS = {
    "heat": HeatDiffusion(8, metric="cosine", t=2.0, random_state=0),
    "clusterer": DiffusionClusterer(3, n_neighbors=8, metric="cosine", t=2.0, random_state=0),
    "label spreading": DiffusionLabelSpreading(8, metric="cosine", t=2.0, random_state=0),
}


def say(estimator, X):
    """What a fitted estimator makes of points."""
    is_heat = isinstance(estimator, HeatDiffusion)
    return estimator.transform(X) if is_heat else estimator.predict_proba(X)


def of_fitted(estimator):
    """What it made of those that it was fitted to."""
    for name in ("embedding_", "probabilities_", "label_distributions_"):
        if hasattr(estimator, name):
            return getattr(estimator, name)
    raise AssertionError(estimator)
