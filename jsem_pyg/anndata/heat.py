"""Denoise expression or coordinates of cells by heat on the neighbour graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.sparse import diags, issparse

from .._checks import as_argument, check_choice, check_nonnegative
from ..diffusion import heat_diffusion
from ..graph import GraphStructure
from .read import check_key, keep_params, open_adata, read_expression, read_neighbors, read_rep

BLOCK = 128  # genes at once


def heat(
    adata: Any,
    t: float | Sequence[float] = 1.0,
    *,
    layer: str | None = None,
    use_rep: str | None = None,
    key_added: str = "heat",
    normalization: str | None = "rw",
    neighbors_key: str | None = None,
    copy: bool = False,
) -> Any:
    r"""Denoise expression: each cell becomes a mean of the cells that heat reaches from it.

    .. math::
        \mathbf{Y} = e^{-t (\mathbf{I} - \mathbf{D}^{-1} \mathbf{W})} \mathbf{X}

    with the weights W of the neighbour graph, its diagonal included, and their row sums D; exact
    for any real t >= 0, to a relative 1e-6. Genes are taken in blocks, so that sparse X is never
    dense as a whole; what comes out is. The result does not depend on the number of threads, except
    for rounding.

    Args:
        adata: [N, G] an AnnData with neighbours (`scanpy.pp.neighbors`).
        t: the time, or several, which share the same products with the graph. At t = 0 nothing
            happens; MAGIC's t counts steps of its own matrix, which are longer.
        layer: what to denoise in place of `X`.
        use_rep: denoise an array of `obsm` instead, such as "X_pca".
        key_added: the layer to write; with `use_rep` the key is f"{use_rep}_{key_added}". With
            several times each has its own, followed by "_" and the time.
        normalization: "rw" takes means; "sym" and None as in
            :func:`~jsem_pyg.diffusion.heat_diffusion`.
        neighbors_key: which neighbours of `uns`, as in scanpy.
        copy: return a copy in place of None.

    Sources: van Dijk et al., "Recovering gene interactions from single-cell data using data
    diffusion", Cell 174, 2018, for the use; the operator is that of the guide's mathematics.
    """
    adata = open_adata(adata, copy)
    check_key("key_added", key_added)
    check_choice("normalization", normalization, ("rw", "sym", None))
    times, is_single = _read_times(t)
    if use_rep is None:
        x: Any = read_expression(adata, layer)
    else:
        if layer is not None:
            raise ValueError(f"Expected 'layer' to be None beside 'use_rep' (got {layer!r}).")
        x, key_added = read_rep(adata, use_rep), f"{use_rep}_{key_added}"
    results = _flow(x, *read_neighbors(adata, neighbors_key), times, normalization)
    target = adata.layers if use_rep is None else adata.obsm
    keys = [key_added] if is_single else [f"{key_added}_{each:g}" for each in times]
    for key, result in zip(keys, results, strict=True):
        target[key] = result
    given = {"t": np.array(times), "layer": layer, "use_rep": use_rep}
    params = {**given, "normalization": normalization, "neighbors_key": neighbors_key}
    keep_params(adata, key_added, params)
    return adata if copy else None


def _flow(
    x: Any, name: str, graph: Any, times: list[float], normalization: str | None
) -> list[np.ndarray]:
    """Diffuse x [N, G] on the graph of this name: a result [N, G] for every time."""
    without = (graph - diags(graph.diagonal())).tocoo()  # the diagonal stays in the degrees
    edge_index = torch.from_numpy(np.stack([without.row, without.col]).astype(np.int64))
    weight = torch.from_numpy(without.data.astype(x.dtype))
    cure = f"symmetrise it: {name} = ({name} + {name}.T) / 2."
    with as_argument(name, "edge_index", "edge_weight", cure=cure):
        structure = GraphStructure(edge_index, graph.shape[0])
        structure.check_weight(weight)
    t = torch.tensor(times, dtype=torch.float64)
    # I - D^-1 W is D^-1 (D - W), whose masses are D; and "sym" is similar to it.
    mass, root = None, np.ones((1, 1), x.dtype)
    if normalization is not None:
        degree = np.asarray(graph.sum(1)).ravel()
        mass = torch.from_numpy(np.where(degree > 0, degree, 1.0).astype(x.dtype))
        if normalization == "sym":
            root = mass.sqrt().numpy()[:, None]
    x = x.tocsc() if issparse(x) else x
    out = [np.empty(x.shape, x.dtype) for _ in times]

    for first in range(0, x.shape[1], BLOCK):
        genes = slice(first, first + BLOCK)
        block = x[:, genes].toarray() if issparse(x) else x[:, genes]
        signal = torch.from_numpy(block / root)
        heated = heat_diffusion(signal, structure, weight, t, normalization=None, node_mass=mass)
        for each, result in zip(out, heated, strict=True):
            each[:, genes] = result.numpy() * root
    return out


def _read_times(t: Any) -> tuple[list[float], bool]:
    """Return the times as numbers, and whether `t` is a single one."""
    is_single = np.ndim(t) == 0
    if isinstance(t, str) or np.ndim(t) > 1 or np.size(t) == 0:
        raise ValueError(f"Expected 't' to be a number or a sequence of numbers (got {t!r}).")
    times = [t] if is_single else list(t)
    for each in times:
        check_nonnegative("t", each)
    return [float(each) for each in times], is_single
