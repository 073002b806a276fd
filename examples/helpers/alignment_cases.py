"""Pairs of graphs whose correspondence is known: files, noise, and what an answer is worth."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.stats import rankdata


class Case(NamedTuple):
    """Two graphs, and pairs of nodes that are the same."""

    source: csr_array  # [N, N], ones
    target: csr_array  # [K, K]
    truth: np.ndarray  # [N] the true partner of each node; -1: it has none, or none is known


class Noise(NamedTuple):
    """What the target of a case lacks."""

    kind: str  # "one-way", "two-way", or "real"
    level: str


def noises(path: Path, kinds: list[str], levels: list[float]) -> Iterator[Noise]:
    """What one file can be tried with."""
    versions = _own_versions(path)
    if versions:
        yield from (Noise("real", each) for each in versions if "real" in kinds)
        return
    for kind in ("one-way", "two-way"):
        if kind in kinds:
            yield from (Noise(kind, f"{level:g}") for level in levels)


def make_case(path: Path, noise: Noise, seed: int) -> Case:
    """Read a file, cut edges at random, and rename the target's nodes.

    Args:
        path: `.npz` of `num_nodes` and `edges` [E, 2], or of `edges_*`, versions of one graph; of
            `edge_index1`, `edge_index2` [2, E] and `pos_pairs` or `test_pairs` [M, 2]; a text file
            of an edge a line; or a folder of `G1.edgelist`, `G2.edgelist` and `Alignment.json`.
        noise: which edges the target lacks, and for "two-way" the source, too.
        seed: of the edges and names.
    """
    draw = np.random.default_rng(seed)
    if noise == ("real", "pair"):
        first, second, pairs = _read_pair(path)
        sizes = [
            max(int(each.max()) + 1, int(side.max()) + 1)
            for each, side in zip((first, second), pairs.T, strict=True)
        ]
    elif noise.kind == "real":
        with np.load(path) as saved:
            versions = [name for name in saved if name.startswith("edges_")]
            first = saved[f"edges_{_whole([each[6:] for each in versions])}"]
            second = saved[f"edges_{noise.level}"]
            sizes = [int(saved["num_nodes"])] * 2
        pairs = np.arange(sizes[0])[:, None].repeat(2, 1)
    else:
        edges, size = _read_graph(path)
        share = float(noise.level) / 100
        first = cut(edges, share, draw) if noise.kind == "two-way" else edges
        second, sizes = cut(edges, share, draw), [size, size]
        pairs = np.arange(size)[:, None].repeat(2, 1)
    name = draw.permutation(sizes[1])
    truth = np.full(sizes[0], -1)
    truth[pairs[:, 0]] = name[pairs[:, 1]]
    return Case(matrix_of(first, sizes[0]), matrix_of(name[second], sizes[1]), truth)


def scores(case: Case, partner: np.ndarray, fit: np.ndarray | None) -> dict[str, float]:
    """What partners [N] are worth, and the scores of pairs [N, K], if there are any.

    Accuracy is the share of nodes with a known partner that get it. "twins" adds those that get a
    node with the very same neighbours as the true one, or the partner of such a node, which nobody
    can tell apart. Overlap is the share of the edges of the graph with fewer of them that are
    edges of both. Ranks: of the true partner among all by the scores; without scores, the partner
    comes first, and then pairs by the number of neighbours that are partners. Equal scores share
    the mean of their ranks.
    """
    known = np.flatnonzero(case.truth >= 0)
    truth, found = case.truth[known], partner[known]
    right = found == truth
    classes = _neighbourhoods(case.target)
    place = np.full(case.target.shape[0], -1)
    place[truth] = known
    other, has = place[found], (found >= 0) & (place[found] >= 0)
    same = (found >= 0) & _alike(classes, found, truth)
    same |= has & _alike(_neighbourhoods(case.source), np.where(has, other, known), known)
    rank = _ranks(case, partner, fit, known)
    fewest = max(1, min(case.source.nnz, case.target.nnz))
    return {
        "accuracy": float(right.mean()),
        "twins": float((right | same).mean()),
        "overlap": _kept(case, partner) / fewest,
        "true overlap": _kept(case, case.truth) / fewest,
        "MRR": float((1 / rank).mean()),
        "Hits@5": float((rank <= 5).mean()),
    }


def _ranks(
    case: Case, partner: np.ndarray, fit: np.ndarray | None, known: np.ndarray
) -> np.ndarray:
    """Of the true partners of known nodes, 1 the best."""
    if fit is not None:
        rows = np.array([rankdata(-fit[node])[case.truth[node]] for node in known])
        # The way's own answer stands first: assignments are better than the rows they come from.
        return np.where(partner[known] == case.truth[known], 1.0, np.maximum(rows, 2.0))
    matched = np.flatnonzero(partner >= 0)
    shape = case.source.shape[0], case.target.shape[0]
    pairs = coo_array((np.ones(len(matched)), (matched, partner[matched])), shape).tocsr()
    support = (case.source @ pairs @ case.target + pairs * 1e6).tocsr()
    ranks = np.empty(len(known))
    for place, node in enumerate(known):
        part = slice(support.indptr[node], support.indptr[node + 1])
        column, value = support.indices[part], support.data[part]
        own = value[column == case.truth[node]].sum()
        equal = (value == own).sum() if own else shape[1] - len(column)
        ranks[place] = (value > own).sum() + (equal + 1) / 2
    return ranks


def _kept(case: Case, partner: np.ndarray) -> int:
    """How many entries of both adjacency matrices agree."""
    row, column = case.source.tocoo().coords
    both = (partner[row] >= 0) & (partner[column] >= 0)
    first, second = partner[row][both], partner[column][both]
    pulled = coo_array((np.ones(len(first)), (first, second)), case.target.shape)
    return int((pulled.tocsr() * case.target).nnz)


def _neighbourhoods(matrix: csr_array) -> np.ndarray:
    """[2, N] numbers that nodes share whose neighbours are the same, also with themselves."""
    draw = np.random.default_rng(0).integers(1, 1 << 62, matrix.shape[0])
    around = matrix.astype(np.int64) @ draw  # modulo 2^64
    return np.stack([around, around + draw])


def _alike(classes: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return (classes[:, first] == classes[:, second]).any(0)


def cut(edges: np.ndarray, share: float, draw: np.random.Generator) -> np.ndarray:
    return edges[draw.permutation(len(edges))[round(share * len(edges)) :]]


def matrix_of(edges: np.ndarray, size: int) -> csr_array:
    edges = edges[edges[:, 0] != edges[:, 1]]
    row, column = np.concatenate([edges, edges[:, ::-1]]).T
    matrix = coo_array((np.ones(len(row)), (row, column)), (size, size)).tocsr()
    matrix.data[:] = 1
    return matrix


def _read_graph(path: Path) -> tuple[np.ndarray, int]:
    if path.suffix == ".npz":
        with np.load(path) as saved:
            return saved["edges"].astype(np.int64), int(saved["num_nodes"])
    names, edges = np.unique(_lines(path), return_inverse=True)
    return edges.reshape(-1, 2), len(names)


def _read_pair(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if path.is_dir():
        known = json.loads((path / "Alignment.json").read_text())
        pairs = np.array([[int(node), int(other)] for node, other in known.items()])
        return _lines(path / "G1.edgelist"), _lines(path / "G2.edgelist"), pairs
    with np.load(path) as saved:
        names = _pair_names(saved)
        pairs = np.concatenate([saved[name] for name in names[2:]])
        return saved[names[0]].T, saved[names[1]].T, pairs.astype(np.int64)


def _lines(path: Path) -> np.ndarray:
    return np.loadtxt(path, dtype=np.int64, usecols=(0, 1), comments=("#", "%"), ndmin=2)


def _pair_names(saved: np.lib.npyio.NpzFile) -> list[str]:
    pairs = [name for name in ("pos_pairs", "test_pairs") if name in saved]
    return ["edge_index1", "edge_index2", *pairs] if pairs else []


def _own_versions(path: Path) -> list[str]:
    """The noise that a file has of its own: versions of a graph but the whole one, or "pair"."""
    if path.is_dir():
        return ["pair"]
    if path.suffix != ".npz":
        return []
    with np.load(path) as saved:
        if _pair_names(saved):
            return ["pair"]
        versions = sorted(_versions(saved), key=_number)
    return [each for each in versions if each != _whole(versions)]


def _versions(saved: np.lib.npyio.NpzFile) -> list[str]:
    return [name[6:] for name in saved if name.startswith("edges_")]


def _number(version: str) -> float:
    digits = "".join(each for each in version if each.isdigit())
    return float(digits or 0)


def _whole(versions: list[str]) -> str:
    """The version that others are compared with: all edges, or no additional ones."""
    return "100" if "100" in versions else min(versions, key=_number, default="")
