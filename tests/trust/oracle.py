"""What every diffusion has to give: dense algebra in float64, by eigenvalues.

Not by `torch.matrix_exp`, which is itself wrong by 1e-11 near a norm of 0.015, and whose squarings
amplify rounding at long times.
"""

import math

import torch


class Heat(torch.autograd.Function):
    """exp(-tL) x for a symmetric, positive semi-definite L [N, N], x [N, D] and a 0-d t.

    Its derivative in L is that of Daleckii and Krein 1965, which has no trouble with eigenvalues
    that coincide: V ((V^T G X^T V) * D) V^T with the divided differences D of exp(-t .).
    """

    @staticmethod
    def forward(ctx, laplacian, x, t):
        values, vectors = torch.linalg.eigh(laplacian)
        values = values.clamp(min=0)
        ctx.save_for_backward(values, vectors, x, t)
        return (vectors * torch.exp(-t * values)) @ (vectors.T @ x)

    @staticmethod
    def backward(ctx, grad):
        values, vectors, x, t = ctx.saved_tensors
        kernel = (vectors * torch.exp(-t * values)) @ vectors.T
        low = torch.minimum(values[:, None], values[None, :])
        z = -t * (values[:, None] - values[None, :]).abs()
        slope = torch.where(z == 0, 1.0, torch.expm1(z) / torch.where(z == 0, 1.0, z))
        divided = -t * torch.exp(-t * low) * slope
        of_laplacian = vectors @ ((vectors.T @ grad @ x.T @ vectors) * divided) @ vectors.T
        slowed = (vectors * values * torch.exp(-t * values)) @ (vectors.T @ x)
        of_t = -(grad * slowed).sum()
        return (of_laplacian + of_laplacian.T) / 2, kernel @ grad, of_t


def heat(laplacian, x, t):
    """Diffuse [..., N, D] for t: 0-d, [S] or [S, D] -> [..., N, D], or [..., S, N, D]."""
    batch, (num_nodes, channels) = x.shape[:-2], x.shape[-2:]
    columns = x.movedim(-2, 0).reshape(num_nodes, math.prod(batch) * channels)

    def at(time):
        out = Heat.apply(laplacian, columns, time)
        return out.reshape(num_nodes, *batch, channels).movedim(0, -2)

    if t.dim() == 0:
        return at(t)
    if t.dim() == 1:
        return torch.stack([at(time) for time in t], dim=-3)
    t = t.expand(-1, channels)
    rows = [torch.stack([at(time)[..., c] for c, time in enumerate(row)], -1) for row in t]
    return torch.stack(rows, dim=-3)


def graph_heat(x, edge_index, weight, t, normalization, self_loop=0.0):
    """The heat of a graph, from the definitions in the docstring of `heat_diffusion`."""
    num_nodes = x.size(-2)
    zeros = weight.new_zeros(num_nodes, num_nodes)
    adjacency = zeros.index_put(tuple(edge_index), weight, accumulate=True)
    adjacency = (adjacency + adjacency.T) / 2
    if normalization is None:
        unit = _unit(adjacency)
        adjacency = adjacency / unit
        return heat(adjacency.sum(1).diag() - adjacency, x, t * unit)
    adjacency = adjacency + self_loop * torch.eye(num_nodes, dtype=weight.dtype)
    degree = adjacency.sum(1)
    has_edges = degree > 0
    # Any number for a node without edges; one like the others mixes no eigenvectors by rounding.
    root = torch.where(has_edges, degree, _unit(degree)).sqrt()
    # In this order no product leaves the range.
    s = (adjacency / root[:, None]) / root[None, :]
    laplacian = has_edges.to(s).diag() - s
    if normalization == "sym":
        return heat(laplacian, x, t)
    root = root / _unit(root)
    return heat(laplacian, root[:, None] * x, t) / root[:, None]


def hypergraph_heat(x, hyperedge_index, weight, t, normalization):
    """The heat of a hypergraph, from the definitions in `hypergraph_diffusion`."""
    weight = weight / _unit(weight)
    zeros = weight.new_zeros(x.size(-2), weight.numel())
    ones = weight.new_ones(hyperedge_index.size(1))
    h = zeros.index_put(tuple(hyperedge_index), ones, accumulate=True)
    degree = h @ weight
    has_edges = degree > 0
    root = torch.where(has_edges, degree, 1.0).sqrt()
    share = weight / h.sum(0).clamp(min=1)
    s = (h / root[:, None]) @ share.diag() @ (h / root[:, None]).T
    laplacian = has_edges.to(s).diag() - s
    if normalization == "sym":
        return heat(laplacian, x, t)
    return heat(laplacian, root[:, None] * x, t) / root[:, None]


def _unit(values):
    """About the largest of all, to divide by: a constant."""
    largest = values.detach().abs().max() if values.numel() else values.new_ones(())
    return largest if largest > 0 else torch.ones_like(largest)


def distance(actual, expected, scale):
    """The norm of the difference, in units of `scale`."""
    difference = actual.detach().double() - expected.detach().double()
    return float(difference.norm()) / max(float(scale), 1e-300)
