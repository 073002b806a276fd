"""Read and check an AnnData: the object, its graph, its signals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse

from .._checks import check_bool, check_instance, check_signal_range, check_text, tensor_of
from .._extras import import_optional

PCA = "X_pca"


def open_adata(adata: Any, copy: bool = False, name: str = "adata") -> Any:
    """Return an AnnData in memory to write to: the object itself, or a copy."""
    kind = import_optional("anndata", "jsem_pyg.anndata").AnnData
    check_instance(name, adata, kind, "an AnnData")
    check_bool("copy", copy)
    if adata.n_obs == 0:
        raise ValueError(f"Expected '{name}' to have cells (got shape {adata.shape}).")
    if adata.isbacked and not copy:
        raise ValueError(
            f"Expected '{name}' to be in memory (got a file in backed mode). To fix this, pass "
            f"{name}.to_memory(), or copy=True."
        )
    return adata.to_memory(copy=True) if copy else adata


def read_neighbors(adata: Any, neighbors_key: str | None = None) -> tuple[str, csr_matrix]:
    """Read the weights of scanpy's neighbour graph, in float64, and what they are called."""
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
    return f"adata.obsp[{key!r}]", csr_matrix(adata.obsp[key], dtype=np.float64)


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
    found: np.ndarray = read_numbers(f"{owner}.obsm[{key!r}]", points)
    return found


def read_expression(adata: Any, layer: str | None = None) -> Any:
    """Read the matrix X or a layer, sparse or dense as it is, in float32 or float64."""
    if layer is not None:
        check_text("layer", layer)
        if layer not in adata.layers:
            raise ValueError(f"Expected 'layer' in {sorted(adata.layers)} (got {layer!r}).")
    name = "adata.X" if layer is None else f"adata.layers[{layer!r}]"
    x = adata.X if layer is None else adata.layers[layer]
    if x is None:
        raise ValueError(f"Expected '{name}' to hold expression (got None).")
    return read_numbers(name, x)


def read_numbers(name: str, x: Any) -> Any:
    """Return x, sparse or dense, in float64 if it has floats of 64 bits, else in float32."""
    x = x if issparse(x) else np.asarray(x)
    if x.dtype.kind not in "biuf":
        raise TypeError(f"Expected '{name}' to hold real numbers (got {x.dtype}).")
    x = x.astype(np.float64 if x.dtype == np.float64 else np.float32, copy=False)
    check_signal_range(name, tensor_of(name, x.data if issparse(x) else x))
    return x


def check_key(name: str, value: Any) -> None:
    """Raise unless `value` can name what is written: h5ad files take no empty names."""
    check_text(name, value)
    if not value:
        raise ValueError(f"Expected '{name}' to be a name (got '').")


def keep_params(adata: Any, key: str, params: dict[str, Any], **more: Any) -> None:
    """Write arguments to `uns`, in a form that h5ad files take: without those that are None."""
    kept = {name: value for name, value in params.items() if value is not None}
    adata.uns[key] = {"params": kept, **more}
