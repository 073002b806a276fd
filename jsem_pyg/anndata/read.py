"""Read and check an AnnData: the object, its graph, its signals."""

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from .._checks import check_bool, check_instance, check_text
from .._extras import import_optional

logger = logging.getLogger(__name__)

PCA = "X_pca"


def open_adata(adata: Any, copy: bool = False, name: str = "adata") -> Any:
    """Return an AnnData to write to: the object itself, or a copy in memory."""
    kind = import_optional("anndata", "jsem_pyg.anndata").AnnData
    check_instance(name, adata, kind, "an AnnData")
    check_bool("copy", copy)
    if adata.n_obs == 0:
        raise ValueError(f"Expected '{name}' to have cells (got shape {adata.shape}).")
    if copy:
        return adata.to_memory() if adata.isbacked else adata.copy()
    if adata.isbacked and adata.is_view:
        raise ValueError(
            f"Expected '{name}' to be writable (got a view of a file in backed mode). To fix "
            f"this, pass {name}.to_memory(), or copy=True."
        )
    return adata


def read_graph(adata: Any, neighbors_key: str | None = None) -> csr_matrix:
    """Read the weights of scanpy's neighbour graph: symmetric, non-negative, in float64."""
    if neighbors_key is not None:
        check_text("neighbors_key", neighbors_key)
    name = "neighbors" if neighbors_key is None else neighbors_key
    entry = adata.uns.get(name, {})
    check_instance(f"adata.uns[{name!r}]", entry, Mapping, "what scanpy.pp.neighbors writes")
    default = "" if neighbors_key is None else f"{neighbors_key}_"
    key = entry.get("connectivities_key", f"{default}connectivities")
    if key not in adata.obsp:
        raise ValueError(
            f"Expected 'neighbors_key' to name neighbours of 'adata' (got {neighbors_key!r}; obsp "
            f"has {sorted(adata.obsp)}). To fix this, run scanpy.pp.pca(adata) and "
            "scanpy.pp.neighbors(adata)."
        )
    return _check_graph(adata.obsp[key], f"adata.obsp[{key!r}]")


def _check_graph(given: Any, name: str) -> csr_matrix:
    graph = csr_matrix(given, dtype=np.float64, copy=True)
    check_finite_numbers(name, graph)
    if graph.nnz and graph.data.min() < 0:
        raise ValueError(f"Expected '{name}' to be non-negative (got {graph.data.min():g}).")
    uneven = abs(graph - graph.T)
    if uneven.nnz and uneven.max() > 1e-5 * graph.max():
        raise ValueError(
            f"Expected '{name}' to be symmetric (got entries that differ by {uneven.max():.3g})."
        )
    return ((graph + graph.T) / 2).tocsr()


def read_rep(
    adata: Any, key: str | None = PCA, name: str = "use_rep", owner: str = "adata"
) -> np.ndarray:
    """Read coordinates of the cells, [N, D] of `obsm`, in float32 or float64.

    `name` is the argument that names them, `owner` the one that has them.
    """
    check_text(name, key)
    if key not in adata.obsm:
        fix = f" To fix this, run scanpy.pp.pca({owner})." if key == PCA else ""
        raise ValueError(
            f"Expected '{name}' to name an array of '{owner}.obsm' (got {key!r}; there is "
            f"{sorted(adata.obsm)}).{fix}"
        )
    points = adata.obsm[key]
    points = points.toarray() if issparse(points) else np.asarray(points)
    if points.ndim != 2 or points.shape[1] == 0:
        raise ValueError(
            f"Expected '{owner}.obsm[{key!r}]' to have columns (got {list(points.shape)})."
        )
    if points.dtype.kind in "iu":  # such as pixels, of which float32 has too few digits
        points = points.astype(np.float64)
    return as_float(f"{owner}.obsm[{key!r}]", points)


def read_expression(adata: Any, layer: str | None = None) -> Any:
    """Read the matrix X or a layer into memory, sparse or dense as it is; warn of counts."""
    if layer is not None:
        check_text("layer", layer)
        if layer not in adata.layers:
            raise ValueError(
                f"Expected 'layer' to name a layer (got {layer!r}; there is "
                f"{sorted(adata.layers)})."
            )
    name = "adata.X" if layer is None else f"adata.layers[{layer!r}]"
    x = adata.X if layer is None else adata.layers[layer]
    if x is None:
        raise ValueError(f"Expected '{name}' to hold expression (got None).")
    if adata.isbacked and layer is None and not isinstance(x, np.ndarray) and not issparse(x):
        x = x[:] if not hasattr(x, "to_memory") else x.to_memory()
    check_finite_numbers(name, x)
    if issparse(x) and x.dtype.kind == "f":
        x = x.astype(precision_of(x.dtype), copy=False)  # SciPy computes with no half precision
    data = x.data if issparse(x) else x
    sample = np.asarray(data).reshape(-1)[:100_000]
    if sample.size and sample.max() > 1 and (sample == np.round(sample)).all():
        logger.warning(
            "'%s' seems to hold counts: cells of more counts weigh more in a mean. See "
            "scanpy.pp.normalize_total and log1p.",
            name,
        )
    return x


def check_key(name: str, value: Any) -> None:
    """Raise unless `value` can name what is written: h5ad files take no empty names."""
    check_text(name, value)
    if not value:
        raise ValueError(f"Expected '{name}' to be a name (got '').")


def check_finite_numbers(name: str, x: Any) -> None:
    """Raise unless x, sparse or dense, holds finite real numbers."""
    data = x.data if issparse(x) else np.asarray(x)
    if data.dtype.kind not in "fiub":
        raise TypeError(f"Expected '{name}' to hold real numbers (got {data.dtype}).")
    if data.dtype.kind == "f" and (bad := data.size - int(np.isfinite(data).sum())):
        raise ValueError(
            f"Expected '{name}' to be finite (got {bad} NaN or infinite of {data.size} values)."
        )


def as_float(name: str, x: np.ndarray) -> np.ndarray:
    """Return a dense array in float64 if it has 64 bits, else in float32."""
    check_finite_numbers(name, x)
    return np.ascontiguousarray(x, dtype=precision_of(x.dtype))


def precision_of(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """Return the type to compute in: float64 for numbers of 64 bits, else float32."""
    return np.float64 if dtype.kind == "f" and dtype.itemsize >= 8 else np.float32


def keep_params(adata: Any, key: str, params: dict[str, Any], **more: Any) -> None:
    """Write arguments to `uns`, in a form that h5ad files take: without those that are None."""
    kept = {name: value for name, value in params.items() if value is not None}
    adata.uns[key] = {"params": kept, **more}
