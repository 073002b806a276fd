"""Multiply exp(tA) by columns, for any symmetric sparse matrix A."""

import math
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from .._checks import (
    as_argument,
    check_finite,
    check_float,
    check_instance,
    check_positive,
    check_signal_range,
    check_symmetric,
    numbers_of,
    real_numbers,
    tensor_of,
)
from ..graph import GraphStructure
from ..operators import HeatOperator
from .evolve import evolve
from .options import HeatOptions
from .times import LONGEST, check_signal, check_single_time, read_times

_GROWTH = 30.0  # a step multiplies a column by e^30 at most
# A column keeps at least this share of what the bound of the spectrum allows it to become. Of a
# smaller one the error, relative to the bound, would be large.
_KEPT = 1e-3


def expm_multiply(
    A: Any, x: Any, t: float | Tensor = 1.0, *, tol: float = 1e-6, backend: str = "auto"
) -> Any:
    r"""Multiply the exponential of a symmetric matrix by columns: exp(tA) x.

    With the bounds :math:`a \le \mathbf{A} \le b` of the spectrum that the sums of rows give
    (Gershgorin's), :math:`e^{t \mathbf{A}} = e^{t b} e^{-t r (\mathbf{I} - \mathbf{S})}`, where
    r = (b - a) / 2. If b is far above what A does to x, the time is split into steps. Computed in
    float64. Differentiable in the values of A, in x and in t, if these are tensors of torch: of a
    sparse A in the entries that it has, of a dense one in all.

    Args:
        A: [N, N] symmetric: a sparse matrix or array of SciPy's, a sparse or dense torch tensor, or
            a dense NumPy array.
        x: [N] or [N, D], a tensor of torch or an array of NumPy's.
        t: a number or 0-d tensor, of either sign; :math:`|t| r` is at most 1e4.
        tol: the error allowed, relative to :math:`e^{t b} ||x||` in each step.
        backend: what evaluates the series, see :func:`~jsem_pyg.diffusion.heat_diffusion`.

    Returns:
        A tensor or array like `x`.

    Example:
        >>> A = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
        >>> expm_multiply(A, torch.tensor([1.0, 0.0]))  # cosh 1, sinh 1
        tensor([1.5431, 1.1752])
    """
    check_instance("x", x, (Tensor, np.ndarray), "a torch tensor or a NumPy array")
    signal = x if isinstance(x, Tensor) else tensor_of("x", x)
    check_float("x", signal)
    columns = signal.unsqueeze(-1) if signal.dim() == 1 else signal
    check_signal(columns)
    check_signal_range("x", columns)
    check_positive("tol", tol)
    check_single_time(t)
    time = real_numbers("t", t).double()
    read_times(time.abs(), columns.size(-1))
    sign = -1.0 if float(time.detach()) < 0 else 1.0
    duration = sign * time  # not abs(), whose derivative at zero is zero
    reach = float(duration.detach())
    structure, slots, diagonal = _read_symmetric(A, columns, sign)

    around = structure.row_sums(slots.detach().abs())
    low = float((diagonal.detach() - around).min()) if around.numel() else 0.0
    high = float((diagonal.detach() + around).max()) if around.numel() else 0.0
    # Of a matrix of zeros any radius will do that does not underflow: its gradient is not zero.
    shift, radius = (high + low) / 2, (high - low) / 2 or 1e-20 / (reach or 1.0)
    if reach * radius > LONGEST:
        raise ValueError(
            f"Expected 't' to be within {LONGEST / radius:.3g} of zero, {LONGEST:.0e} in units of "
            f"the radius of A's spectrum, at most {radius:.3g} by its rows (got {reach:.3g})."
        )
    matrix = structure.make_matrix(slots / radius, (diagonal - shift) / radius, backend)
    operator = HeatOperator(matrix, dtype=torch.float64)

    steps = max(1, math.ceil(reach * (shift + radius) / _GROWTH))
    while True:
        out, share = columns.double(), math.inf
        options = HeatOptions(tol=tol / steps, backend=backend)
        times = read_times(duration * radius / steps, columns.size(-1))
        growth = torch.exp(duration * (shift + radius) / steps).to(out)
        for _ in range(steps):
            before, out = out, evolve(out, operator, times, options).squeeze(-3)
            share = min(share, _smallest_share(out, before))
            out = out * growth
        if share >= _KEPT or reach * radius / steps < 1:
            break
        steps *= 2

    out = out.to(columns.dtype)
    if not bool(numbers_of(out).isfinite().all()):
        raise ValueError(
            f"Expected exp(t A) x to stay in the range of {out.dtype} (got eigenvalues of t A of "
            f"up to {reach * high:.3g} by its rows, and x up to "
            f"{float(numbers_of(columns).abs().max()):.3g})."
        )
    out = out.squeeze(-1) if signal.dim() == 1 else out
    return out if isinstance(x, Tensor) else out.detach().numpy()


def _smallest_share(out: Tensor, before: Tensor) -> float:
    """Return the smallest quotient of the norms of columns; infinite without any."""
    norm, length = (numbers_of(each).norm(dim=-2).flatten() for each in (before, out))
    share = length[norm > 0] / norm[norm > 0]
    return float(share.min()) if share.numel() else math.inf


def _read_symmetric(A: Any, x: Tensor, sign: float) -> tuple[GraphStructure, Tensor, Tensor]:
    """Read A for columns x [..., N, D]: its pattern, `sign` times its entries and its diagonal."""
    row, col, value = (each.to(x.device) for each in _read_entries(A, x.size(-2)))
    value = sign * value.double()
    loops = row == col
    diagonal = value.new_zeros(x.size(-2)).index_add(0, row[loops], value[loops])
    with as_argument("A", "edge_index", cure="pass its symmetric part, (A + A.T) / 2."):
        structure = GraphStructure(torch.stack([row[~loops], col[~loops]]), x.size(-2))
        slots = structure.to_slots(value[~loops])
        across = slots.detach().index_select(0, structure.reverse)
        check_symmetric("A", slots.detach(), across, A.dtype if isinstance(A, Tensor) else None)
    return structure, structure.symmetric(slots), diagonal


def _read_entries(A: Any, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Read the rows, columns and values of the entries that are stored."""
    if scipy.sparse.issparse(A):
        coo = A.tocoo()
        index = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        shape, value = tuple(coo.shape), tensor_of("A", coo.data)
    else:
        check_instance("A", A, (Tensor, np.ndarray), "a SciPy, torch or NumPy matrix")
        A = A if isinstance(A, Tensor) else tensor_of("A", A)
        check_float("A", A)
        shape = tuple(A.shape)
        if A.layout == torch.strided and A.dim() == 2 and A.requires_grad:  # by zeros as well
            index, value = torch.ones_like(A).nonzero().T, A.reshape(-1)
        else:
            sparse = A.to_sparse_coo().coalesce()
            index, value = sparse.indices(), sparse.values()
    check_float("A", value)
    if shape != (num_nodes, num_nodes):
        expected = f"[{num_nodes}, {num_nodes}], as 'x' has rows"
        raise ValueError(f"Expected 'A' to have shape {expected} (got {list(shape)}).")
    check_finite("A", value)
    return index[0], index[1], value
