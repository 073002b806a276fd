"""What the documentation promises about memory, and the calls that have to keep it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from jsem_pyg.graph import GraphStructure

Work = Callable[[], object]
COUNT = 16  # neighbours of a node
PARTITION, TRANSPORT, FIGURES = "guide/partition.md", "guide/transport.md", "benchmarks/index.md"


class Limit(NamedTuple):
    """A promise.

    Attributes:
        promised: GB, 10^9 bytes.
        of: "process": all that it holds; "beyond": what a call adds to libraries and data.
        page: of the documentation.
        prepare: (scale, folder) -> the call. The scale multiplies the number of nodes or points.
        write: (scale, folder): files for it, in a process before.
    """

    promised: float
    of: str
    page: str
    prepare: Callable[[float, Path], Work]
    write: Callable[[float, Path], None] | None = None


def ring(num_nodes: int) -> Tensor:
    """[2, E]: every node joined to 16 others, most of them near, as in an ordered graph."""
    node = torch.arange(num_nodes)
    offsets = [1, 2, 3, 5, 8, 13, 100, 1001]
    pairs = [torch.stack([node, (node + offset) % num_nodes]) for offset in offsets]
    once = torch.cat(pairs, dim=1)
    return torch.cat([once, once.flip(0)], dim=1)


def _size(count: float, scale: float) -> int:
    return max(int(count * scale), 2100)


def _from_file(count: float, channels: int, memory: str) -> Limit:
    def write(scale: float, folder: Path) -> None:
        from out_of_core import write_source

        size = _size(count, scale)
        write_source(folder / "x.npy", (size, channels), "C")
        np.save(folder / "edges.npy", ring(size).numpy())

    def prepare(scale: float, folder: Path) -> Work:
        from jsem_pyg.partition import diffuse_file

        edges = torch.from_numpy(np.load(folder / "edges.npy"))
        options = {"memory": memory, "progress": False}
        return lambda: diffuse_file(folder / "x.npy", edges, folder / "y.npy", 5.0, **options)

    return Limit(float(memory.removesuffix("GB")), "process", PARTITION, prepare, write)


def _coordinates(promised: float, first: int, second: int) -> Limit:
    def prepare(scale: float, folder: Path) -> Work:
        from alignment import spiral_case

        from jsem_pyg.transport import GeodesicCost, gromov_wasserstein

        def align(n: int, k: int) -> object:
            case, cost = spiral_case(None, f"{n}x{k}", 0), GeodesicCost(k=10)
            return lambda: gromov_wasserstein(cost(case.source), cost(case.target), progress=False)

        align(150, 150)()
        return align(_size(first, scale), _size(second, scale))

    return Limit(promised, "beyond", TRANSPORT, prepare)


def _matching(scale: float, folder: Path) -> Work:
    from graph_matching import changed_copy, make_graph

    from jsem_pyg.transport import match_graphs

    def pair(size: int) -> tuple[Tensor, Tensor]:
        edges = make_graph(size, 3, 0)
        return edges, changed_copy(edges, size, 0.05, 0)[0]

    match_graphs(*pair(200))
    size = _size(200_000, scale)
    source, target = pair(size)
    return lambda: match_graphs(source, target)


def _curvature(promised: float, method: str) -> Limit:
    def prepare(scale: float, folder: Path) -> Work:
        from torch_geometric.utils import coalesce

        from jsem_pyg.curvature import forman_curvature

        size = _size(1e6, scale)
        edges = coalesce(ring(size))
        forman_curvature(ring(2100), None, 2100, method)
        return lambda: forman_curvature(edges, None, size, method)

    return Limit(promised, "beyond", FIGURES, prepare)


def _epoch(scale: float, folder: Path) -> Work:
    from jsem_pyg.diffusion import heat_diffusion

    def epoch(x: Tensor, graph: Tensor | GraphStructure, weight: Tensor) -> object:
        leaves = [x.requires_grad_(), weight.requires_grad_(), torch.tensor(5.0).requires_grad_()]
        out = heat_diffusion(leaves[0], graph, *leaves[1:], degree=30)
        return out.backward(torch.ones_like(out))

    size = _size(1e6, scale)
    small = ring(2100)
    epoch(torch.randn(2100, 128), small, torch.ones(small.size(1)))
    edges = ring(size)
    x, structure, weight = torch.randn(size, 128), GraphStructure(edges, size), edges.size(1)
    heat_diffusion(x[:, :1], structure, degree=1)  # in order of its rows
    return lambda: epoch(x, structure, torch.ones(weight))


def _neighbours(scale: float, folder: Path) -> Work:
    from neighbours import clustered_points

    from jsem_pyg.neighbors import knn_graph

    x = clustered_points(_size(1e6, scale), 64)
    knn_graph(x[:200], 15)
    return lambda: knn_graph(x, 15, progress=False)


def _self_training(promised: float, count: float) -> Limit:
    def write(scale: float, folder: Path) -> None:
        from self_training import mixture, parse_args

        data = mixture(_size(count, scale), parse_args([]))
        arrays = {name: value.numpy() for name, value in data.to_dict().items()}
        np.savez(folder / "graph.npz", **arrays)

    def prepare(scale: float, folder: Path) -> Work:
        from torch_geometric.data import Data

        from jsem_pyg.nn import DiffusionClassifier
        from jsem_pyg.training import fit

        with np.load(folder / "graph.npz") as arrays:
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays if name != "y"}
        data = Data(**tensors)
        return lambda: fit(DiffusionClassifier(data.x.size(1), 20), data, seed=0, progress=False)

    return Limit(promised, "process", FIGURES, prepare, write)


def _cells(scale: float, folder: Path) -> Work:
    """Sparse X: the result, a second copy of X by columns, and eight blocks of 256 genes."""
    import scipy.sparse
    from anndata import AnnData

    from jsem_pyg.anndata import heat

    def cells(size: int, genes: int) -> AnnData:
        draw = np.random.default_rng(0)
        options = {"density": 0.05, "format": "csr", "dtype": np.float32, "random_state": 0}
        x = scipy.sparse.random(size, genes, data_rvs=draw.random, **options)
        edges = ring(size).numpy()
        graph = scipy.sparse.coo_array((np.ones(edges.shape[1], np.float32), edges))
        uns = {"neighbors": {"connectivities_key": "connectivities", "distances_key": "distances"}}
        obsp = {name: graph.tocsr() for name in ("connectivities", "distances")}
        return AnnData(x.astype(np.float32), uns=uns, obsp=obsp)

    heat(cells(2100, 10), 1.0)
    adata = cells(_size(20_000, scale), 10_000)
    return lambda: heat(adata, 1.0)


LIMITS = {
    "diffuse_file, 100,000 x 512, memory='1GB'": _from_file(1e5, 512, "1GB"),
    "diffuse_file, 1,000,000 x 1,024, memory='2GB'": _from_file(1e6, 1024, "2GB"),
    "gromov_wasserstein, 2,000 x 2,500": _coordinates(0.022, 2_000, 2_500),
    "gromov_wasserstein, 20,000 x 25,000": _coordinates(0.2, 20_000, 25_000),
    "match_graphs, 200,000 nodes": Limit(2.7, "beyond", TRANSPORT, _matching),
    "forman_curvature, 1d, 1,000,000 nodes": _curvature(0.6, "1d"),
    "forman_curvature, augmented, 1,000,000 nodes": _curvature(0.61, "augmented"),
    "forman_curvature, balanced, 1,000,000 nodes": _curvature(1.7, "balanced"),
    "an epoch of heat_diffusion, 1,000,000 x 128": Limit(7 * 0.512, "beyond", FIGURES, _epoch),
    "knn_graph, 1,000,000 x 64": Limit(3.4, "process", FIGURES, _neighbours),
    "fit without labels, 120,000 nodes": _self_training(1.6, 120_000),
    "fit without labels, 1,000,000 nodes": _self_training(5.5, 1e6),
    "anndata.heat, 20,000 cells x 10,000 genes, 5 % of them": Limit(
        1.1, "beyond", "guide/anndata.md", _cells
    ),
}
