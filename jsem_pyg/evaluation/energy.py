"""Dirichlet energy: how much a signal varies along the edges."""

from typing import Literal

import torch
from torch import Tensor

from .._checks import (
    check_bool,
    check_choice,
    check_dense,
    check_edge_index,
    check_finite,
    check_float,
    check_signal_range,
)
from ..graph import GraphStructure
from ..kernels.torch_func import eager


@eager
def dirichlet_energy(
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    normalization: Literal["sym"] | None = "sym",
    *,
    relative: bool = False,
) -> Tensor:
    r"""Compute the Dirichlet energy tr(X^T L X); differentiable in the signal and the weights.

    .. math::
        E(\mathbf{X}) = \tfrac{1}{2} \sum_{(i, j)} w_{ij}
        \left\| \frac{\mathbf{x}_i}{\sqrt{d_i}} - \frac{\mathbf{x}_j}{\sqrt{d_j}} \right\|^2

    over the edges in both directions, so that each counts once, for
    L = I - D^(-1/2) W D^(-1/2); without the roots for L = D - W. An isolated node contributes
    nothing: heat diffusion leaves it as it is, too. Heat diffusion never increases the energy.

    Args:
        x: [..., N, D] signal.
        edge_index: [2, E] node indices, both directions of every edge, no self-loops.
        edge_weight: [E] non-negative symmetric weights; one by default.
        normalization: "sym" for I - D^(-1/2) W D^(-1/2), None for D - W.
        relative: divide by the squared norm of `x` (the Rayleigh quotient, in [0, 2] for "sym");
            a zero signal has the relative energy zero.

    Returns:
        [...] energies, summed in float64; a 0-d tensor for an `x` of shape [N, D].

    Example:
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> dirichlet_energy(torch.tensor([[3.0], [1.0]]), edge_index)
        tensor(4.)
    """
    check_choice("normalization", normalization, ("sym", None))
    check_bool("relative", relative)
    check_float("x", x)
    check_dense("x", x)
    if x.dim() < 2:
        raise ValueError(f"Expected 'x' to have shape [..., N, D] (got {list(x.shape)}).")
    check_signal_range("x", x)
    num_nodes = x.size(-2)
    check_edge_index(edge_index, num_nodes)
    structure = GraphStructure(edge_index, num_nodes)
    if edge_weight is None:
        edge_weight = x.new_ones(edge_index.size(1))
    structure.check_weight(edge_weight)

    row, col = edge_index
    weight = edge_weight.double()
    signal = x.double()
    norm = signal.square().sum((-2, -1))
    if normalization == "sym":
        degree = weight.new_zeros(num_nodes).index_add(0, row, weight)
        signal = signal / torch.where(degree > 0, degree, 1.0).sqrt().unsqueeze(-1)
    difference = signal.index_select(-2, row) - signal.index_select(-2, col)
    energy = 0.5 * (weight * difference.square().sum(dim=-1)).sum(dim=-1)
    if relative:
        energy = energy / torch.where(norm > 0, norm, 1.0)
    energy = energy.to(torch.promote_types(x.dtype, edge_weight.dtype))
    check_finite("the energy of x", energy)
    return energy
