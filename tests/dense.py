"""The dense answer for graphs, written down as the formulas say: what tests compare with."""

import torch


def dense_laplacian(edge_index, edge_weight, num_nodes, normalization="sym"):
    """L [N, N], with zero rows for isolated nodes; repeated edges are added up."""
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), dtype=torch.float64)
    zeros = edge_weight.new_zeros(num_nodes, num_nodes)
    adjacency = zeros.index_put((edge_index[1], edge_index[0]), edge_weight, accumulate=True)
    adjacency = (adjacency + adjacency.T) / 2
    degree = adjacency.sum(1)
    if normalization is None:
        return degree.diag() - adjacency
    has_edges = (degree > 0).to(degree).diag()
    safe = torch.where(degree > 0, degree, 1)
    if normalization == "rw":
        return has_edges - adjacency / safe[:, None]
    root = 1 / safe.sqrt()
    return has_edges - root[:, None] * adjacency * root


def exact_heat_diffusion(x, edge_index, edge_weight=None, t=1.0, normalization="sym"):
    """exp(-tL) x for x [..., N, D] and a single time, in float64; in the type of x."""
    weight = None if edge_weight is None else edge_weight.double()
    laplacian = dense_laplacian(edge_index, weight, x.size(-2), normalization)
    return (torch.matrix_exp(-t * laplacian) @ x.double()).to(x.dtype)
