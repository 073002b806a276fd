"""Diffusion maps and pseudotime on the neighbour graph of cells."""

import logging
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

from .._checks import check_positive_int
from .read import keep_params, open_adata, read_graph

logger = logging.getLogger(__name__)

_DENSE = 300  # cells below which all eigenvectors are computed
_STILL = 0.9994  # eigenvalues above do not decay, as in scanpy
_RESIDUAL = 1e-4  # of a stored eigenvector of the graph
_NOTHING = 1e-12  # distances below are rounding


def diffusion_map(
    adata: Any, n_comps: int = 15, *, neighbors_key: str | None = None, copy: bool = False
) -> Any:
    r"""Compute a diffusion map: the slowest modes of heat between cells.

    Eigenvectors of the symmetric transition matrix, of weights whose density is divided out:

    .. math::
        \mathbf{K} = \mathbf{Q}^{-1} \mathbf{W} \mathbf{Q}^{-1}, \qquad
        \mathbf{T} = \mathbf{Z}^{-1/2} \mathbf{K} \mathbf{Z}^{-1/2}

    where Q and Z are the row sums of W and K, its diagonal included. The same numbers as
    `scanpy.tl.diffmap`, except that signs are fixed (the largest entry of every component is
    positive), that two runs agree, and that eigenvalues are the largest ones: scanpy takes those of
    largest modulus, among which small graphs may have negative ones, of modes that heat removes
    first. Where the graph falls into parts, each component is of one part, and zero elsewhere.

    Writes `obsm["X_diffmap"]` [N, n_comps], the first component being the stationary one, and
    `uns["diffmap_evals"]`, descending.

    Args:
        adata: an AnnData with neighbours or `obsm["X_pca"]`.
        n_comps: how many components; at most N.
        neighbors_key: which neighbours of `uns`, as in scanpy.
        copy: return a copy in place of None.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if there are no neighbours, or fewer cells than components.

    Sources: Coifman and Lafon, "Diffusion maps", 2006; Haghverdi et al., "Diffusion pseudotime
    robustly reconstructs lineage branching", Nature Methods 13, 2016.
    """
    adata = open_adata(adata, copy)
    check_positive_int("n_comps", n_comps)
    if n_comps > adata.n_obs:
        raise ValueError(
            f"Expected 'n_comps' to be at most the number of cells (got {n_comps} for "
            f"{adata.n_obs} cells)."
        )
    found = _compute_map(read_graph(adata, neighbors_key), n_comps)
    _keep_map(adata, *found, neighbors_key)
    return adata if copy else None


def pseudotime(
    adata: Any,
    root: int | str,
    *,
    n_dcs: int = 10,
    neighbors_key: str | None = None,
    copy: bool = False,
) -> Any:
    r"""Order cells by how far heat has to go from a root: diffusion pseudotime.

    .. math::
        \mathrm{dpt}(r, i)^2 = \sum_l \Bigl( \frac{\lambda_l}{1 - \lambda_l} \Bigr)^2
        (\psi_{rl} - \psi_{il})^2

    divided by the largest; components with an eigenvalue of 0.9994 or more, such as the stationary
    one, count with the weight one, as in scanpy. Uses the diffusion map in `obsm["X_diffmap"]`, or
    computes it anew where it is not one of these neighbours, which is logged: such as after
    `scanpy.pp.neighbors` was run again, or cells were left out. Writes `obs["dpt_pseudotime"]` in
    [0, 1], infinite for cells that no heat of the root reaches, and `uns["iroot"]`, as
    `scanpy.tl.dpt` does.

    Args:
        adata: an AnnData with neighbours or `obsm["X_pca"]`.
        root: the first cell: its position, or its name.
        n_dcs: how many components of the map to use, the stationary one included.
        neighbors_key: which neighbours of `uns`, as in scanpy.
        copy: return a copy in place of None.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if there is no such cell, its name is not unique, there are no neighbours, or
            none of the components tells apart the cells that the root's heat reaches.

    Source: Haghverdi et al., 2016, as above.
    """
    adata = open_adata(adata, copy)
    check_positive_int("n_dcs", n_dcs)
    position = _read_root(adata, root)
    graph = read_graph(adata, neighbors_key)
    found = None
    if _has_map(adata, graph, min(n_dcs, adata.n_obs)):
        values, modes = adata.uns["diffmap_evals"], adata.obsm["X_diffmap"]
    else:
        values, modes = found = _compute_map(graph, min(max(n_dcs, 15), adata.n_obs))
    values = np.asarray(values, dtype=np.float64)[:n_dcs]
    modes = np.asarray(modes, dtype=np.float64)[:, :n_dcs]
    moves = values < _STILL
    weight = np.where(moves, values / np.where(moves, 1 - values, 1), 1)
    distance = np.linalg.norm(weight * (modes - modes[position]), axis=1)
    part = _components(graph)
    reached = part == part[position]
    if not reached.all():
        logger.warning("%d cells have no path to the root.", int((~reached).sum()))
    largest = distance[reached].max()
    if largest < _NOTHING and reached.sum() > 1:
        raise ValueError(
            f"Expected the first {len(values)} components of the map to tell apart the cells that "
            f"heat of the root reaches (got none that does, of a graph in {part.max() + 1} parts). "
            f"To fix this, raise 'n_dcs' ({n_dcs}), or keep only the cells of the root's part."
        )
    time = np.where(reached, distance / max(largest, _NOTHING), np.inf)
    if found is not None:
        _keep_map(adata, *found, neighbors_key)
    adata.obs["dpt_pseudotime"], adata.uns["iroot"] = time, position
    params = {"root": root, "n_dcs": n_dcs, "neighbors_key": neighbors_key}
    keep_params(adata, "dpt_pseudotime", params)
    return adata if copy else None


def _compute_map(graph: csr_matrix, n_comps: int) -> tuple[np.ndarray, np.ndarray]:
    """The eigenvalues and components of the map of a graph."""
    part = _components(graph)
    if part.max() > 0:
        logger.warning("the graph is not connected: some components only tell its parts apart.")
    return _slowest_modes(_transitions(graph), part, n_comps)


def _keep_map(adata: Any, values: np.ndarray, modes: np.ndarray, neighbors_key: str | None) -> None:
    adata.obsm["X_diffmap"], adata.uns["diffmap_evals"] = modes, values
    keep_params(adata, "diffmap", {"n_comps": len(values), "neighbors_key": neighbors_key})


def _has_map(adata: Any, graph: csr_matrix, count: int) -> bool:
    """Whether `count` components are stored, and are eigenvectors of this graph."""
    if "X_diffmap" not in adata.obsm or "diffmap_evals" not in adata.uns:
        return False
    modes = np.asarray(adata.obsm["X_diffmap"], dtype=np.float64)[:, :count]
    values = np.asarray(adata.uns["diffmap_evals"], dtype=np.float64)[:count]
    if modes.shape[1] < count or len(values) < count:
        return False
    length = np.linalg.norm(modes, axis=0)  # zero for a part whose cells were left out
    residual = np.linalg.norm(_transitions(graph) @ modes - values * modes, axis=0)
    found = bool((np.abs(length - 1) < _RESIDUAL).all() and (residual < _RESIDUAL).all())
    if not found:
        logger.warning("'X_diffmap' is not a map of these neighbours: it is computed anew.")
    return found


def _transitions(graph: csr_matrix) -> csr_matrix:
    """The symmetric transition matrix T above; a cell without neighbours stays where it is."""
    for power in (1.0, 0.5):
        degree = np.asarray(graph.sum(1)).ravel()
        if power == 1.0:
            alone = degree == 0
        scale = diags(np.where(degree > 0, degree, 1.0) ** -power)
        graph = scale @ graph @ scale
    return (graph + diags(alone.astype(np.float64))).tocsr()


def _slowest_modes(
    matrix: csr_matrix, part: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The largest eigenvalues [count], descending, and eigenvectors [N, count] of fixed sign.

    Each part of the graph has the eigenvalue one; a Lanczos iteration would miss some that are
    equal, and so takes one part at a time.
    """
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part))
    matrix = matrix[order][:, order]
    parts = [
        (slice(first, end), *_modes_of_part(matrix[first:end, first:end], count))
        for first, end in zip(np.r_[0, ends[:-1]], ends, strict=True)
    ]
    every = np.concatenate([values for _, values, _ in parts])
    owner = np.concatenate([np.full(len(each[1]), number) for number, each in enumerate(parts)])
    column = np.concatenate([np.arange(len(values)) for _, values, _ in parts])
    best = np.argsort(-every, kind="stable")[:count]
    vectors = np.zeros((len(part), count))
    for place, each in enumerate(best):
        cells, _, modes = parts[owner[each]]
        vectors[order[cells], place] = modes[:, column[each]]
    return every[best], vectors


def _modes_of_part(matrix: csr_matrix, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of a connected part, at most `count`."""
    size = matrix.shape[0]
    count = min(count, size)
    if size <= _DENSE or count > size // 2:
        values, vectors = np.linalg.eigh(matrix.toarray())
        values, vectors = values[-count:], vectors[:, -count:]
    else:
        start = np.random.default_rng(0).standard_normal(size)
        values, vectors = eigsh(matrix, count, which="LA", v0=start)
    values, vectors = values[::-1].copy(), vectors[:, ::-1]
    values[0] = 1.0  # of the stationary mode, without its rounding
    largest = vectors[np.abs(vectors).argmax(0), np.arange(count)]
    return values, np.ascontiguousarray(vectors * np.where(largest < 0, -1.0, 1.0))


def _components(graph: csr_matrix) -> np.ndarray:
    return connected_components(graph, directed=False)[1]


def _read_root(adata: Any, root: int | str) -> int:
    if isinstance(root, str):
        found = np.flatnonzero(np.asarray(adata.obs_names) == root)
        if len(found) == 0:
            raise ValueError(
                f"Expected 'root' to be a name in 'adata.obs_names' (got {root!r}; the first of "
                f"{adata.n_obs} is {adata.obs_names[0]!r})."
            )
        if len(found) > 1:
            raise ValueError(
                f"Expected 'root' to be the name of one cell (got {root!r}, of {len(found)}). To "
                "fix this, pass its position, or run adata.obs_names_make_unique()."
            )
        return int(found[0])
    if isinstance(root, bool) or not isinstance(root, Integral):
        raise TypeError(f"Expected 'root' to be a position or a name (got {root!r}).")
    if not 0 <= root < adata.n_obs:
        raise ValueError(f"Expected 'root' to lie in [0, {adata.n_obs}) (got {root}).")
    return int(root)
