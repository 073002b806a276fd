r"""How far dropping edges can move a diffused signal, from the weights that were dropped.

Let L and L' be the Laplacians before and after. By Duhamel's formula

.. math::
    e^{-t L} - e^{-t L'} = \int_0^t e^{-(t - s) L} (L' - L) e^{-s L'} ds,

so in a norm in which no diffusion makes a signal longer, :math:`\|e^{-sL}\| \le 1`,

.. math::
    \|e^{-t L} - e^{-t L'}\| \le t \, \|L - L'\|.

What remains is :math:`\|L - L'\|`. Let :math:`F` hold the weights that go, :math:`W' = W - F`,
:math:`d` the degrees before (a self-loop included), :math:`f_i = \sum_j F_{ij}`, and
:math:`\eta = \max_i f_i / d_i` the largest share of a degree that goes.

"sym", in the Euclidean norm. :math:`E = |S - S'|`, entry by entry, is symmetric, so

.. math::
    \|S - S'\| \le \|E\| = \rho(E) \le \max_i (E v)_i / v_i

for every positive v (Collatz and Wielandt). A few products with E bring v close to its eigenvector,
and the least of the quotients is what is computed. It begins with :math:`v = d^{1/2}`, for which
row i has, with :math:`\eta_i = f_i / d_i`: shares that go, :math:`\eta_i`, and of those that stay
:math:`\sum_j (w_{ij} / d_i) (((1 - \eta_i)(1 - \eta_j))^{-1/2} - 1) \le
((1 - \eta_i) / (1 - \eta))^{1/2} - (1 - \eta_i)`. For :math:`\eta \le 3/4` the sum of both is
largest where :math:`\eta_i = \eta`, and so a limit on the share promises beforehand

.. math::
    \|S - S'\| \le 2 \eta .

Both exponentials lie between 0 and I, so that their difference is never above 1.

"rw", in the maximum norm, the largest error of any entry over the largest entry: rows of
:math:`e^{-tL}` are means, so that no entry grows. In row i the shares that go sum to
:math:`f_i / d_i`, and those that stay grow by as much together:

.. math::
    \|D^{-1} W - D'^{-1} W'\|_\infty = 2 \eta ,

and two means differ by no more than 2. (Of the Euclidean norm this could not be said: a diffusion
of "rw" may lengthen a signal, as far as degrees differ.)

None, in the Euclidean norm. L - L' is the Laplacian of what goes, whose largest eigenvalue is at
most :math:`\max_{ij} (f_i + f_j)` over the edges that go (Anderson and Morley, "Eigenvalues of the
Laplacian of a graph", 1985). Again the difference is never above 1.

Sources: Horn and Johnson, "Matrix analysis", 2nd edition 2013, corollary 8.1.31 for the theorem of
Collatz and Wielandt; Higham, "Functions of matrices", 2008, section 10.2 for the formula of
Duhamel, there of the Frechet derivative of the exponential.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .._checks import check_nonnegative
from ..graph import GraphStructure
from ..operators.laplacian import symmetric_normalize

_PRODUCTS = 8  # with |S - S'|, towards its eigenvector


class Perturbation(NamedTuple):
    """A bound of how far a diffused signal moves when a graph loses edges.

    Example:
        >>> Perturbation(rate=0.02, most=1.0, norm="euclidean").at(5.0)
        0.1
    """

    rate: float  #: bound of `||L - L'||`
    most: float  #: what the difference of two diffusions never exceeds
    norm: str  #: "euclidean" of every column, or "maximum" over all entries

    def at(self, t: float) -> float:
        """A bound of ||exp(-tL) x - exp(-tL') x|| / ||x||, for a diffusion time t >= 0.

        Raises:
            TypeError: if `t` is not a number.
            ValueError: if it is negative or not finite.
        """
        check_nonnegative("t", t)
        return min(self.most, float(t) * self.rate)


def perturbation(
    structure: GraphStructure,
    weight: Tensor,
    kept: Tensor,
    normalization: str | None,
    self_loop: float = 0.0,
) -> Perturbation:
    """The bound for a graph that keeps some of its edges; see the head of this file.

    Args:
        structure: the graph as it was.
        weight: [nnz] what its slots conduct, in float64, the same in both directions.
        kept: [nnz] which slots stay, both directions alike.
        normalization: "sym", "rw" or None.
        self_loop: the weight of a loop at every node.
    """
    lost = torch.where(kept, 0.0, weight)
    total, gone = (_row_sums(structure, each) for each in (weight, lost))
    if normalization is None:
        both = gone.index_select(0, structure.row) + gone.index_select(0, structure.col)
        return Perturbation(_largest(both[~kept]), 1.0, "euclidean")
    if normalization == "rw":
        degree = total + self_loop
        share = gone / torch.where(degree > 0, degree, 1.0)
        return Perturbation(2 * _largest(share), 2.0, "maximum")
    change = _symmetric_change(structure, weight, weight - lost, self_loop)
    return Perturbation(change, 1.0, "euclidean")


def _symmetric_change(
    structure: GraphStructure, before: Tensor, after: Tensor, self_loop: float
) -> float:
    """A bound of ||S - S'||: the smallest of a few quotients of Collatz and Wielandt."""
    csr = structure.csr
    old, degree = symmetric_normalize(structure, before, before, self_loop)
    new, remaining = symmetric_normalize(structure, after, after, self_loop)
    change = (new - old).abs_()
    of_loop = torch.where(degree > 0, self_loop / remaining - self_loop / degree, 0.0)
    vector = torch.where(degree > 0, degree, 1.0).sqrt()
    found = float("inf")
    for _ in range(_PRODUCTS):
        along = vector.index_select(0, csr.col).mul_(change)
        product = _row_sums(structure, along).addcmul_(of_loop, vector)
        found = min(found, _largest(product / vector))
        if found == 0:
            break
        vector = product / found + 0.1 * vector  # of which the latter keeps it positive
    return found


def _row_sums(structure: GraphStructure, values: Tensor) -> Tensor:
    return values.new_zeros(structure.num_nodes).index_add(0, structure.row, values)


def _largest(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
