"""Cells for the tests: what scanpy ships, and small made ones."""

import numpy as np
from lazily import Lazily
from scipy.sparse import csr_matrix

# scanpy may be missing.
sc, anndata = Lazily("scanpy"), Lazily("anndata")


def pbmc():
    """700 cells x 765 genes of blood, with scanpy's PCs, neighbours and labels."""
    return sc.datasets.pbmc68k_reduced()


def made(num_cells=90, num_genes=12, groups=3, seed=0, sparse=True):
    """Groups of cells, each with genes of its own; neighbours of scanpy's in their PCs."""
    rng = np.random.default_rng(seed)
    label = np.arange(num_cells) % groups
    mean = np.zeros((groups, num_genes))
    for group in range(groups):
        mean[group, group::groups] = 3.0
    x = np.maximum(mean[label] + 0.5 * rng.normal(size=(num_cells, num_genes)), 0)
    adata = anndata.AnnData(csr_matrix(x, dtype=np.float32) if sparse else x.astype(np.float32))
    adata.obs["group"] = [f"g{each}" for each in label]
    adata.var_names = [f"gene {place}" for place in range(num_genes)]
    sc.pp.pca(adata, n_comps=5)
    sc.pp.neighbors(adata, n_neighbors=8)
    return adata


def no_coordinates():
    """Cells whose principal components were not computed."""
    adata = made()
    del adata.obsm["X_pca"]
    return adata
