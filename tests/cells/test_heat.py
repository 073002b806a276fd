"""Denoised expression: against the dense exponential, in every form of input."""

import numpy as np
import pytest
from cells.cell_cases import anndata, made, pbmc, sc
from scipy import sparse
from scipy.linalg import expm

from jsem_pyg.anndata import heat


def dense_heat(adata, x, t, normalization="rw"):
    """exp(-tL) x with the Laplacian L of scanpy's neighbours."""
    weight = adata.obsp["connectivities"].toarray().astype(float)
    degree = weight.sum(1)
    laplacian = {
        "rw": np.eye(len(weight)) - weight / degree[:, None],
        "sym": np.eye(len(weight)) - weight / np.sqrt(np.outer(degree, degree)),
        None: np.diag(degree) - weight,
    }
    return expm(-t * laplacian[normalization]) @ x


@pytest.mark.parametrize("sparse", [True, False])
def test_is_the_matrix_exponential(sparse):
    adata = made(sparse=sparse)
    before = adata.copy()
    assert heat(adata, [0.3, 4.0]) is None
    x = before.X.toarray() if sparse else before.X
    for t in (0.3, 4.0):
        assert np.allclose(adata.layers[f"heat_{t:g}"], dense_heat(adata, x, t), atol=1e-5)
    assert adata.layers["heat_4"].dtype == np.float32
    assert adata.uns["heat"]["params"]["t"].tolist() == [0.3, 4.0]
    assert (adata.X != before.X).sum() == 0


def test_a_layer_in_float64_and_coordinates():
    adata = made()
    adata.layers["double"] = adata.X.toarray().astype(float)
    heat(adata, 2.5, layer="double", key_added="smooth")
    expected = dense_heat(adata, adata.layers["double"], 2.5)
    assert np.allclose(adata.layers["smooth"], expected, atol=1e-9)
    heat(adata, 2.5, use_rep="X_pca")
    expected = dense_heat(adata, adata.obsm["X_pca"], 2.5)
    assert np.allclose(adata.obsm["X_pca_heat"], expected, atol=1e-5)


@pytest.mark.parametrize("normalization", ["rw", "sym", None])
def test_cells_that_are_neighbours_of_themselves(normalization):
    adata = made()
    graph = adata.obsp["connectivities"].tolil()
    graph.setdiag(np.linspace(0, 3, 90))
    adata.obsp["connectivities"] = graph.tocsr()
    heat(adata, 2.0, normalization=normalization)
    expected = dense_heat(adata, adata.X.toarray(), 2.0, normalization)
    assert np.allclose(adata.layers["heat"], expected, atol=1e-5)


def test_copies_views_and_files_in_backed_mode(tmp_path):
    adata = made()
    result = heat(adata, copy=True)
    assert "heat" not in adata.layers
    view = adata[:60]
    with pytest.warns(UserWarning, match="view"):
        heat(view)
    assert view.layers["heat"].shape == (60, 12)
    assert not view.is_view
    assert "heat" not in adata.layers
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert np.allclose(heat(backed[:60], copy=True).layers["heat"], view.layers["heat"], atol=1e-6)
    assert np.allclose(heat(backed, copy=True).layers["heat"], result.layers["heat"], atol=1e-6)
    with pytest.raises(ValueError, match="'adata' to be in memory .*backed"):
        heat(backed)


def test_an_isolated_cell_keeps_its_expression():
    adata = made()
    graph = adata.obsp["connectivities"].tolil()
    graph[7], graph[:, 7] = 0, 0
    adata.obsp["connectivities"] = graph.tocsr()
    heat(adata, 5.0)
    assert np.allclose(adata.layers["heat"][7], adata.X[7].toarray())


def test_named_neighbours_and_results_in_files(tmp_path):
    adata = pbmc()
    sc.pp.neighbors(adata, n_neighbors=5, key_added="few")
    heat(adata, [1, 2.5], use_rep="X_pca", neighbors_key="few")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert (again.obsm["X_pca_heat_2.5"] == adata.obsm["X_pca_heat_2.5"]).all()
    assert again.uns["X_pca_heat"]["params"]["neighbors_key"] == "few"


def without_graph():
    adata = made()
    del adata.obsp["connectivities"], adata.uns["neighbors"], adata.obsm["X_pca"]
    return adata


def with_nan():
    adata = made()
    adata.X.data[3] = np.nan
    return adata


def with_weight(value):
    adata = made()
    adata.obsp["connectivities"].data[0] = value
    return adata


@pytest.mark.parametrize(
    ("make", "options", "error", "message"),
    [
        (lambda: np.ones((3, 3)), {}, TypeError, r"'adata' to be an AnnData \(got ndarray\)"),
        (without_graph, {}, ValueError, r"neighbours of .*scanpy\.pp\.neighbors\(adata\)"),
        (with_nan, {}, ValueError, r"'adata\.X' to be finite \(got 1 NaN"),
        (lambda: with_weight(-1), {}, ValueError, r"'adata\.obsp\['connectivities'\]' to be non-"),
        (lambda: with_weight(0.123), {}, ValueError, "to be the same in both directions"),
        (lambda: made()[:0].copy(), {}, ValueError, r"to have cells \(got shape \(0, 12\)\)"),
        (made, {"t": -1}, ValueError, "'t' to be non-negative"),
        (made, {"t": "long"}, ValueError, "'t' to be a number or a sequence"),
        (made, {"use_rep": "X"}, ValueError, r"'use_rep' to name an array .* \(got 'X'; there is"),
        (made, {"use_rep": "X_pca", "layer": "a"}, ValueError, "'layer' to be None beside"),
        (made, {"neighbors_key": "few"}, ValueError, "'neighbors_key' to name neighbours"),
        (made, {"key_added": ""}, ValueError, r"'key_added' to be a name \(got ''\)"),
    ],
)
def test_bad_input_is_refused_by_name(make, options, error, message):
    adata = make()
    with pytest.raises(error, match=message):
        heat(adata, **options)
    assert not getattr(adata, "layers", {})


def test_one_sided_neighbours_name_a_cure_that_helps():
    adata = made()
    graph = adata.obsp["connectivities"].tocsr()
    for one_sided in (sparse.triu(graph, format="csr"), graph + sparse.triu(graph, format="csr")):
        adata.obsp["connectivities"] = one_sided
        with pytest.raises(ValueError, match=r"adata\.obsp\['connectivities'\]'") as error:
            heat(adata)
        assert "torch" not in str(error.value)
        cure = str(error.value).split("To fix this, symmetrise it: ")[1].removesuffix(".")
        exec(cure, {"adata": adata})
        heat(adata)
        assert np.isfinite(adata.layers["heat"]).all()
