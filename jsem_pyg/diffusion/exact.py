"""Compute the dense matrix exponential, for tests and small graphs. O(N^3) time."""

from collections.abc import Callable

import torch
from torch import Tensor

from .._checks import check_choice, check_edge_index, check_edge_weight, check_finite, numbers_of
from ..graph import GraphStructure
from .times import check_reach, check_signal, check_single_time, read_times


def dense_laplacian(
    edge_index: Tensor,
    edge_weight: Tensor | None,
    num_nodes: int,
    normalization: str | None = "sym",
) -> Tensor:
    """Return the Laplacian [N, N] of a graph, with zero rows for isolated nodes; differentiable.

    Args:
        edge_index: [2, E], both directions of every edge.
        edge_weight: [E] non-negative, or None for ones.
        num_nodes: N.
        normalization: "sym", "rw" or None, as in :func:`~jsem_pyg.diffusion.heat_diffusion`.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if :func:`~jsem_pyg.diffusion.heat_diffusion` refuses the graph or its weights.
    """
    check_edge_index(edge_index, num_nodes)
    check_choice("normalization", normalization, _LAPLACIANS)
    structure = GraphStructure(edge_index, num_nodes)  # which refuses edges without their reverse
    if edge_weight is None:
        edge_weight = torch.ones(edge_index.size(1), device=edge_index.device)
    structure.check_weight(edge_weight)
    zeros = edge_weight.new_zeros(num_nodes, num_nodes)
    adjacency = zeros.index_put((edge_index[1], edge_index[0]), edge_weight, accumulate=True)
    adjacency = (adjacency + adjacency.t()) / 2
    return _LAPLACIANS[normalization](adjacency, adjacency.sum(1))


def _combinatorial(adjacency: Tensor, degree: Tensor) -> Tensor:
    return degree.diag() - adjacency


def _symmetric(adjacency: Tensor, degree: Tensor) -> Tensor:
    inverse_root = 1 / torch.where(degree > 0, degree, 1).sqrt()
    return _is_connected(degree).diag() - inverse_root.unsqueeze(1) * adjacency * inverse_root


def _random_walk(adjacency: Tensor, degree: Tensor) -> Tensor:
    safe_degree = torch.where(degree > 0, degree, 1)
    return _is_connected(degree).diag() - adjacency / safe_degree.unsqueeze(1)


def _is_connected(degree: Tensor) -> Tensor:
    return (degree > 0).to(degree.dtype)


_LAPLACIANS: dict[str | None, Callable[[Tensor, Tensor], Tensor]] = {
    "sym": _symmetric,
    "rw": _random_walk,
    None: _combinatorial,
}


def exact_heat_diffusion(
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    t: float | Tensor = 1.0,
    normalization: str | None = "sym",
) -> Tensor:
    """Compute exp(-tL) x by `torch.matrix_exp` in float64, for a single time t.

    Args:
        x: [..., N, D].
        edge_index: [2, E], both directions of every edge.
        edge_weight: [E] non-negative, or None for ones.
        t: a number or 0-d tensor, at most 1e4 over the largest degree (over one, if normalised).
        normalization: "sym", "rw" or None.

    Returns:
        A tensor like `x`.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if :func:`~jsem_pyg.diffusion.heat_diffusion` refuses the graph, its weights or
            `x`, or if `t` is too long.

    Example:
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> exact_heat_diffusion(torch.tensor([[1.0], [0.0]]), edge_index, t=100.0)
        tensor([[0.5000],
                [0.5000]])
    """
    check_signal(x)
    check_single_time(t)
    times = read_times(t, x.size(-1))
    check_finite("x", x)
    check_edge_index(edge_index, x.size(-2))
    if edge_weight is not None:
        check_edge_weight(edge_weight, edge_index.size(1))
    dtype = torch.float32 if x.device.type == "mps" else torch.float64
    ones = x.new_ones(edge_index.size(1), dtype=dtype)
    weight = ones if edge_weight is None else edge_weight.to(dtype)
    laplacian = dense_laplacian(edge_index, weight, x.size(-2), normalization)
    fastest = float(numbers_of(laplacian).diagonal().max()) if x.size(-2) else 0.0
    check_reach(times.reach(fastest), fastest)
    return (torch.matrix_exp(-times.value.to(laplacian) * laplacian) @ x.to(dtype)).to(x.dtype)
