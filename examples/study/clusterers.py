"""What others do with a neighbour graph: UMAP, spectral embedding, communities, k-means."""

import random
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F
from filters import centred, heat
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.cluster import KMeans
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_scipy_sparse_matrix

from jsem_pyg.diffusion.filters import Filter, Heat, PersonalizedPageRank
from jsem_pyg.evaluation import modularity
from jsem_pyg.graph import GraphStructure

TIMES = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0)  # those of self-training


def umap(data: Data, num_classes: int, seed: int, epochs: int | None = None) -> Tensor:
    """UMAP of the features to five dimensions (McInnes et al. 2018); it builds its own graph."""
    from umap import UMAP  # takes seconds: only those who run it wait

    model = UMAP(
        n_components=5,
        n_neighbors=15,
        min_dist=0.0,  # as UMAP's manual advises before clustering
        metric="cosine",
        n_epochs=epochs,
        random_state=seed,
        n_jobs=1,  # all that is reproducible
    )
    threads = torch.get_num_threads()
    embedding = model.fit_transform(data.x.numpy())
    torch.set_num_threads(threads)  # numba raises it to all cores, whatever OMP_NUM_THREADS says
    return torch.from_numpy(embedding)


def heat_umap(data: Data, num_classes: int, seed: int, epochs: int | None = None) -> Tensor:
    """UMAP of the features after isotropic heat: a UMAP that sees the given graph."""
    return umap(Data(x=heat(data, num_classes, seed)), num_classes, seed, epochs)


def heat_by_modularity(data: Data, num_classes: int, seed: int) -> Tensor:
    """k-means of centred features after heat, for the time whose clusters are most modular.

    The rule by which self-training chooses its time: its first step, without the classifier.
    """
    return _of_most_modular_clusters(data, num_classes, seed, [Heat(t) for t in TIMES])


def ppr_by_modularity(data: Data, num_classes: int, seed: int) -> Tensor:
    """The same for personalised PageRank, with walks of the same mean lengths."""
    filters = [PersonalizedPageRank(1 / (1 + t)) for t in TIMES]
    return _of_most_modular_clusters(data, num_classes, seed, filters)


def _of_most_modular_clusters(
    data: Data, num_classes: int, seed: int, filters: list[Filter]
) -> Tensor:
    x, graph = centred(data, num_classes, seed), GraphStructure(data.edge_index, data.num_nodes)
    best, found = -1.0, torch.zeros(0)
    for each in filters:
        with torch.no_grad():
            z = F.normalize(each(x, graph, data.edge_weight)).numpy()
        labels = torch.from_numpy(KMeans(num_classes, n_init=3, random_state=seed).fit_predict(z))
        now = modularity(data.edge_index, data.edge_weight, labels.long())
        if now > best:
            best, found = now, labels.long()
    return found


def spectral(data: Data, num_classes: int, seed: int) -> Tensor:
    """Leading eigenvectors of the normalised adjacency, rows of length one (Ng et al. 2002).

    A graph in many parts is regularised by the mean degree (Qin and Rohe 2013), without which its
    eigenvectors tell these parts only.
    """
    weights = to_scipy_sparse_matrix(data.edge_index, data.edge_weight, data.num_nodes).tocsr()
    degree = np.asarray(weights.sum(1)).ravel().astype(float)
    tau = degree.mean() if connected_components(weights)[0] > 1 else 0.0
    scale = 1 / np.sqrt(degree + tau)

    def multiply(vector: np.ndarray) -> np.ndarray:
        scaled = scale * vector.ravel()
        return scale * (weights @ scaled + tau * scaled.mean())

    size = (data.num_nodes, data.num_nodes)
    start = np.random.default_rng(seed).normal(size=data.num_nodes)
    operator = LinearOperator(size, multiply, dtype=np.float64)
    _, vectors = eigsh(operator, num_classes, which="LA", v0=start)
    return F.normalize(torch.from_numpy(vectors))


def leiden(data: Data, num_classes: int, seed: int) -> Tensor:
    """Leiden communities (Traag et al. 2019), as many of them as there are classes.

    Bisects the logarithm of the resolution of modularity. Communities of less than a tenth of the
    mean class do not count: a graph in many parts has many of those at every resolution.
    """
    graph = _igraph(data)
    smallest = data.num_nodes / num_classes / 10
    low, high, found = -6.0, 6.0, {}
    for _ in range(12):
        middle = (low + high) / 2
        labels = _communities(graph, 2.0**middle, seed)
        count = sum(size >= smallest for size in Counter(labels).values())
        found.setdefault(abs(count - num_classes), labels)
        if count == num_classes:
            break
        low, high = (middle, high) if count < num_classes else (low, middle)
    return torch.tensor(found[min(found)])


def resolution_one(data: Data, seed: int) -> Tensor:
    """Leiden communities of modularity as it stands: as many as it likes."""
    return torch.tensor(_communities(_igraph(data), 1.0, seed))


def _igraph(data: Data):
    import igraph

    once = data.edge_index[0] < data.edge_index[1]
    edges = data.edge_index[:, once].t().tolist()
    weights = {"weight": data.edge_weight[once].tolist()}
    return igraph.Graph(n=data.num_nodes, edges=edges, edge_attrs=weights)


def _communities(graph, resolution: float, seed: int) -> list[int]:
    import igraph

    igraph.set_random_number_generator(random.Random(seed))
    found = graph.community_leiden("modularity", "weight", resolution, n_iterations=-1)
    return found.membership
