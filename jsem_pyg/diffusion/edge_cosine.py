"""Measure how alike the ends of an edge are after a short isotropic diffusion."""

import torch
from torch import Tensor

from .._checks import check_finite, check_float
from .._precision import unit_rows
from ..graph import GraphStructure
from ..kernels.edge_dot import edge_dot
from ..kernels.torch_func import eager
from .functional import heat_diffusion
from .times import check_single_time


@eager
def diffusion_cosine(
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    t: float | Tensor = 3.0,
    normalization: str | None = "sym",
    backend: str = "auto",
) -> Tensor:
    r"""Compute the cosine between the diffused features of every edge's ends.

    .. math::
        c_{ij} = \frac{\langle \mathbf{y}_i, \mathbf{y}_j \rangle}
        {||\mathbf{y}_i|| \, ||\mathbf{y}_j||}, \qquad \mathbf{Y} = e^{-t \mathbf{L}} \mathbf{X}

    The diffusion averages the noise of single points away, so that the cosine compares
    neighbourhoods: 1 - c is a diffusion distance. Differentiable in `x`, `edge_weight` and `t`.

    Args:
        x: [N, D] features.
        edge_index: [2, E] integer tensor, both directions of every edge, no self-loops.
        edge_weight: [E] non-negative weights, the same in both directions; None means ones.
        t: the diffusion time >= 0, a number or 0-d tensor; at zero, it is the cosine of `x` itself.
        normalization: "sym", "rw" or None, see :func:`~jsem_pyg.diffusion.heat_diffusion`.
        backend: as in :func:`~jsem_pyg.diffusion.heat_diffusion`.

    Returns:
        [E] numbers in [-1, 1], the same in both directions, of the type of `x`.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if :func:`~jsem_pyg.diffusion.heat_diffusion` refuses the graph or the
            features, or if an end of an edge has no direction after the diffusion: a zero vector.

    Source: for distances between diffused points, Coifman and Lafon, "Diffusion maps", Applied and
    Computational Harmonic Analysis 21, 2006, equation 2.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        >>> diffusion_cosine(x, edge_index, t=0.0)
        tensor([0.7071, 0.7071, 0.7071, 0.7071])
        >>> diffusion_cosine(x, edge_index, t=3.0) > 0.99
        tensor([True, True, True, True])
    """
    _check_inputs(x, t)
    structure = GraphStructure(edge_index, x.size(0))
    y = heat_diffusion(x, structure, edge_weight, t, normalization=normalization, backend=backend)
    direction = _directions(y, structure)
    # One direction of every edge, which then serves both.
    slot = (structure.row < structure.col).nonzero()[:, 0]
    cosine = edge_dot(direction, direction, structure.row[slot], structure.col[slot])
    slots = cosine.new_zeros(structure.num_slots).index_copy(0, slot, cosine)
    slots = slots.index_copy(0, structure.reverse[slot].long(), cosine)
    return structure.to_edges(slots).clamp(-1, 1).to(x.dtype)


def _check_inputs(x: Tensor, t: float | Tensor) -> None:
    check_float("x", x)
    if x.dim() != 2:
        raise ValueError(f"Expected 'x' to have shape [N, D] (got {list(x.shape)}).")
    check_finite("x", x)
    check_single_time(t)


def _directions(y: Tensor, structure: GraphStructure) -> Tensor:
    """Bring the rows of y to unit length; float32 or wider."""
    y = y if y.dtype == torch.float64 else y.float()
    zeros = (y == 0).all(1) & (structure.rowptr.diff() > 0)
    if bool(zeros.any()):
        raise ValueError(
            "Expected the diffused 'x' without zero vectors, which have no direction (got "
            f"{int(zeros.sum())} of {y.size(0)} rows at the ends of edges). To fix this, drop the "
            "points whose features, and whose neighbours' features, are all zero."
        )
    return unit_rows(y)
