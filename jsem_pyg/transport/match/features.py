"""Features of the nodes of a graph, by which nodes of two graphs are compared.

Heat profiles look at a column of N numbers for each node. Local profiles take time proportional to
the edges: what is counted at the edges of a node (degree, triangles, overlap of neighbourhoods),
and means of these over neighbours, neighbours of neighbours, and so on: along all edges, and along
edges weighted by overlap: it is small for wrong ones.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor
from torch.nn.functional import normalize

from ...diffusion import heat_kernel_columns
from ..profiles import Comparable, comparable, heat_profiles, overlap_weights

Array = NDArray[Any]

RIDGE = 0.03  # of :func:`.comparable`, for local profiles: small components count more
HOPS = (2, 6)  # of means along all edges, and along overlaps
DEVIATION_HOPS = 2  # hops of which standard deviations count, too
KNOWN_TIMES = (1.0, 4.0)  # of this heat

_LEAST = 1e-3  # added before logarithms


def heat_features(source: csr_array, target: csr_array) -> Comparable:
    """Compute heat profiles of both sides on one scale, float32."""
    return comparable(*(_heat_features(each) for each in (source, target)))


def both_features(first: Comparable, second: Comparable) -> Comparable:
    """Put features side by side; both count as much in the mean distance of two nodes."""
    share = np.sqrt(_mean_distance(second) / max(_mean_distance(first), 1e-30))
    return Comparable(*(torch.cat([a * share, b], 1) for a, b in zip(first, second, strict=True)))


def _mean_distance(features: Comparable) -> float:
    """Average the squared distances of all pairs."""
    squares = sum(float(each.square().sum(1).mean()) for each in features)
    return squares - 2 * float(features.source.mean(0) @ features.target.mean(0))


def _heat_features(matrix: csr_array) -> Tensor:
    """Compute profiles [N, F] on overlaps, good for triangles, and on the edges as they are."""
    size, edge_index = matrix.shape[0], _edge_index(matrix)
    weight = torch.from_numpy((matrix.data / matrix.data.max(initial=1e-300)).astype(np.float32))
    overlap = overlap_weights(edge_index, size).float()
    degree = weight.new_zeros(size).index_add(0, edge_index[0], weight)
    profiles = [heat_profiles(edge_index, size, each) for each in (overlap * weight, weight)]
    return torch.cat([*profiles, torch.log1p(degree)[:, None]], 1)


def known_features(source: csr_array, target: csr_array, known: Array) -> Comparable:
    """Compute how much heat of each known node [M] comes to a node, at two times, of both sides."""
    return Comparable(
        *(_known_features(*each) for each in zip((source, target), known, strict=True))
    )


def _known_features(matrix: csr_array, nodes: Array) -> Tensor:
    """Compute features [N, 2 M] of unit length; roots, so that little heat counts as well."""
    times = torch.tensor(KNOWN_TIMES)
    columns = heat_kernel_columns(
        _edge_index(matrix), torch.from_numpy(nodes.copy()), t=times,
        num_nodes=matrix.shape[0], normalization="rw",
    )  # fmt: skip
    return normalize(torch.cat(list(columns), 1).clamp(min=0).sqrt().float(), dim=1)


def _edge_index(matrix: csr_array) -> Tensor:
    return torch.from_numpy(np.stack(matrix.tocoo().coords).astype(np.int64))


def local_features(source: csr_array, target: csr_array) -> Comparable:
    """Compute local profiles of both sides on one scale, float32."""
    sides = (torch.from_numpy(local_profiles(each)) for each in (source, target))
    return Comparable(*(each.float() for each in comparable(*sides, ridge=RIDGE)))


def local_profiles(matrix: csr_array) -> Array:
    """Compute features [N, 117] float32 of nodes, from weights > 0; see :func:`.comparable`."""
    overlap = overlap_weights(_edge_index(matrix), matrix.shape[0]).double().numpy()
    weight = matrix.data / matrix.data.max(initial=1e-300)
    whole, alike = (
        csr_array((each, matrix.indices, matrix.indptr), matrix.shape)
        for each in (weight, weight * overlap)
    )
    own = _counts(whole, overlap)
    features = [own]
    for each, hops in zip((whole, alike), HOPS, strict=True):
        features += _means(each, own, hops)
    return np.concatenate(features, 1)


def _counts(whole: csr_array, overlap: Array) -> Array:
    """Count over the edges of each node: [N, 9]."""
    row = np.repeat(np.arange(whole.shape[0]), np.diff(whole.indptr))
    links = np.bincount(row, minlength=whole.shape[0])
    # A J of c / (d_i + d_j - c) is that of c common neighbours.
    common = overlap * (links[row] + links[whole.indices]) / (1 + overlap)
    degree = whole.sum(1)
    inverse = 1 / np.maximum(degree, _LEAST)
    triangles = np.bincount(row, common, len(links))
    returning = inverse * (whole.power(2) @ inverse)  # of a walk of two steps
    columns = [
        np.log1p(links),
        np.log1p(degree),
        np.log1p(triangles),
        triangles / np.maximum(links * (links - 1), 1),
        np.log(_LEAST + returning),
        *_spread(row, overlap, links),
        *_spread(row, np.log1p(common), links),
    ]
    return np.stack(columns, 1).astype(np.float32)


def _spread(row: Array, value: Array, links: Array) -> list[Array]:
    """Compute mean and standard deviation of values at the edges of each node."""
    share = 1 / np.maximum(links, 1)
    mean = np.bincount(row, value, len(links)) * share
    square = np.bincount(row, value**2, len(links)) * share
    return [mean, np.sqrt(np.maximum(square - mean**2, 0))]


def _means(weights: csr_array, own: Array, hops: int) -> list[Array]:
    """Compute means over neighbours, and deviations, hop after hop; zero without neighbours."""
    total = np.maximum(weights.sum(1), 1e-300)
    shares = weights.data / np.repeat(total, np.diff(weights.indptr))
    walk = csr_array((shares.astype(np.float32), weights.indices, weights.indptr), weights.shape)
    features, last = [], own
    for hop in range(hops):
        mean = walk @ last
        features.append(mean)
        if hop < DEVIATION_HOPS:
            features.append(np.sqrt(np.maximum(walk @ last**2 - mean**2, 0)))
        last = mean
    return features
