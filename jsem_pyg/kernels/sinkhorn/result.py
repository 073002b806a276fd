"""Result of a pass, and the normalisation of its rows, shared by all backends."""

from typing import NamedTuple

import torch
from torch import Tensor

# Bits. A score below this has no mass: minus infinity as a number that arithmetic can bear.
EMPTY = -(2.0**100)

# Coordinates are held within this, so that no product of finite vectors leaves the range.
LARGEST = 2.0**40


class SinkhornPass(NamedTuple):
    """The sums over a plan T that a step of a solver needs; T itself is not stored."""

    f: Tensor  # [N] row potentials in bits, -inf for rows without mass
    column_mass: Tensor  # [K] float64, sum_i T_ij
    average: Tensor  # [N, C] T y: weighted by mass, not normalised; in the type of u
    peak: Tensor  # [N] the largest share of each row's mass; 0 in rows without mass


def check_problem(u: Tensor, v: Tensor, g: Tensor, log2_p: Tensor, y: Tensor) -> None:
    """Raise a ValueError unless these tensors belong together: compiled code would not notice."""
    n, k, c = u.shape[:1], v.shape[:1], y.shape[1:]
    fits = u.dim() == v.dim() == y.dim() == 2 and u.shape[1:] == v.shape[1:]
    if not fits or (g.shape, log2_p.shape, y.shape) != (k, n, (*k, *c)):
        raise ValueError(
            "Expected 'u' [N, R], 'v' [K, R], 'g' [K], 'log2_p' [N] and 'y' [K, C] (got "
            f"{list(u.shape)}, {list(v.shape)}, {list(g.shape)}, {list(log2_p.shape)} and "
            f"{list(y.shape)})."
        )
    kinds = {(each.dtype, each.device) for each in (u, v, g, log2_p, y)}
    if len(kinds) > 1 or u.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            "Expected float32 or float64 tensors of one type and on one device (got "
            f"{', '.join(sorted(f'{dtype} on {device}' for dtype, device in kinds))})."
        )


def bounded(x: Tensor) -> Tensor:
    """Limit coordinates so that their products stay finite; up to 2^40 they stay the same."""
    return x.clamp(-LARGEST, LARGEST)


def bounded_potential(g: Tensor) -> Tensor:
    """Limit column potentials so that sums with scores are finite or minus infinity."""
    return g.clamp(max=-EMPTY)


class Rows(NamedTuple):
    """Potentials and scales that follow from the sums of rows."""

    f: Tensor  # [N] bits
    scale: Tensor  # [N] T_ij = scale_i 2^(S_ij - top_i)
    peak: Tensor  # [N]


def close_rows(top: Tensor, z: Tensor, log2_p: Tensor) -> Rows:
    """Compute potentials of rows from their sums.

    `top` [N] is the largest score of each row in bits, `z` [N] the sum over j of
    2^(S_ij - top_i), 0 in an empty row; `log2_p` as in `sinkhorn_pass`.
    """
    has_mass = (z > 0) & (log2_p > -torch.inf)
    z = torch.where(has_mass, z, 1)
    f = torch.where(has_mass, log2_p - top - z.log2(), -torch.inf)
    scale = torch.where(has_mass, log2_p.exp2() / z, 0)
    return Rows(f, scale, torch.where(has_mass, 1 / z, 0))
