"""The error of a factor, relative to the Frobenius norm of the matrix that it approximates."""

import logging
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_number

_log = logging.getLogger(__name__)

LARGE_ERROR = 0.05  # from which on there is a warning


def check_loss(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is a number in [0, 1)."""
    check_number(name, value)
    if not 0 <= float(value) < 1:
        raise ValueError(f"Expected '{name}' to lie in [0, 1) (got {value!r}).")


def column_error(x: Tensor, nodes: Tensor, columns: Tensor, kind: str) -> float:
    r"""Estimate the relative error of :math:`\mathbf{X} \mathbf{X}^T` on known columns.

    Columns that are drawn at random, and were not used to make the factor, estimate the error of
    the whole matrix: of a kernel K on these columns, or of the squared distances
    :math:`K_{ii} + K_{kk} - 2 K_{ik}` among these nodes [P].
    """
    x, columns = x.detach().double(), columns.detach().double()
    if kind == "kernel":
        return relative_norm(x @ x[nodes].T - columns, columns)
    found, true = (_squared_distances(each) for each in (x[nodes] @ x[nodes].T, columns[nodes]))
    return relative_norm(found - true, true)


def _squared_distances(gram: Tensor) -> Tensor:
    norm = gram.diagonal()
    return norm[:, None] + norm - 2 * gram


def relative_norm(difference: Tensor, whole: Tensor) -> float:
    """Divide Frobenius norms, |difference| / |whole|; zero if both are zero, one if `whole` is."""
    size, most = (float(each.detach().double().norm()) for each in (difference, whole))
    return size / most if most else float(size > 0)


def warn_if_large(what: str, error: float, remedy: str) -> None:
    """Log a warning if a factor approximates its matrix badly."""
    if error > LARGE_ERROR:
        _log.warning(
            "%s: the factor differs from its matrix by %.2g of its norm. To fix this, %s.",
            what,
            error,
            remedy,
        )


def smallest_rank(value: Tensor, share: float) -> int:
    """Find the smallest rank whose cut loses at most `share` of the norm of eigenvalues [M]."""
    square = value.double().square()
    rest = square.flip(0).cumsum(0).flip(0)  # what a cut before each of them loses
    return max(1, int((rest > share**2 * torch.sum(square)).sum()))
