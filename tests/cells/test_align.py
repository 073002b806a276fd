"""Alignment of two sets of cells."""

import numpy as np
import pytest
from cells.cell_cases import anndata, made, no_coordinates

from jsem_pyg.anndata import align

pytestmark = pytest.mark.ci


def sides(sizes=(40, 50)):
    """Cells of the same groups, of which two have other shares; partners share a group."""
    one, two = (made(60, seed=seed) for seed in (0, 1))
    return one[: sizes[0]].copy(), two[: sizes[1]].copy()


def same_group(one, two):
    partner = one.obs["align_partner"].to_numpy()
    return (one.obs["group"].to_numpy() == two.obs["group"].to_numpy()[partner]).mean()


def test_shared_genes_find_the_groups_both_ways(tmp_path):
    one, two = sides((20, 25))
    assert align(one, two, top=4, epsilon=0.1) is None
    assert same_group(one, two) > 0.9
    assert same_group(two, one) > 0.9
    assert one.obsm["X_align"].shape == (20, 5)
    assert two.obsm["X_align"].shape == (25, 5)
    for here, there in ((one, two), (two, one)):
        partner = here.obs["align_partner"]
        assert (here.obs["align_partner_name"] == there.obs_names[partner]).all()
        assert here.obs["align_confidence"].between(0, 1).all()
    assert one.uns["align"]["converged"]
    plan = one.uns["align"]["plan"]
    assert plan.shape == (20, 25)
    assert np.diff(plan.indptr).max() <= 4
    assert one.uns["align"]["shared_genes"] == 12
    one.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad").uns["align"]
    assert (again["plan"] != plan).nnz == 0
    assert again["params"]["use_rep"] == "X_pca"
    assert again["params"]["epsilon"] == 0.1


def test_other_genes_are_compared_by_shape_alone():
    one, two = sides((30, 30))
    two.var_names = [f"peak {name}" for name in two.var_names]
    first, second = align(one, two, copy=True)
    assert first.uns["align"]["shared_genes"] == 0
    assert "align" not in one.uns
    again, _ = align(one, two, copy=True)
    assert (first.obsm["X_align"] == again.obsm["X_align"]).all()
    assert np.isfinite(second.obsm["X_align"]).all()
    with pytest.raises(ValueError, match="'adata' and 'other' to share genes"):
        align(one, two, fused=True)


def test_columns_without_names_are_no_shared_genes(caplog):
    """AnnData counts columns that got no names: "0" of peaks is not "0" of genes."""
    one, two = sides((30, 30))
    named = [side.copy() for side in (one, two)]
    named[1].var_names = [f"peak {name}" for name in two.var_names]
    expected, _ = align(*named, copy=True)
    one.var_names = [f"{place}" for place in range(12)]
    two.var_names = one.var_names
    found, _ = align(one, two, copy=True)
    assert "only count the columns" in caplog.text
    assert found.uns["align"]["shared_genes"] == 0
    assert (found.obsm["X_align"] == expected.obsm["X_align"]).all()
    assert align(one, two, fused=True, copy=True)[0].uns["align"]["shared_genes"] == 12


def repeated_genes():
    adata = made(30)
    adata.var_names = ["gene"] * adata.n_vars
    return adata


@pytest.mark.parametrize(
    ("other", "options", "error", "message"),
    [
        (repeated_genes, {}, ValueError, r"'other\.var_names' to be unique, .*make_unique"),
        (lambda: None, {}, TypeError, "'other' to be an AnnData"),
        (made, {"other_rep": "no"}, ValueError, r"'other_rep' to name an array .*\]\)\.$"),
        (no_coordinates, {}, ValueError, r"of 'other\.obsm' \(got 'X_pca'; .* scanpy.pp.pca\(oth"),
    ],
)
def test_bad_input_is_refused_by_name(other, options, error, message):
    with pytest.raises(error, match=message):
        align(made(30), other(), **options)


def test_one_object_for_both_sides_is_refused():
    """The result of the second side would replace that of the first."""
    one, _ = sides((20, 25))
    with pytest.raises(ValueError, match="'adata' and 'other' to be two objects"):
        align(one, one)
    assert "align" not in one.uns
    first, second = align(one, one, copy=True, epsilon=0.1)
    assert first is not second


def test_cells_of_a_type_that_the_other_side_lacks_may_stay_alone():
    one, two = sides((40, 40))
    two = two[two.obs["group"] != "g2"].copy()
    assert align(one, two, fused=False, mass=1.0, epsilon=0.1) is None
    alone = (one.obs["align_partner"] < 0).to_numpy()
    assert alone.any()
    assert (one.obs["align_partner_name"][alone] == "").all()
    assert (one.obs["align_confidence"][alone] <= 0.5).all()
