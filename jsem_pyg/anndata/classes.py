"""Find clusters of cells, or propagate the labels of a few."""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

from .._checks import check_nonnegative_int, check_text
from .._extras import import_optional
from ..estimators import DiffusionClusterer, DiffusionLabelSpreading
from ..estimators.diffusion_label_spreading import find_unknown
from .read import PCA, check_key, keep_params, open_adata, read_rep


def cluster(
    adata: Any,
    n_clusters: int | Literal["auto"] = "auto",
    *,
    use_rep: str = PCA,
    key_added: str = "diffusion",
    random_state: int = 0,
    copy: bool = False,
) -> Any:
    """Find clusters of cells, by :class:`~jsem_pyg.estimators.DiffusionClusterer`.

    Writes `obs[key_added]`, a categorical of "0", "1", ...; `obsm[f"{key_added}_probability"]`
    [N, C], how probable each cluster is for each cell; for "auto" also `obs[f"{key_added}_{n}"]`,
    the clusters of each other level (`DiffusionClusterer.tree_`). `uns[key_added]` has arguments,
    `levels`, the persistence of each number of clusters, `distinctness` of those that were taken (0
    as in data without clusters, to 1), and `linkage` [C - 1, 4], the merges of the clusters in
    SciPy's form.

    Args:
        adata: an AnnData with `obsm[use_rep]`.
        n_clusters: how many, or "auto". Where you know the number, pass it.
        use_rep: coordinates in `obsm`, whose neighbours are found by Euclidean distance.
        key_added: see above.
        random_state: a seed; two runs give the same clusters.
        copy: return a copy in place of None.
    """
    adata = open_adata(adata, copy)
    check_key("key_added", key_added)
    check_nonnegative_int("random_state", random_state)
    points = read_rep(adata, use_rep)
    model = DiffusionClusterer(n_clusters, metric="l2", scale=None, random_state=random_state)
    tree = model.fit(points).tree_
    adata.obs[key_added] = _categorical(model.labels_, map(str, range(model.n_clusters_)))
    adata.obsm[f"{key_added}_probability"] = model.probabilities_
    params = {"n_clusters": n_clusters, "use_rep": use_rep, "random_state": random_state}
    for level in tree.levels[1:]:
        clusters = _categorical(level.labels, map(str, range(level.n_clusters)))
        adata.obs[f"{key_added}_{level.n_clusters}"] = clusters
    levels = {str(level.n_clusters): level.persistence for level in tree.levels}
    merges = tree.linkage_of(model.labels_)
    found = {"levels": levels, "distinctness": model.distinctness_, "linkage": merges}
    keep_params(adata, key_added, params, t=model.t_, **found)
    return adata if copy else None


def propagate_labels(
    adata: Any,
    key: str,
    *,
    use_rep: str = PCA,
    key_added: str | None = None,
    random_state: int = 0,
    copy: bool = False,
) -> Any:
    """Propagate the labels of a few cells to all cells.

    By :class:`~jsem_pyg.estimators.DiffusionLabelSpreading`: a classifier learns the known labels,
    and its probabilities diffuse. To bring labels from one set of cells to another, concatenate
    them in one space (`anndata.concat`), where the cells of the second have no label.

    Writes `obs[key_added]`, a categorical with the known categories and colours of `obs[key]`;
    `obs[f"{key_added}_confidence"]`, the probability of that label, NaN where no label has two
    cells, one of which can be held out to measure it;
    `obsm[f"{key_added}_probability"]` [N, C], a column for each category that some cell has; and
    arguments in `uns[key_added]`. Known labels stay.

    Args:
        adata: an AnnData with `obsm[use_rep]`.
        key: the column of `obs` with labels; missing where unknown (None or NaN). The number -1
            and words such as "unknown", as in `DiffusionLabelSpreading.fit`, count as missing,
            with a warning in the log.
        use_rep: coordinates in `obsm`, whose neighbours are found by Euclidean distance.
        key_added: see above; by default f"{key}_propagated".
        random_state: a seed.
        copy: return a copy in place of None.
    """
    adata = open_adata(adata, copy)
    check_text("key", key)
    key_added = f"{key}_propagated" if key_added is None else key_added
    check_key("key_added", key_added)
    check_nonnegative_int("random_state", random_state)
    if key not in adata.obs:
        raise ValueError(f"Expected 'key' in 'adata.obs', {list(adata.obs)} (got {key!r}).")
    labels = adata.obs[key].astype("category").cat
    codes, names = labels.codes.to_numpy().astype(np.int64), list(labels.categories)
    unknown = np.flatnonzero(find_unknown(f"adata.obs[{key!r}]", map(str, names)))
    codes[np.isin(codes, unknown)] = -1
    if (codes < 0).all():
        raise ValueError(f"Expected 'adata.obs[{key!r}]' to have labels (got none).")
    points = read_rep(adata, use_rep)
    model = DiffusionLabelSpreading(metric="l2", scale=None, random_state=random_state)
    model.fit(points, codes)
    kept = np.delete(np.arange(len(names)), unknown)
    found = np.searchsorted(kept, model.transduction_)
    adata.obs[key_added] = _categorical(found, [names[each] for each in kept])
    is_measured = np.bincount(codes[codes >= 0]).max() > 1
    confidence = model.label_distributions_.max(1) if is_measured else np.nan
    adata.obs[f"{key_added}_confidence"] = confidence
    adata.obsm[f"{key_added}_probability"] = model.label_distributions_
    if f"{key}_colors" in adata.uns:
        colors = [each for i, each in enumerate(adata.uns[f"{key}_colors"]) if i not in unknown]
        adata.uns[f"{key_added}_colors"] = colors
    params = {"key": key, "use_rep": use_rep, "random_state": random_state}
    keep_params(adata, key_added, params, t=model.t_)
    return adata if copy else None


def _categorical(codes: np.ndarray, names: Iterable[Any]) -> Any:
    pandas = import_optional("pandas", "jsem_pyg.anndata")
    return pandas.Categorical.from_codes(codes, list(names))
