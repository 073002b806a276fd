r"""The symmetric operator S of a weighted hypergraph, with its spectrum in [0, 1].

.. math::
    \mathbf{S} = \mathbf{D}_v^{-1/2} \mathbf{H} \mathbf{W} \mathbf{D}_e^{-1} \mathbf{H}^{\top}
    \mathbf{D}_v^{-1/2}, \qquad \mathbf{L} = \mathbf{I} - \mathbf{S}

(Zhou, Huang and Schölkopf 2006, "Learning with hypergraphs", section 4), with the incidence matrix
H [N, E], the weights W of the hyperedges, and the degrees
:math:`d_v(i) = \sum_e h_{ie} w_e` and :math:`d_e(e) = \sum_i h_{ie}`. S is positive semi-definite,
since it is A A^T: so the Chebyshev series works on :math:`\mathbf{S}^{\prime} = 2 \mathbf{S} -
\mathbf{I}`, whose spectrum fills [-1, 1], and :math:`\mathbf{I} - \mathbf{S} = (\mathbf{I} -
\mathbf{S}^{\prime}) / 2` needs only the terms of half the time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .._checks import check_choice, check_instance, numbers_of
from ..graph import HypergraphStructure
from ..kernels.table import CHEBYSHEV
from .factored import factored_operator
from .heat_operator import HeatOperator, Scaling

# What rows are scaled by before the symmetric operator, and divided by after it, from the degrees.
HYPERGRAPH_NORMALIZATIONS: dict[str, Callable[[Tensor], Tensor | None]] = {
    "sym": lambda degree: None,
    "rw": torch.sqrt,
}


@dataclass(frozen=True)
class HypergraphOperator:
    """The operator as its factors: S = D_v^(-1/2) H diag(share) H^T D_v^(-1/2)."""

    structure: HypergraphStructure  #: the prepared hypergraph
    share: Tensor  #: [E] w_e / d_e, what a hyperedge gives each member; 0 if it is empty
    inverse_root: Tensor  #: [N] d_v^(-1/2); 1 on isolated nodes
    isolated: Tensor  #: [N] bool, nodes of no weight, which keep their features
    row_scale: Tensor | None = None  #: [N] d_v^(1/2) for the random walk; None: symmetric

    def matmul(self, x: Tensor) -> Tensor:
        r"""Apply S: [..., N, D] -> the weighted means over hyperedges, then over nodes.

        With the random walk this is :math:`\mathbf{D}_v^{-1} \mathbf{H} \mathbf{W}
        \mathbf{D}_e^{-1} \mathbf{H}^{\top} \mathbf{X}`: PyG's `HypergraphConv` without its linear
        map, where all weights are one. An isolated node keeps its features.

        Plain torch and the definition of the operator: it makes a [..., M', D] tensor of messages.
        """
        structure, root = self.structure, self.inverse_root.unsqueeze(-1)
        count = structure.multiplicity.to(x.dtype).unsqueeze(-1)
        scaled = root * x if self.row_scale is None else x
        sums = x.new_zeros((*x.shape[:-2], structure.num_hyperedges, x.size(-1))).index_add(
            -2, structure.hyperedge, count * scaled.index_select(-2, structure.node)
        )
        means = count * (self.share.unsqueeze(-1) * sums).index_select(-2, structure.hyperedge)
        out = torch.zeros_like(x).index_add(-2, structure.node, means)
        out = root * out if self.row_scale is None else root.square() * out
        return torch.where(self.isolated.unsqueeze(-1), x, out)

    @property
    def scaling(self) -> Scaling:
        """Make L = I - S = (I - S') / 2, on nodes that have a weight."""
        scale, condition = self.row_scale, 1.0
        if scale is not None and scale.numel():
            low, high = float(numbers_of(scale).min()), float(numbers_of(scale).max())
            scale, condition = scale / high, high / low
        return Scaling(0.5, scale, self.isolated, condition)

    def to(self, dtype: torch.dtype) -> "HypergraphOperator":
        """Return the same in another type."""
        row_scale = None if self.row_scale is None else self.row_scale.to(dtype)
        share, inverse_root = self.share.to(dtype), self.inverse_root.to(dtype)
        return replace(self, share=share, inverse_root=inverse_root, row_scale=row_scale)

    def sparse(self, backend: str = "auto") -> HeatOperator:
        """Make S' = 2 S - I as a sparse matrix: an entry for any two nodes of a hyperedge."""
        hyperedge, slot, product, csr, diagonal = self.structure.pairs
        root = self.inverse_root
        weight = self.share.index_select(0, hyperedge) * product.to(self.share.dtype)
        sums = weight.new_zeros(csr.num_slots).index_add(0, slot, weight)
        values = 2 * (sums * root.index_select(0, csr.row)) * root.index_select(0, csr.col)
        values = values.index_add(0, diagonal, sums.new_ones(diagonal.numel()), alpha=-1)
        kernel = CHEBYSHEV.find(backend, self.share.device)
        return HeatOperator(kernel.SparseOperator(csr, values), self.scaling, values.dtype)

    def factored(self, backend: str = "auto") -> HeatOperator:
        """Make S' = 2 S - I by its factors, without pairs of nodes; see `factored.py`."""
        factors = (self.structure.incidence, self.inverse_root, self.share)
        matrix = factored_operator(*factors, -1, 2, backend)
        return HeatOperator(matrix, self.scaling, self.share.dtype)


def hypergraph_operator(
    structure: HypergraphStructure,
    hyperedge_weight: Tensor | None = None,
    normalization: str = "sym",
    dtype: torch.dtype | None = None,
) -> HypergraphOperator:
    """Compute the operator of a weighted hypergraph; differentiable in the weights.

    Weights act twice: in the degree of the nodes, and in what a hyperedge hands on. (PyG's
    `HypergraphConv` lets them into the degree only.) A common factor of all weights cancels.

    Args:
        structure: the prepared hypergraph.
        hyperedge_weight: [E] non-negative; None: ones.
        normalization: "sym" for the symmetric operator of Zhou et al. 2006, "rw" for the random
            walk D_v^(-1) H W D_e^(-1) H^T, which is similar to it.
        dtype: what signals are computed in; None: the type of the weights.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if `normalization` is none of these, or there is not a weight for each
            hyperedge. Values are not looked at.
    """
    check_instance("structure", structure, HypergraphStructure, "a HypergraphStructure")
    if dtype is not None:
        check_instance("dtype", dtype, torch.dtype, "a torch.dtype or None")
    if hyperedge_weight is None:
        ones = (structure.num_hyperedges,)
        hyperedge_weight = torch.ones(ones, dtype=dtype, device=structure.device)
    structure.check_weight_shape(hyperedge_weight)
    check_choice("normalization", normalization, HYPERGRAPH_NORMALIZATIONS)
    hyperedge_weight = hyperedge_weight / _unit(hyperedge_weight.detach())
    count = structure.multiplicity.to(hyperedge_weight.dtype)
    weight = count * hyperedge_weight.index_select(0, structure.hyperedge)
    degree = weight.new_zeros(structure.num_nodes).index_add(0, structure.node, weight)
    isolated = degree == 0
    safe_degree = torch.where(isolated, 1, degree)
    size = structure.size.clamp(min=1).to(hyperedge_weight.dtype)
    operator = HypergraphOperator(
        structure=structure,
        share=hyperedge_weight / size,
        inverse_root=1 / safe_degree.sqrt(),
        isolated=isolated,
        row_scale=HYPERGRAPH_NORMALIZATIONS[normalization](safe_degree),
    )
    return operator if dtype is None else operator.to(dtype)


def _unit(weight: Tensor) -> Tensor:
    """Return a number around which the positive weights lie: a common factor cancels."""
    if weight.numel() == 0:
        return weight.new_ones(())
    least = torch.where(weight > 0, weight, torch.inf).min()
    return torch.where(least.isfinite(), least.sqrt() * weight.max().sqrt(), 1)
