r"""Marginals that are not fixed: their penalties, and what squared costs add to the scores.

The objective has the squares of the costs; these are constant only if both marginals are fixed.
With kernels and the second moments :math:`\mathbf{P} = \mathbf{X}^T \mathrm{diag}(r) \mathbf{X}`
and :math:`\mathbf{Q} = \mathbf{Y}^T \mathrm{diag}(c) \mathbf{Y}` of the masses r that leave and c
that arrive, they are :math:`||\mathbf{P}||^2 + ||\mathbf{Q}||^2`, so that the scores of column j
get :math:`-2 y_j^T \mathbf{Q} y_j`, and the scores of row i likewise.

A partial plan sends a given mass, within the bounds p and q. It is solved as a plan with fixed
marginals: a dummy point on each side takes what the points of the other side keep, at no cost, and
the dummies send each other nothing.

Source: the dummy points come from Chapel, Alaya and Gasso, "Partial optimal transport with
applications on positive-unlabeled learning", NeurIPS 2020.
"""

from dataclasses import dataclass

from torch import Tensor

MARGINALS = ("balanced", "semirelaxed", "unbalanced", "partial")


@dataclass(frozen=True)
class Relaxation:
    """Strength of the penalty on each marginal.

    Args:
        rows: rho of the penalty rho KL(r | p); infinity: r = p.
        columns: the same of the columns; zero: they are free.
        mass: the total that is sent, with r <= p and c <= q; None: p and q are no bounds.
    """

    rows: float = float("inf")
    columns: float = float("inf")
    mass: float | None = None

    @property
    def is_balanced(self) -> bool:
        """True if both marginals are p and q."""
        return self.fixes_rows and self.fixes_columns

    @property
    def fixes_rows(self) -> bool:
        """True if every row sends its mass."""
        return self.rows == float("inf") and self.mass is None

    @property
    def fixes_columns(self) -> bool:
        """True if every column receives its mass."""
        return self.columns == float("inf") and self.mass is None


def held(rho: float, epsilon: Tensor) -> Tensor:
    """Find the part of a Sinkhorn step that a penalty rho leaves: rho / (rho + epsilon)."""
    return epsilon.new_ones(epsilon.shape) if rho == float("inf") else rho / (rho + epsilon)


BALANCED = Relaxation()
