"""How far a factor is from the matrix that it stands for, as a share of its Frobenius norm."""

import logging

from torch import Tensor

_log = logging.getLogger(__name__)

LARGE_ERROR = 0.05  # above which it is said


def column_error(x: Tensor, nodes: Tensor, columns: Tensor, kind: str) -> float:
    r"""The error of :math:`\mathbf{X} \mathbf{X}^T` on known columns [N, P] of a kernel K.

    .. math::
        ||\hat{\mathbf{C}} - \mathbf{C}||_F \, / \, ||\mathbf{C}||_F

    where C is K itself, on these columns, or the squared distances :math:`K_{ii} + K_{kk} -
    2 K_{ik}` among these nodes. Columns that are drawn at random, and did not make the factor, tell
    the error of the whole matrix.

    Args:
        x: [N, r] the factor.
        nodes: [P] the columns' nodes.
        columns: [N, P] of the kernel.
        kind: "kernel" or "sqdist".
    """
    x, columns = x.detach().double(), columns.detach().double()
    if kind == "kernel":
        return relative_norm(x @ x[nodes].T - columns, columns)
    true, found = squared_distances(columns[nodes]), squared_distances(x[nodes] @ x[nodes].T)
    return relative_norm(found - true, true)


def squared_distances(gram: Tensor) -> Tensor:
    """Inner products [P, P] -> squared distances [P, P]."""
    norm = gram.diagonal()
    return norm[:, None] + norm - 2 * gram


def relative_norm(difference: Tensor, whole: Tensor) -> float:
    """|difference| / |whole|, in the norm of Frobenius; zero if both are zero."""
    size = float(difference.norm())
    return size / float(whole.norm()) if size else 0.0


def say_if_large(what: str, error: float, remedy: str) -> float:
    """Warn of a factor that stands for its matrix badly; returns the error."""
    if error > LARGE_ERROR:
        _log.warning(
            "%s: the factor differs from its matrix by %.2g of its norm. To mend this, %s.",
            what,
            error,
            remedy,
        )
    return error


def smallest_rank(value: Tensor, share: float) -> int:
    """How many of eigenvalues [M], descending in size, hold all but `share` of their norm.

    At least one is kept.

    Example:
        >>> import torch
        >>> smallest_rank(torch.tensor([3.0, -2.0, 1e-6]), share=1e-3)
        2
    """
    square = value.double().square()
    rest = square.flip(0).cumsum(0).flip(0)  # what is lost by a cut before each
    return max(1, int((rest > share**2 * square.sum()).sum()))
