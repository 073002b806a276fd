"""Diffusion maps and pseudotime: scanpy's numbers."""

import sys

import numpy as np
import pytest
import torch
from cells.cell_cases import anndata, made, pbmc, sc
from scipy.sparse import block_diag, csr_matrix, diags
from scipy.sparse import random as random_sparse

from jsem_pyg.anndata import diffusion_map, pseudotime


def sc_diffmap(adata):
    sc.tl.diffmap(adata)


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
    assert ours.uns["diffmap"] == {"params": {"n_comps": 15}}
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


def test_scanpy_and_we_go_on_from_our_map(caplog):
    adata = pbmc()
    for _ in range(2):
        pseudotime(adata, adata.obs_names[5])
    assert not caplog.records
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


def stale(adata, make):
    make(adata)
    sc.pp.neighbors(adata, n_neighbors=40)


def part_of_cells(adata, make):
    make(adata)
    adata._inplace_subset_obs(np.arange(300))


def nan_map(adata, make):
    make(adata)
    adata.obsm["X_diffmap"][:] = np.nan


def zero_map(adata, make):
    make(adata)
    adata.obsm["X_diffmap"][:] = 0


@pytest.mark.parametrize("make", [sc_diffmap, diffusion_map], ids=["scanpy", "ours"])
@pytest.mark.parametrize("change", [stale, part_of_cells, nan_map, zero_map])
def test_pseudotime_takes_no_map_of_another_graph(change, make, caplog):
    adata = pbmc()
    change(adata, make)
    fresh = adata.copy()
    del fresh.obsm["X_diffmap"]
    for each in (adata, fresh):
        pseudotime(each, 5)
    assert "not a map of these neighbours" in caplog.text
    found, expected = (each.obs["dpt_pseudotime"].to_numpy() for each in (adata, fresh))
    assert np.isfinite(found).any()
    assert (found == expected).all()


def test_neighbours_that_count_themselves_are_scanpys():
    adata = pbmc()
    sc.pp.neighbors(adata, method="gauss", knn=False)  # dense, with a diagonal of ones
    assert adata.obsp["connectivities"].diagonal().min() == 1
    ours = diffusion_map(adata, 10, copy=True)
    sc.tl.diffmap(adata, n_comps=10)
    assert np.abs(adata.uns["diffmap_evals"] - ours.uns["diffmap_evals"]).max() < 1e-5
    expected, found = adata.obsm["X_diffmap"], ours.obsm["X_diffmap"]
    assert np.abs(expected * np.sign((expected * found).sum(0)) - found).max() < 1e-4


def random_graph(size, rng, share=0.2):
    graph = random_sparse(size, size, share, random_state=rng)
    graph = graph + graph.T
    graph.setdiag(0)
    return graph


def many_parts():
    rng = np.random.default_rng(0)
    return block_diag([random_graph(40, rng) for _ in range(30)])


def isolated_cells():
    return block_diag([random_graph(500, np.random.default_rng(0), 0.02), csr_matrix((50, 50))])


def equal_rings():
    ring = diags([1.0, 1.0, 1.0, 1.0], [-1, 1, 149, -149], (150, 150))
    return block_diag([ring] * 6)


@pytest.mark.parametrize("make", [many_parts, isolated_cells, equal_rings])
def test_a_graph_in_parts_has_the_largest_eigenvalues(make):
    """One is an eigenvalue of every part; a Lanczos iteration of the whole misses some of them."""
    graph = make().tocsr()
    adata = anndata.AnnData(np.ones((graph.shape[0], 1), np.float32))
    adata.obsp["connectivities"] = graph
    diffusion_map(adata, 15)
    values, vectors = adata.uns["diffmap_evals"], adata.obsm["X_diffmap"]
    degree = np.asarray(graph.sum(1)).ravel()
    q = np.where(degree > 0, degree, 1)
    kernel = graph.toarray() / np.outer(q, q)
    z = kernel.sum(1)
    dense = kernel / np.sqrt(np.outer(*[np.where(z > 0, z, 1)] * 2)) + np.diag(z == 0)
    assert np.abs(values - np.linalg.eigvalsh(dense)[::-1][:15]).max() < 1e-12
    assert np.abs(dense @ vectors - values * vectors).max() < 1e-12
    assert np.abs(vectors.T @ vectors - np.eye(15)).max() < 1e-12


def test_a_root_whose_part_no_component_is_of_is_refused():
    adata = anndata.AnnData(np.ones((1200, 1), np.float32))
    adata.obsp["connectivities"] = many_parts().tocsr()
    with pytest.raises(ValueError, match=r"first 10 components .* 30 parts\)\. .*raise 'n_dcs'"):
        pseudotime(adata, 1199)
    assert not adata.obsm  # nothing is left behind
    assert not adata.uns


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
        (lambda: pseudotime(made(), "x"), ValueError, r"obs_names' \(got 'x'; .* of 90 is '0'"),
        (lambda: pseudotime(repeated_names(), "cell"), ValueError, r"got 'cell', of 90"),
        (lambda: pseudotime(made(), True), TypeError, "'root' to be a position or a name"),
        (lambda: pseudotime(made(), 0, n_dcs=0), ValueError, "'n_dcs' to be a positive"),
    ],
)
def test_bad_input_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()
