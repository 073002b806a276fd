"""Our diffusion map as the start of t-SNE."""

import numpy as np
import pytest
from sklearn.manifold import TSNE
from sklearn.metrics import silhouette_score

Y = np.repeat(np.arange(3), 50)
X = (np.eye(8)[Y] + 0.15 * np.random.default_rng(0).normal(size=(150, 8))).astype(np.float32)


@pytest.fixture
def start():
    anndata = pytest.importorskip("anndata")
    from jsem_pyg.anndata import diffusion_map

    cells = anndata.AnnData(X, obsm={"X_pca": X})
    diffusion_map(cells, 4)
    modes = cells.obsm["X_diffmap"][:, 1:3]
    return modes / np.abs(modes).max()


def test_tsne_takes_a_start(start):
    model = TSNE(init=1e-4 * start.astype(np.float32), perplexity=10, max_iter=300)
    positions = model.fit_transform(X)
    assert silhouette_score(positions, Y) > 0.5
