"""Our neighbours and modes in other packages: t-SNE, UMAP, spectral clustering."""

import numpy as np
import pytest
import torch
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score, silhouette_score
from torch_geometric.utils import to_scipy_sparse_matrix

from jsem_pyg.diffusion import low_modes
from jsem_pyg.neighbors import NeighborIndex, knn_graph

Y = np.repeat(np.arange(3), 50)
X = (np.eye(8)[Y] + 0.15 * np.random.default_rng(0).normal(size=(150, 8))).astype(np.float32)


@pytest.fixture(scope="module")
def start():
    edge_index, weight = knn_graph(torch.from_numpy(X), 15)
    modes = low_modes(edge_index, 3, weight)[1][:, 1:].numpy()
    return modes / np.abs(modes).max()


def test_tsne_takes_a_start(start):
    from sklearn.manifold import TSNE

    model = TSNE(init=1e-4 * start, perplexity=10, max_iter=300)
    positions = model.fit_transform(X)
    assert silhouette_score(positions, Y) > 0.5


@pytest.mark.slow  # UMAP compiles itself
def test_umap_takes_our_neighbours_and_a_start(start, monkeypatch):
    umap = pytest.importorskip("umap")
    neighbor, distance = NeighborIndex(torch.from_numpy(X), k=15).query(torch.from_numpy(X))
    knn = (neighbor.numpy(), distance.numpy())
    monkeypatch.setattr(umap.umap_, "nearest_neighbors", None)  # UMAP does not search itself
    model = umap.UMAP(15, precomputed_knn=knn, init=10 * start, random_state=0, n_epochs=30)
    with pytest.warns(UserWarning, match="transform"):
        positions = model.fit_transform(X)
    assert silhouette_score(positions, Y) > 0.5


@pytest.mark.filterwarnings("error")
def test_spectral_clustering_takes_our_graph():
    graph = to_scipy_sparse_matrix(*knn_graph(X, k=10), num_nodes=len(X))
    model = SpectralClustering(3, affinity="precomputed", random_state=0)
    assert adjusted_rand_score(Y, model.fit_predict(graph)) == 1
