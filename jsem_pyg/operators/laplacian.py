r"""The symmetric operator S of a weighted graph, with its spectrum in [-1, 1].

.. math::
    \mathbf{L} = \mathrm{diag}(r) (\mathbf{I} - \mathbf{S})

where the rate r is one for the normalised Laplacians, and half a bound of the spectrum of a node's
connected component otherwise. This is the only file that takes the inverse root of a degree.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from .._checks import check_choice
from ..kernels.csr import CSR
from .structure import GraphStructure

NORMALIZATIONS = ("sym", "rw", None)


@dataclass(frozen=True)
class HeatOperator:
    """What diffusion needs to know of a graph: S as CSR, and how S relates to the Laplacian L.

    exp(-tL) = P^(-1) exp(-t r (I - S)) P, with the identity on the fixed nodes.
    """

    csr: CSR  # the pattern of S, structurally symmetric
    values: Tensor  # [nnz] the entries of S, symmetric
    edge_values: Tensor  # [E] the off-diagonal entries, in the order of the input's edges
    diagonal: Tensor | None  # [N] the diagonal of S, where it has one
    rate: Tensor | None = None  # [G] the rate r of each group of nodes; None: one everywhere
    group: Tensor | None = None  # [N] the group of each node; None: a single group
    similarity: Tensor | None = None  # [N] the diagonal of P; None: the identity
    fixed: Tensor | None = None  # [N] bool, nodes that keep their features; None: no node does

    def condition(self) -> Tensor | None:
        """The condition number of P: how much the similarity can magnify an error; None: one."""
        if self.similarity is None or self.similarity.numel() == 0:
            return None
        return (self.similarity.max() / self.similarity.min()).detach()


def laplacian_operator(
    structure: GraphStructure, edge_weight: Tensor, normalization: str | None = "sym"
) -> HeatOperator:
    """Compute the operator of a weighted graph; differentiable in the weights.

    An edge is undirected, so the operator acts with the mean of w_ij and w_ji, and both get the
    same gradient: weights that are learned one by one stay symmetric.

    Args:
        structure: the prepared graph.
        edge_weight: [E] non-negative weights, in the order of the structure's edges.
        normalization: "sym" for I - D^(-1/2) W D^(-1/2), "rw" for I - D^(-1) W (Chung 1997,
            sections 1.2 and 1.5), None for D - W.

    Raises:
        ValueError: if `normalization` is none of these.
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    slots = structure.to_slots(edge_weight)
    weight = 0.5 * (slots + slots.index_select(0, structure.reverse))
    degree = weight.new_zeros(structure.num_nodes).index_add(0, structure.row, weight)
    if normalization is None:
        return _combinatorial(structure, weight, degree)
    return _normalized(structure, weight, degree, random_walk=normalization == "rw")


def _normalized(
    structure: GraphStructure, weight: Tensor, degree: Tensor, random_walk: bool
) -> HeatOperator:
    fixed = degree == 0
    # One in place of a zero degree keeps every derivative finite; the row of S is zero anyway.
    safe_degree = torch.where(fixed, torch.ones_like(degree), degree)
    inverse_root = safe_degree.rsqrt()
    # Multiplied in this order, S is symmetric to the last bit.
    values = weight * (inverse_root[structure.row] * inverse_root[structure.col])
    return HeatOperator(
        csr=structure.csr,
        values=values,
        edge_values=structure.to_edges(values),
        diagonal=None,
        similarity=safe_degree.sqrt() if random_walk else None,
        # A GPU would have to wait for the answer to whether there are any.
        fixed=None if fixed.device.type == "cpu" and not bool(fixed.any()) else fixed,
    )


def _combinatorial(structure: GraphStructure, weight: Tensor, degree: Tensor) -> HeatOperator:
    r"""S = I - (2 / bound) (D - W), with a bound of its own for every connected component.

    The largest eigenvalue of D - W is at most the maximum of d_i + d_j over the edges (Anderson and
    Morley 1985; with weights: D - W shares it with the edge matrix :math:`B^T B \, diag(w)`, whose
    rows have the absolute sums d_i + d_j). A component of its own means that a graph in a batch
    diffuses exactly as it does alone. exp(-tL) does not depend on the bound, nor does its gradient.
    """
    row, col, component = structure.row, structure.col, structure.component
    with torch.no_grad():
        bound = degree.new_zeros(structure.num_components).scatter_reduce(
            0, component[row], degree[row] + degree[col], "amax"
        )
        # A component without weight does not diffuse: S = I at the rate zero.
        scale = torch.where(bound > 0, 2 / bound, torch.zeros_like(bound))[component]
    off_diagonal = scale[row] * weight
    diagonal = 1 - scale * degree
    csr, order = structure.csr_with_diagonal
    return HeatOperator(
        csr=csr,
        values=torch.cat([off_diagonal, diagonal]).index_select(0, order),
        edge_values=structure.to_edges(off_diagonal),
        diagonal=diagonal,
        rate=bound / 2,
        group=component,
    )
