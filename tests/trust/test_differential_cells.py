"""Heat of an AnnData, in every form of storage, against dense algebra.

A few cases in every run, as many as `JSEM_CASES` on demand, see `settings.py`.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm
from trust.draws import SEEDS
from trust.settings import draws

anndata = pytest.importorskip("anndata", reason="AnnData is in the extra [anndata]")

from jsem_pyg.anndata import heat  # noqa: E402


def unsorted(matrix):
    """CSR whose rows run backwards."""
    csr = sp.csr_matrix(matrix)
    for i in range(csr.shape[0]):
        row = slice(csr.indptr[i], csr.indptr[i + 1])
        csr.indices[row], csr.data[row] = csr.indices[row][::-1].copy(), csr.data[row][::-1].copy()
    csr.has_sorted_indices = False
    return csr


DENSE = [np.array, np.asfortranarray]
SPARSE = [sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array, unsorted]
STORED = st.sampled_from([*SPARSE, *DENSE])
COUNTS = [np.int64, np.int32, np.uint8, bool]


@st.composite
def weights(draw, size):
    """W [N, N] with loops and cells without neighbours."""
    r = np.random.default_rng(draw(SEEDS))
    w = np.triu(r.random((size, size)) < draw(st.sampled_from([0.15, 0.5])), 1)
    w = w * r.random((size, size))
    w = w + w.T
    if draw(st.booleans()):
        w += np.diag(r.random(size) * (r.random(size) < 0.7))
    if draw(st.booleans()):
        alone = r.integers(size)
        w[alone] = w[:, alone] = 0
    return w


@draws(12)
@given(st.data())
def test_heat(data):
    r, n = np.random.default_rng(data.draw(SEEDS)), data.draw(st.integers(4, 12))
    w, dtype = data.draw(weights(n)), data.draw(st.sampled_from([*COUNTS, np.float32, np.float64]))
    x = r.poisson(1.5, (n, 3)) if dtype in COUNTS else r.normal(size=(n, 3))
    x = x.astype(dtype)
    adata = anndata.AnnData(data.draw(STORED)(x))
    adata.obsp["connectivities"] = data.draw(STORED)(w)
    form = data.draw(st.sampled_from(["whole", "view", "view of a view", "file"]))
    cells = np.arange(n)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of AnnData, which copies a view that is written to
        if form.startswith("view"):
            cells = r.permutation(n)[: n - 1]
            adata = adata[cells]
        if form == "view of a view":
            cells, adata = cells[::-1], adata[::-1]
        if form == "file":
            path = Path(folder) / "cells.h5ad"
            adata.write_h5ad(path)
            adata = anndata.read_h5ad(path, backed="r")
        normalization = data.draw(st.sampled_from(["rw", "sym", None]))
        heat(adata, [0.3, 2.0], normalization=normalization)
        found = [np.asarray(adata.layers[f"heat_{t:g}"]) for t in (0.3, 2.0)]
        if form == "file":
            adata.file.close()
    w, x = w[np.ix_(cells, cells)], x[cells].astype(float)
    degree = w.sum(1)
    root = np.sqrt(np.where(degree > 0, degree, 1))
    laplacian = np.diag(degree) - w
    if normalization == "sym":
        laplacian = laplacian / root[:, None] / root
    elif normalization == "rw":
        laplacian = laplacian / root[:, None] ** 2
    some = degree[degree > 0]
    bound = 4e-6 * np.sqrt(some.max() / some.min()) if len(some) else 4e-6
    for t, got in zip((0.3, 2.0), found, strict=True):
        np.testing.assert_allclose(got, expm(-t * laplacian) @ x, atol=bound * np.abs(x).max())
