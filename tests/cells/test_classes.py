"""Clusters and labels of cells."""

import numpy as np
import pytest
from cells.cell_cases import anndata, made, no_coordinates
from sklearn.metrics import adjusted_rand_score

from jsem_pyg.anndata import cluster, propagate_labels


def test_clusters_are_the_groups_and_the_same_again(tmp_path):
    adata = made()
    again = cluster(adata, 3, copy=True)
    assert "diffusion" not in adata.obs
    cluster(adata, 3)
    assert adjusted_rand_score(adata.obs["group"], adata.obs["diffusion"]) > 0.95
    assert (adata.obs["diffusion"] == again.obs["diffusion"]).all()
    assert list(adata.obs["diffusion"].cat.categories) == ["0", "1", "2"]
    probability = adata.obsm["diffusion_probability"]
    assert probability.shape == (90, 3)
    assert np.allclose(probability.sum(1), 1, atol=1e-5)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    assert anndata.read_h5ad(tmp_path / "cells.h5ad").uns["diffusion"]["params"]["n_clusters"] == 3


def test_levels_and_merges_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    inner = np.arange(240) // 40  # six parts, two in each of three groups
    points = np.eye(9)[inner // 2] + 0.45 * np.eye(9)[3 + inner] + 0.15 * rng.normal(size=(240, 9))
    adata = anndata.AnnData(points, obsm={"X_pca": points})
    cluster(adata)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    kept = anndata.read_h5ad(tmp_path / "cells.h5ad")
    count = len(kept.obs["diffusion"].cat.categories)
    assert kept.uns["diffusion"]["linkage"].shape == (count - 1, 4)
    others = {number for number in kept.uns["diffusion"]["levels"] if number != str(count)}
    assert others
    assert len(others) + 1 == len(kept.uns["diffusion"]["levels"])
    for number in others:
        assert len(kept.obs[f"diffusion_{number}"].cat.categories) == int(number)


def few(adata, each=2):
    """The labels of the first cells of each group."""
    order = adata.obs.groupby("group").cumcount()
    return adata.obs["group"].where(order < each)


def test_a_few_labels_reach_all_cells():
    adata = made()
    adata.obs["few"] = few(adata).astype("category")
    adata.uns["few_colors"] = ["red", "green", "blue"]
    propagate_labels(adata, "few")
    assert (adata.obs["few_propagated"].astype(str) == adata.obs["group"]).mean() > 0.95
    known = adata.obs["few"].notna()
    assert (adata.obs["few_propagated"][known].astype(str) == adata.obs["few"][known]).all()
    assert (adata.obs["few_propagated_confidence"][known] == 1).all()
    assert adata.uns["few_propagated"]["t"] > 0
    adata.uns["few_colors"][0] = "black"
    assert adata.uns["few_propagated_colors"] == ["red", "green", "blue"]


@pytest.mark.parametrize("word", ["Unknown", "", "-1", "nan", -1])
def test_words_for_no_label_count_as_missing_and_the_log_says_so(word, caplog):
    adata = made()
    known = few(adata)
    adata.obs["none"] = known
    as_label = str if isinstance(word, str) else _number
    adata.obs["word"] = [as_label(each) if isinstance(each, str) else word for each in known]
    propagate_labels(adata, "none")
    assert not caplog.records
    adata.uns["word_colors"] = list("rgby")
    propagate_labels(adata, "word")
    assert f"{str(word).lower()!r} of adata.obs['word'] count as unknown" in caplog.text
    found = adata.obs["word_propagated"]
    assert word not in found.cat.categories
    assert len(adata.uns["word_propagated_colors"]) == 3
    assert list(found) == [as_label(each) for each in adata.obs["none_propagated"]]


def _number(group):
    return int(group[1:])


def nan_in_pcs():
    adata = made()
    adata.obsm["X_pca"][0, 0] = np.nan
    return adata


def unlabelled():
    adata = made()
    adata.obs["none"] = np.nan
    return adata


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cluster(made(), 0), ValueError, "'n_clusters' to be a positive integer or 'auto'"),
        (lambda: cluster(made(), 2, key_added=""), ValueError, "'key_added' to be a name"),
        (lambda: cluster(nan_in_pcs(), 2), ValueError, r"obsm\['X_pca'\]' to be finite"),
        (lambda: cluster(made(), 2, use_rep="no"), ValueError, r"use_rep' .*'X_pca'.*\]\)\.$"),
        (lambda: cluster(no_coordinates(), 2), ValueError, r"use_rep' .* scanpy\.pp\.pca\(adata\)"),
        (lambda: propagate_labels(made(), "no"), ValueError, "'key' in 'adata.obs'"),
        (lambda: propagate_labels(unlabelled(), "none"), ValueError, r"labels \(got none\)"),
    ],
)
def test_bad_input_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()
