r"""Masses that need not all arrive: what a plan pays for its marginals.

The objective has the squares of the costs, which are constants only while both marginals are fixed.
With kernels and the second moments :math:`\mathbf{P} = \mathbf{X}^T \mathrm{diag}(r) \mathbf{X}`
and :math:`\mathbf{Q} = \mathbf{Y}^T \mathrm{diag}(c) \mathbf{Y}` of the masses r that leave and c
that arrive, they are :math:`||\mathbf{P}||^2 + ||\mathbf{Q}||^2`, so that the scores of column j
get :math:`-2 y_j^T \mathbf{Q} y_j`, and those of row i likewise.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

_ROUNDING = 1e-6  # of sums of masses
_BISECTIONS = 50

MARGINALS = ("balanced", "semirelaxed", "unbalanced", "partial")


@dataclass(frozen=True)
class Relaxation:
    """How much each marginal is held.

    Args:
        rows: rho of the penalty rho KL(r | p); infinity: r = p.
        columns: the same of the columns; zero: they are free.
        mass: what is sent in all, where r <= p and c <= q; None: these are no bounds.
    """

    rows: float = float("inf")
    columns: float = float("inf")
    mass: float | None = None

    @property
    def is_balanced(self) -> bool:
        """Whether both marginals are fixed."""
        return self.fixes_rows and self.fixes_columns

    @property
    def fixes_rows(self) -> bool:
        """Whether every row sends its mass."""
        return self.rows == float("inf") and self.mass is None

    @property
    def fixes_columns(self) -> bool:
        """Whether every column receives its mass."""
        return self.columns == float("inf") and self.mass is None


def largest_potential(log2_p: Tensor, total: Tensor, mass: float) -> Tensor:
    """The cap on row potentials under which a given mass is sent: [S] bits.

    Row i sends p_i min(1, 2^(cap + l_i)): all it has where it finds much, and else what the
    multiplier of the mass allows. (The rows' part of a Bregman projection; see Benamou et al.,
    "Iterative Bregman projections for regularized transportation problems", 2015, section 5.)

    Args:
        log2_p: [N] the bounds of the rows, in bits.
        total: [S, N] l, log2 of the sums of the rows' exponentials.
        mass: what is to be sent; infinity where that is all they have.
    """
    p = log2_p.double().exp2()
    total = torch.where(log2_p > -torch.inf, total.double(), 0)
    high = 64 - total.amin(-1)
    if float(p.sum()) <= mass * (1 + _ROUNDING):
        return torch.full_like(high, torch.inf)
    low = -64 - total.amax(-1)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        sent = (p * (middle[..., None] + total).clamp(max=0).exp2()).sum(-1)
        low, high = torch.where(sent < mass, middle, low), torch.where(sent < mass, high, middle)
    return high


def held(rho: float, epsilon: Tensor) -> Tensor:
    """The part of a Sinkhorn step that a penalty rho leaves: rho / (rho + epsilon)."""
    return epsilon.new_ones(epsilon.shape) if rho == float("inf") else rho / (rho + epsilon)


BALANCED = Relaxation()
