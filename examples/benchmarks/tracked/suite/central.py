"""Ten central figures, each a ratio: seconds of ours over seconds of a named baseline.

Both run in turn in one process on one thread, in seconds of the processor, so that a slow machine
slows both and other work counts little. A figure is the median of ratios, below one if ours is
faster. Sizes are those of everyday use. Data are random with a fixed seed, or scikit-learn's
digits: nothing is downloaded.
"""

import statistics
import time
from collections.abc import Callable

import faiss
import numpy as np
import ot
import torch
from scipy.optimize import quadratic_assignment
from scipy.sparse.linalg import expm_multiply
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph
from torch import Tensor
from torch_geometric.nn import APPNP, ChebConv, HypergraphConv
from torch_geometric.utils import get_laplacian, grid, to_scipy_sparse_matrix, to_undirected

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.nn import AnisotropicDiffusion, HypergraphDiffusion
from jsem_pyg.transport import gromov_wasserstein, match_graphs

Call = Callable[[], object]


def ratio(ours: Call, baseline: Call, repeats: int) -> float:
    """The median over `repeats` turns, after one that compiles and prepares."""
    ratios = []
    for turn in range(repeats + 1):
        seconds = []
        for call in (ours, baseline):
            start = time.process_time()
            call()
            seconds.append(time.process_time() - start)
        if turn:
            ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios)


def points(size: int, channels: int, seed: int = 0) -> Tensor:
    """A mixture of 20 Gaussians, the rows of length one."""
    draw = torch.Generator().manual_seed(seed)
    centers = torch.randn(20, channels, generator=draw)
    x = torch.randn(size, channels, generator=draw) + centers[torch.arange(size) % 20]
    return torch.nn.functional.normalize(x)


def backward(run: Callable[[Tensor], Tensor], x: Tensor) -> Call:
    """Forward, and backward to x and the parameters."""
    return lambda: run(x.clone().requires_grad_()).sum().backward()


class Central:
    """One graph of 11,314 points (the size of 20 Newsgroups) serves several figures."""

    timeout = 1800
    unit = "seconds of ours / seconds of the baseline"

    def setup_cache(self) -> dict[str, Tensor]:
        """Make the graph once, for all figures."""
        torch.set_num_threads(1)
        x = points(11_314, 384)
        edge_index, edge_weight = knn_graph(x, 15)
        return {"x": x, "edge_index": edge_index, "edge_weight": edge_weight}

    def track_epoch(self, data: dict[str, Tensor]) -> float:
        """Diffusion of 384 columns, forward and backward; baseline: PyG's APPNP(K=10)."""
        layer, peer = AnisotropicDiffusion(edge_dim=0, t=5.0), APPNP(10, 0.1)
        edges = data["edge_index"], data["edge_weight"]
        ours = backward(lambda x: layer(x, *edges), data["x"])
        return ratio(ours, backward(lambda x: peer(x, *edges), data["x"]), 5)

    def track_expm_multiply(self, data: dict[str, Tensor]) -> float:
        """Diffusion of 64 columns, forward; baseline: SciPy's expm_multiply."""
        x, size = data["x"][:, :64].contiguous(), len(data["x"])
        edge_index, weight = get_laplacian(data["edge_index"], data["edge_weight"], "sym")
        minus_l = to_scipy_sparse_matrix(edge_index, -5.0 * weight, size).tocsr()
        edges = data["edge_index"], data["edge_weight"]
        trace = float(minus_l.trace())
        return ratio(
            lambda: heat_diffusion(x, *edges, t=5.0),
            lambda: expm_multiply(minus_l, x.numpy(), traceA=trace),
            3,
        )

    def track_neighbours(self, data: dict[str, Tensor]) -> float:
        """The weighted graph of 15 neighbours; baseline: scikit-learn's search alone."""
        x = data["x"].numpy()
        faiss.omp_set_num_threads(1)
        return ratio(
            lambda: knn_graph(data["x"], 15),
            lambda: kneighbors_graph(x, 15, metric="cosine"),
            3,
        )


def track_small_graph() -> float:
    """A ring of 30 nodes, 32 channels, forward and backward; baseline: PyG's ChebConv(K=5)."""
    torch.set_num_threads(1)
    node = torch.arange(30)
    edges = to_undirected(torch.stack([node, (node + 1) % 30]))
    layer, peer, x = AnisotropicDiffusion(edge_dim=0), ChebConv(32, 32, 5), torch.randn(30, 32)
    return ratio(backward(lambda x: layer(x, edges), x), backward(lambda x: peer(x, edges), x), 300)


def track_million_nodes() -> float:
    """A grid of a million nodes, 16 columns, forward; baseline: the recurrence by torch's CSR."""
    edges, _ = grid(1000, 1000)
    edges = edges[:, edges[0] != edges[1]]
    x = torch.randn(1_000_000, 16)
    index, weight = get_laplacian(edges, None, normalization="sym")
    keep = index[0] != index[1]
    s = torch.sparse_coo_tensor(index[:, keep], -weight[keep]).coalesce().to_sparse_csr()

    def recurrence() -> Tensor:
        before, term = x, s @ x
        out = before + term
        for _ in range(9):
            before, term = term, 2 * (s @ term) - before
            out += term
        return out

    return ratio(lambda: heat_diffusion(x, edges, t=2.0, degree=10), recurrence, 3)


def track_curvature() -> float:
    """Augmented Forman curvature, 1,000 points; baseline: GraphRicciCurvature."""
    from GraphRicciCurvature.FormanRicci import FormanRicci
    from torch_geometric.data import Data
    from torch_geometric.utils import to_networkx

    edge_index, _ = knn_graph(points(1000, 16), 10)
    graph = to_networkx(Data(edge_index=edge_index, num_nodes=1000), to_undirected=True)
    return ratio(
        lambda: forman_curvature(edge_index),
        lambda: FormanRicci(graph.copy(), verbose="ERROR").compute_ricci_curvature(),
        3,
    )


def track_alignment() -> float:
    """2,000 points and 2,500; baseline: one iteration of POT's conditional gradients."""
    draw = torch.Generator().manual_seed(0)
    scale = torch.tensor([3.0, 2.0, 1.0])
    x = torch.randn(2000, 3, generator=draw) * scale
    y = (torch.randn(2500, 3, generator=draw) * scale)[:, [2, 0, 1]]
    c, d = (torch.cdist(z, z).square().double().numpy() for z in (x, y))
    p, q = np.full(2000, 1 / 2000), np.full(2500, 1 / 2500)
    return ratio(
        lambda: gromov_wasserstein(x, y),
        lambda: ot.gromov.gromov_wasserstein(c, d, p, q, max_iter=1),
        1,
    )


def track_matching() -> float:
    """A random graph of 300 nodes, a tenth of its edges changed; baseline: SciPy's FAQ."""
    draw = np.random.default_rng(0)
    a = np.triu(draw.random((300, 300)) < 0.03, 1)
    b = a & (draw.random(a.shape) > 0.1)
    b = b | np.triu(draw.random(a.shape) < 0.003, 1)
    a, b = (each | each.T for each in (a, b))
    order = draw.permutation(300)
    b = b[np.ix_(order, order)]
    first, second = (torch.from_numpy(np.stack(np.nonzero(each))) for each in (a, b))
    return ratio(
        lambda: match_graphs(first, second),
        lambda: quadratic_assignment(a.astype(float), b.astype(float), "faq", {"maximize": True}),
        3,
    )


def track_hypergraph() -> float:
    """4,096 signals on 8 nodes, forward and backward; baseline: one HypergraphConv, replicated."""
    node, edge = [0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 0], [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    members = torch.tensor([node, edge])
    tokens, shift = 4096, torch.tensor([[8], [4]])
    replicated = torch.cat([members + shift * i for i in range(tokens)], dim=1)
    layer, peer = HypergraphDiffusion(), HypergraphConv(64, 64)
    x = torch.randn(tokens, 8, 64)
    return ratio(
        backward(lambda x: layer(x, members), x),
        backward(lambda x: peer(x.flatten(0, 1), replicated), x),
        5,
    )


def track_clusters() -> float:
    """Clusters of the 1,797 digits, their number given; baseline: SpectralClustering."""
    x = load_digits().data
    peer = SpectralClustering(10, affinity="nearest_neighbors", random_state=0)
    return ratio(lambda: DiffusionClusterer(10, random_state=0).fit(x), lambda: peer.fit(x), 1)


# airspeed velocity reads the unit of a figure from the function.
for _figure in (
    track_small_graph,
    track_million_nodes,
    track_curvature,
    track_alignment,
    track_matching,
    track_hypergraph,
    track_clusters,
):
    _figure.unit, _figure.timeout = Central.unit, Central.timeout
