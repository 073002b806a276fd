r"""The Hodge Laplacian of edges and triangles, as its two parts.

.. math::
    \mathbf{L}_{\mathrm{down}} = \mathbf{W}_1^{1/2} \mathbf{B}_1^{\top} \mathbf{B}_1
    \mathbf{W}_1^{1/2}, \qquad
    \mathbf{L}_{\mathrm{up}} = \mathbf{W}_1^{-1/2} \mathbf{B}_2 \mathbf{W}_2 \mathbf{B}_2^{\top}
    \mathbf{W}_1^{-1/2}

with weights W1 of edges and W2 of triangles (Lim 2020, "Hodge Laplacians on graphs", SIAM Review
62). The product of the parts is zero, so each may diffuse by itself, for a time of its own
(Barbarossa and Sardellitti 2020): docs/mathematics.md, "Flows on edges".
"""

import torch
from torch import Tensor

from .._checks import numbers_of
from ..graph.simplicial_structure import SimplicialStructure
from ..kernels.csr import Incidence
from .factored import FactoredOperator
from .laplacian import HeatOperator


def hodge_operator(
    structure: SimplicialStructure,
    part: str,
    edge_weight: Tensor | None = None,
    triangle_weight: Tensor | None = None,
    backend: str = "auto",
    dtype: torch.dtype | None = None,
) -> HeatOperator:
    """Compute the operator of one part of the Hodge Laplacian; differentiable in the weights.

    The heat of "down" smooths out gradient flows, and keeps those that are free of divergence; that
    of "up" smooths out what runs around triangles, and keeps those that are free of curl.
    """
    given = edge_weight if triangle_weight is None else triangle_weight
    kind = given.dtype if given is not None else dtype or torch.get_default_dtype()
    if edge_weight is None:
        edge_weight = structure.edges.new_ones(structure.num_edges, dtype=kind)
    if triangle_weight is None:
        triangle_weight = structure.edges.new_ones(structure.num_triangles, dtype=kind)
    if part == "down":
        b, b_t = reversed(structure.edge_boundary)
        root, share = edge_weight.sqrt(), edge_weight.new_ones(structure.num_nodes)
    else:
        b, b_t = structure.triangle_boundary
        root, share = 1 / edge_weight.sqrt(), triangle_weight
    unit = float(numbers_of(root).max()) if root.numel() else 1.0
    root, share = root / unit, share * unit * unit
    rate = _rate(b, root, share)
    dtype = root.dtype if dtype is None else dtype
    factors = root.to(dtype), (share / rate).to(dtype)
    matrix = FactoredOperator((b, b_t), *factors, 1, -1, backend)
    return HeatOperator(matrix, rate, dtype=dtype)


@torch.no_grad()
def _rate(b: Incidence, root: Tensor, share: Tensor) -> float:
    r"""Compute half an upper bound of the spectrum; exp(-tL) does not depend on it.

    :math:`\mathbf{D B M B}^{\top} \mathbf{D}` shares its eigenvalues, except zeros, with
    :math:`\mathbf{B M B}^{\top} \mathbf{D}^2` and
    :math:`\mathbf{B}^{\top} \mathbf{D}^2 \mathbf{B M}`, and none is above the largest absolute row
    sum of either. Without weights the former is the bound d_i + d_j of Anderson and Morley 1985 for
    edges; for triangles the latter is at most three times the number of triangles at an edge.
    """
    row, col, squared = b.csr.row, b.csr.col, root.square()

    def to_cells(edges: Tensor) -> Tensor:
        return share.new_zeros(b.num_cols).index_add(0, col, edges.index_select(0, row))

    def to_edges(cells: Tensor) -> Tensor:
        return squared.new_zeros(b.csr.num_rows).index_add(0, row, cells.index_select(0, col))

    of_edges, of_cells = to_edges(share * to_cells(squared)), to_cells(squared * to_edges(share))
    if of_edges.numel() == 0 or of_cells.numel() == 0:
        return 1.0
    bound = min(float(numbers_of(of_edges.max())), float(numbers_of(of_cells.max())))
    return bound / 2 or 1.0  # where nothing flows, any rate will do
