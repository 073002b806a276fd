import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from torch_geometric.data import Data

from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import k_means, self_train


def blobs(count=600, spread=0.6):
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(count) % 6
    return 3 * torch.eye(6)[y] + spread * torch.randn(count, 6, generator=draw), y


@pytest.fixture
def few_rows(monkeypatch):
    """As if few rows were many."""
    monkeypatch.setattr(k_means, "MOST_ROWS", 100)
    monkeypatch.setattr(k_means, "SAMPLE_ROWS", 60)
    monkeypatch.setattr(k_means, "SAMPLE_ROWS_A_CLUSTER", 20)


def test_few_rows_are_clustered_as_ever():
    z, _ = blobs(spread=2.0)
    plain = KMeans(6, n_init=3, random_state=4).fit(z.numpy())
    found = k_means.k_means(z, 6, seed=4)
    assert np.array_equal(found.labels_, plain.labels_)
    assert np.array_equal(found.cluster_centers_, plain.cluster_centers_)


def test_many_rows_are_clustered_as_well(few_rows):
    for spread in (0.6, 1.0):
        z, _ = blobs(spread=spread)
        whole = min(KMeans(6, random_state=seed).fit(z.numpy()).inertia_ for seed in range(5))
        for seed in range(3):
            found = k_means.k_means(z, 6, seed)
            assert found.inertia_ < 1.01 * whole
            assert found.n_init == 1  # it settled on all rows, from the best start
            assert len(found.labels_) == len(z)
            again = k_means.k_means(z, 6, seed)
            assert np.array_equal(found.cluster_centers_, again.cluster_centers_)


@pytest.mark.parametrize(("clusters", "looked_at"), [(2, 60), (6, 120)])
def test_starts_look_at_a_sample(few_rows, monkeypatch, clusters, looked_at):
    fits, fit = [], KMeans.fit
    monkeypatch.setattr(KMeans, "fit", lambda self, x: fits.append((self, len(x))) or fit(self, x))
    z, _ = blobs()
    k_means.k_means(z, clusters, seed=0)
    (start, few), (settled, all_) = fits
    assert (few, all_) == (looked_at, len(z))
    assert (start.n_init, settled.n_init) == (k_means.SAMPLE_STARTS, 1)
    assert np.array_equal(settled.init, start.cluster_centers_)
    fits.clear()
    k_means.k_means(z[:looked_at], clusters, seed=0)
    assert [(model.n_init, count) for model, count in fits] == [(k_means.STARTS, looked_at)]


def test_rows_that_coincide_are_no_reason_to_fail(few_rows):
    z = torch.eye(3).repeat(200, 1)
    found = k_means.k_means(z, 3, seed=0)
    assert found.inertia_ == pytest.approx(0, abs=1e-6)


def test_self_training_of_many_rows(few_rows):
    x, y = blobs()
    ring = torch.stack([torch.arange(600), (torch.arange(600) + 6) % 600])
    data = Data(x=x, edge_index=torch.cat([ring, ring.flip(0)], dim=1))
    model = self_train(DiffusionClassifier(6, 6), data, times=[1.0, 2.0]).model
    found = model(data.x, data.edge_index).argmax(-1)
    pairs = torch.stack([found, y]).unique(dim=1)
    assert pairs.size(1) == 6
