r"""The Hodge Laplacian of edges and triangles, as its two parts.

.. math::
    \mathbf{L}_{\mathrm{down}} = \mathbf{W}_1^{1/2} \mathbf{B}_1^{\top} \mathbf{W}_0^{-1}
    \mathbf{B}_1 \mathbf{W}_1^{1/2}, \qquad
    \mathbf{L}_{\mathrm{up}} = \mathbf{W}_1^{-1/2} \mathbf{B}_2 \mathbf{W}_2 \mathbf{B}_2^{\top}
    \mathbf{W}_1^{-1/2}

with weights W0, W1, W2 of nodes, edges and triangles (Lim 2020, "Hodge Laplacians on graphs", SIAM
Review 62; normalised: Schaub, Benson, Horn, Lippner and Jadbabaie 2020, "Random walks on simplicial
complexes and the normalized Hodge 1-Laplacian", SIAM Review 62). Since B1 B2 = 0, the product of
the parts is zero. So each may diffuse for a time of its own, and each by itself:

.. math::
    e^{-t_1 \mathbf{L}_{\mathrm{down}} - t_2 \mathbf{L}_{\mathrm{up}}} =
    e^{-t_1 \mathbf{L}_{\mathrm{down}}} + e^{-t_2 \mathbf{L}_{\mathrm{up}}} - \mathbf{I}

Two times, one for each part: Barbarossa and Sardellitti 2020, "Topological signal processing over
simplicial complexes", IEEE Transactions on Signal Processing 68.
"""

import torch
from torch import Tensor

from .._checks import check_choice, check_instance, check_vector, numbers_of
from ..graph import SimplicialStructure
from ..kernels.csr import Incidence
from .factored import FACTORED, factored_operator
from .heat_operator import HeatOperator, Scaling

HODGE_NORMALIZATIONS = (None, "sym")


def hodge_operator(
    structure: SimplicialStructure,
    part: str,
    edge_weight: Tensor | None = None,
    triangle_weight: Tensor | None = None,
    normalization: str | None = None,
    backend: str = "auto",
    dtype: torch.dtype | None = None,
) -> HeatOperator:
    r"""Compute a part of the Hodge Laplacian; differentiable in the weights.

    Args:
        structure: the prepared complex.
        part: "down", whose heat smooths out gradient flows, and keeps those that are free of
            divergence; or "up", which smooths out what runs around triangles, and keeps those that
            are free of curl.
        edge_weight: [M] positive, in the order of the structure's edges. None: ones; with a
            normalisation the number of triangles of each edge, or one where there are none.
        triangle_weight: [F] non-negative, in the order of the structure's triangles; None: ones.
        normalization: None for :math:`\mathbf{W}_0 = \mathbf{I}`; "sym" for Schaub's, W0 twice the
            weighted degrees, and W2 a third of the weights of the triangles, which with the edge
            weights above has its spectrum in [0, 1].
        backend: "torch" (in bounded memory), "reference" (any device, twice differentiable) or
            "auto", the first of these that can run.
        dtype: what signals are computed in; None: the type of the weights.
    """
    check_instance("structure", structure, SimplicialStructure, "a SimplicialStructure")
    if edge_weight is not None:
        check_vector("edge_weight", edge_weight, structure.num_edges, "edge of 'structure'")
    if triangle_weight is not None:
        check_vector("triangle_weight", triangle_weight, structure.num_triangles, "triangle")
    if dtype is not None:
        check_instance("dtype", dtype, torch.dtype, "a torch.dtype or None")
    check_choice("part", part, ("down", "up"))
    check_choice("normalization", normalization, HODGE_NORMALIZATIONS)
    FACTORED.check(backend)
    by_degree = normalization == "sym"
    weights = _weights(structure, edge_weight, triangle_weight, by_degree, dtype)
    edge_weight, triangle_weight = weights
    if part == "down":
        b, b_t = reversed(structure.edge_boundary)
        root, share = edge_weight.sqrt(), _node_share(structure, edge_weight, by_degree)
    else:
        b, b_t = structure.triangle_boundary
        root, share = 1 / edge_weight.sqrt(), triangle_weight / (3 if by_degree else 1)
    unit = float(numbers_of(root).max()) if root.numel() else 1.0
    root, share = root / unit, share * unit * unit
    rate = _rate(b, root, share)
    dtype = root.dtype if dtype is None else dtype
    factors = root.to(dtype), (share / rate).to(dtype)
    matrix = factored_operator((b, b_t), *factors, 1, -1, backend)
    return HeatOperator(matrix, Scaling(rate), dtype)


def _weights(
    structure: SimplicialStructure,
    edge_weight: Tensor | None,
    triangle_weight: Tensor | None,
    by_degree: bool,
    dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor]:
    """Return the weights of edges [M] and triangles [F], or defaults if none are given."""
    given = edge_weight if triangle_weight is None else triangle_weight
    dtype = (dtype or torch.get_default_dtype()) if given is None else given.dtype
    if triangle_weight is None:
        triangle_weight = structure.triangles.new_ones(structure.num_triangles, dtype=dtype)
    if edge_weight is None:
        counts = structure.triangle_counts.clamp(min=1)
        edge_weight = (counts if by_degree else torch.ones_like(counts)).to(dtype)
    return edge_weight, triangle_weight


def _node_share(structure: SimplicialStructure, weight: Tensor, by_degree: bool) -> Tensor:
    """Return the inverse [N] of W0; of isolated nodes it does not matter."""
    if not by_degree:
        return weight.new_ones(structure.num_nodes)
    ends = structure.edges.flatten()
    degree = weight.new_zeros(structure.num_nodes).index_add(0, ends, weight.repeat(2))
    inverse_root = 1 / torch.where(degree > 0, degree, 1).sqrt()
    return 0.5 * inverse_root * inverse_root  # whose derivative stays in the range of its type


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
