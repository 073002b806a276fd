"""The symmetric operator S of a weighted hypergraph, with its spectrum in [0, 1].

S = D_v^(-1/2) H W D_e^(-1) H^T D_v^(-1/2) of the incidence matrix H [N, E] and the weights W of the
hyperedges (Zhou, Huang and Schölkopf 2006, "Learning with hypergraphs", section 4). The Chebyshev
series works on 2 S - I, and needs the terms of half the time: docs/mathematics.md, "Hypergraphs".
"""

import torch
from torch import Tensor

from .._checks import numbers_of
from ..graph import HypergraphStructure
from ..kernels.chebyshev import Operator
from .factored import FactoredOperator
from .laplacian import HeatOperator


def hypergraph_operator(
    structure: HypergraphStructure,
    hyperedge_weight: Tensor | None = None,
    normalization: str = "sym",
    backend: str = "auto",
    dtype: torch.dtype | None = None,
    dense: bool = False,
) -> HeatOperator:
    """Compute the operator of a weighted hypergraph; differentiable in the weights.

    Weights act twice: in the degree of the nodes, and in what a hyperedge hands on. (PyG's
    `HypergraphConv` lets them into the degree only.) A common factor of all weights cancels.

    Weights [E] are ones if omitted; "rw" is the random walk D_v^(-1) H W D_e^(-1) H^T, which is
    similar to "sym". A dense operator multiplies by a table [N, N]; else by H and its transpose.
    """
    if hyperedge_weight is None:
        ones = (structure.num_hyperedges,)
        hyperedge_weight = torch.ones(ones, dtype=dtype, device=structure.device)
    hyperedge_weight = hyperedge_weight / _unit(hyperedge_weight.detach())
    dtype = dtype or hyperedge_weight.dtype
    count = structure.multiplicity.to(hyperedge_weight.dtype)
    weight = count * hyperedge_weight.index_select(0, structure.hyperedge)
    degree = weight.new_zeros(structure.num_nodes).index_add(0, structure.node, weight)
    isolated = degree == 0
    root = torch.where(isolated, 1, degree).sqrt()
    inverse_root = (1 / root).to(dtype)
    size = structure.size.clamp(min=1).to(hyperedge_weight.dtype)
    share = (hyperedge_weight / size).to(dtype)  # what a hyperedge gives each member
    row_scale, condition = None, 1.0
    if normalization == "rw" and structure.num_nodes:
        low, high = float(numbers_of(root).min()), float(numbers_of(root).max())
        row_scale, condition = (root / high).to(dtype), high / low
    matrix: Operator
    if dense:
        matrix = _DenseOperator(structure, inverse_root, share)
    else:
        matrix = FactoredOperator(structure.incidence, inverse_root, share, -1, 2, backend)
    return HeatOperator(matrix, 0.5, row_scale, isolated, condition, dtype)


class _DenseOperator(Operator):
    """The table [N, N] of 2 S - I."""

    def __init__(self, structure: HypergraphStructure, inverse_root: Tensor, share: Tensor) -> None:
        self.num_nodes = size = structure.num_nodes
        hyperedge, place, product = structure.pairs
        weight = share.index_select(0, hyperedge) * product.to(share.dtype)
        sums = weight.new_zeros(size * size).index_add(0, place, weight).view(size, size)
        both = inverse_root.unsqueeze(1) * inverse_root
        self.matrix = 2 * sums * both - torch.eye(size, dtype=share.dtype, device=share.device)

    def apply(self, x: Tensor) -> Tensor:
        return self.matrix @ x


def _unit(weight: Tensor) -> Tensor:
    """Return a number around which the positive weights lie: a common factor cancels."""
    if weight.numel() == 0:
        return weight.new_ones(())
    least = torch.where(weight > 0, weight, torch.inf).min()
    return torch.where(least.isfinite(), least.sqrt() * weight.max().sqrt(), 1)
