"""Diffusion maps and pseudotime: scanpy's numbers."""

import sys

import numpy as np
import pytest
import torch
from cells.cell_cases import made, pbmc, sc
from scipy.sparse import diags

from jsem_pyg.anndata import diffusion_map, pseudotime


def two_parts():
    """Cells of which the first 30 are not joined to the others: a line of neighbours, cut."""
    adata = made()
    adata.obsp["connectivities"] = diags([np.ones(89), np.ones(89)], [-1, 1]).tocsr()
    graph = adata.obsp["connectivities"].tolil()
    graph[:30, 30:], graph[30:, :30] = 0, 0
    adata.obsp["connectivities"] = graph.tocsr()
    return adata


def test_equals_scanpy():
    adata = pbmc()
    ours = diffusion_map(adata, copy=True)
    assert "X_diffmap" not in adata.obsm
    sc.tl.diffmap(adata)
    expected, found = adata.obsm["X_diffmap"], ours.obsm["X_diffmap"]
    assert np.abs(adata.uns["diffmap_evals"] - ours.uns["diffmap_evals"]).max() < 1e-5
    signs = np.sign((expected * found).sum(0))
    assert np.abs(expected * signs - found).max() < 1e-4
    assert (found.max(0) >= -found.min(0)).all()
    adata.uns["iroot"] = 5
    sc.tl.dpt(adata)
    pseudotime(ours, 5)
    assert np.abs(adata.obs["dpt_pseudotime"] - ours.obs["dpt_pseudotime"]).max() < 1e-4
    assert ours.uns["iroot"] == 5


def test_scanpy_goes_on_from_our_map():
    adata = pbmc()
    pseudotime(adata, adata.obs_names[5])
    ours = adata.obs["dpt_pseudotime"].to_numpy()
    sc.tl.dpt(adata)  # reads X_diffmap, diffmap_evals and iroot
    assert np.abs(adata.obs["dpt_pseudotime"] - ours).max() < 1e-4


def test_pseudotime_takes_no_map_of_other_neighbours():
    adata = made()
    sc.pp.neighbors(adata, n_neighbors=4, use_rep="X_pca", key_added="few")
    alone = pseudotime(adata, 5, neighbors_key="few", copy=True)
    diffusion_map(adata)
    pseudotime(adata, 5, neighbors_key="few")
    found, expected = (each.obs["dpt_pseudotime"] for each in (adata, alone))
    assert np.abs(found - expected).max() < 1e-10


def test_a_dense_and_a_sparse_solver_agree(monkeypatch):
    sparse = diffusion_map(pbmc(), 6, copy=True)
    monkeypatch.setattr(sys.modules["jsem_pyg.anndata.diffusion_map"], "_DENSE", 1000)
    dense = diffusion_map(pbmc(), 6, copy=True)
    assert np.abs(sparse.obsm["X_diffmap"] - dense.obsm["X_diffmap"]).max() < 1e-8


def test_runs_and_threads_agree():
    adata, threads = pbmc(), torch.get_num_threads()
    try:
        maps = []
        for count in (1, 2):
            torch.set_num_threads(count)
            maps.append(diffusion_map(adata, copy=True).obsm["X_diffmap"])
    finally:
        torch.set_num_threads(threads)
    assert np.abs(maps[0] - maps[1]).max() < 1e-10


def test_cells_without_a_path_are_infinitely_far(caplog):
    adata = two_parts()
    pseudotime(adata, 3)
    time = adata.obs["dpt_pseudotime"].to_numpy()
    assert np.isinf(time[30:]).all()
    assert time[3] == 0
    assert time[:30].max() == 1
    assert "60 cells have no path to the root" in caplog.text
    assert "not connected" in caplog.text


def test_a_single_cell_and_isolated_ones():
    adata = made()[:1].copy()
    adata.obsp["connectivities"] = np.zeros((1, 1))
    pseudotime(adata, 0)
    assert adata.obs["dpt_pseudotime"].tolist() == [0.0]


def repeated_names():
    adata = made()
    adata.obs_names = ["cell"] * adata.n_obs
    return adata


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: diffusion_map(made(), 0), ValueError, "'n_comps' to be a positive integer"),
        (lambda: diffusion_map(made(), 91), ValueError, "'n_comps' to be at most the number of"),
        (lambda: pseudotime(made(), 90), ValueError, r"'root' to lie in \[0, 90\) \(got 90\)"),
        (lambda: pseudotime(made(), "x"), ValueError, r"'root' .* one cell \(got 'x', of 0\)"),
        (lambda: pseudotime(repeated_names(), "cell"), ValueError, r"got 'cell', of 90"),
        (lambda: pseudotime(made(), True), TypeError, "'root' to be a position or a name"),
        (lambda: pseudotime(made(), 0, n_dcs=0), ValueError, "'n_dcs' to be a positive"),
    ],
)
def test_bad_input_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()
