"""exp(tA) x for any symmetric sparse matrix A."""

import math
import sys
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import torch
from torch import Tensor

from .._checks import (
    check_float,
    check_signal_range,
    numbers_of,
    real_numbers,
    tensor_of,
    uneven,
)
from .._precision import compute_dtype
from ..graph import GraphStructure
from ..operators import HeatOperator
from .evolve import evolve
from .options import HeatOptions
from .precision import choose_dtype
from .times import check_signal, check_single_time, read_times

_ROUNDS = 30  # of the bound's iteration, each a product with |A|
_STEPS = 300  # of Lanczos' iteration, each a product with A
_CHECK = 25  # steps, after which its residual is looked at
_CLOSE = 0.1  # so far may its bound of t A be above the largest eigenvalue: a tenth of the result


def expm_multiply(
    A: Any, x: Any, t: float | Tensor = 1.0, *, tol: float = 1e-6, backend: str = "auto"
) -> Any:
    r"""Multiply the exponential of a symmetric sparse matrix by columns: exp(tA) x.

    With bounds :math:`a \le \mathbf{A} \le b` of the spectrum, :math:`e^{t \mathbf{A}} =
    e^{t b} e^{-t r (\mathbf{I} - \mathbf{S})}`, where r = (b - a) / 2. The bounds are those of
    Gershgorin for :math:`\mathbf{V}^{-1} \mathbf{A} \mathbf{V}`, with a positive diagonal V that
    makes them tight (Collatz and Wielandt): they hold for every V. Where tA has negative entries
    off its diagonal, they can be far from its largest eigenvalue, and :math:`e^{tb}` far above the
    result: there b comes from Lanczos' iteration. Differentiable in the values of A, in x and in t,
    where these are tensors of torch: of a sparse A in the entries that it has, of a dense one in
    all.

    Args:
        A: [N, N] symmetric: a sparse or dense torch tensor, a sparse matrix or array of SciPy's, or
            an array or BCOO matrix of JAX's. JAX does not differentiate or compile through this
            function: convert to torch's tensors where gradients are needed.
        x: [N] or [N, D], a tensor of torch or an array of NumPy's or JAX's.
        t: a number or 0-d tensor, of either sign.
        tol: the error allowed, relative to :math:`e^{t b} ||x||`.
        backend: what evaluates the series, see :func:`~jsem_pyg.diffusion.heat_diffusion`.

    Returns:
        A tensor or array like `x`.

    Raises:
        TypeError: if an argument is of the wrong type.
        NotImplementedError: if JAX differentiates or compiles the call.
        ValueError: if A is not square and symmetric, a value is not finite, sizes do not fit, or
            the result would overflow.

    Example:
        >>> A = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
        >>> expm_multiply(A, torch.tensor([1.0, 0.0]))  # cosh 1, sinh 1
        tensor([1.5431, 1.1752])
    """
    for name, value in (("A", getattr(A, "data", A)), ("x", x), ("t", t)):
        _refuse_traced(name, value)
    is_array = isinstance(x, np.ndarray) or _is_jax(x)
    signal = tensor_of("x", np.asanyarray(x)) if is_array else x
    check_float("x", signal)
    columns = signal.unsqueeze(-1) if signal.dim() == 1 else signal
    check_signal(columns)
    check_single_time(t)
    time = real_numbers("t", t).double()
    read_times(time.abs(), columns)
    check_signal_range("x", columns)
    sign = -1.0 if float(time.detach()) < 0 else 1.0
    duration = sign * time  # not abs(), whose derivative at zero is zero
    row, col, value = (each.to(columns.device) for each in _read(A, columns.size(-2)))
    value = sign * value.to(torch.promote_types(value.dtype, compute_dtype(columns)))
    loops = row == col
    diagonal = value.new_zeros(columns.size(-2)).index_add(0, row[loops], value[loops])
    try:
        structure = GraphStructure(torch.stack([row[~loops], col[~loops]]), columns.size(-2))
    except ValueError as error:
        raise ValueError(
            "Expected 'A' to be symmetric (got entries without one across the diagonal)."
        ) from error
    slots = structure.to_slots(value[~loops])
    symmetric = structure.symmetric(slots)
    uneven_entries = uneven(slots.detach(), slots.detach().index_select(0, structure.reverse))
    if bool(uneven_entries.any()):
        raise ValueError(
            "Expected 'A' to be symmetric (got "
            f"{int(uneven_entries.sum())} entries that differ from those across the diagonal)."
        )
    size, middle = symmetric.detach().double().abs(), diagonal.detach().double()
    low, high = -_largest(structure, size, -middle), _largest(structure, size, middle)
    if bool((slots.detach() < 0).any()):  # the bound is that of |A|, without what cancels
        step = 1 / max(abs(float(time.detach())), 1e-300)
        high = min(high, _top(structure, symmetric.detach().double(), middle, step))
    low = min(low, high)
    reach = abs(float(time.detach()))
    # Of a matrix of zeros any radius will do that does not underflow: its gradient is not zero.
    shift, radius = (high + low) / 2, (high - low) / 2 or 1e-20 / (reach or 1.0)
    high, span = shift + radius, reach * high
    if span > math.log(torch.finfo(columns.dtype).max):
        raise ValueError(
            f"Expected exp(t A) x to stay in the range of {columns.dtype} (got eigenvalues of t A "
            f"of up to {span:.3g})."
        )
    options = HeatOptions(tol=tol, backend=backend)
    times = read_times(duration * radius, columns)

    dtype = choose_dtype(columns, times.reach(1.0), tol)
    off, diag = symmetric.double() / radius, (diagonal.double() - shift) / radius
    operator = HeatOperator(
        structure.make_matrix(off.to(dtype), diag.to(dtype), backend), dtype=dtype
    )
    out = evolve(columns, operator, times, options).squeeze(-3)
    out = out * torch.exp(duration * high).to(out)
    if not bool(numbers_of(out).isfinite().all()):
        raise ValueError(
            f"Expected exp(t A) x to stay in the range of {out.dtype} (got eigenvalues of t A of "
            f"up to {span:.3g}, and x up to {float(numbers_of(columns).abs().max()):.3g})."
        )
    out = out.squeeze(-1) if signal.dim() == 1 else out
    if isinstance(x, Tensor):
        return out
    array = out.detach().numpy()
    return sys.modules["jax"].numpy.asarray(array) if _is_jax(x) else array


def _is_jax(value: Any) -> bool:
    return type(value).__module__.split(".")[0] in ("jax", "jaxlib")


def _refuse_traced(name: str, value: Any) -> None:
    if _is_jax(value) and isinstance(value, sys.modules["jax"].core.Tracer):
        raise NotImplementedError(
            f"Expected '{name}' to be an array of numbers: JAX neither differentiates nor compiles "
            f"through expm_multiply (got {type(value).__name__}). To fix this, pass tensors of "
            "torch, which are differentiated, or use jsem_pyg.jax for Laplacians."
        )


def _read(A: Any, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """The rows, columns and values of the entries that are stored."""
    if scipy.sparse.issparse(A):
        coo = A.tocoo()
        index = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        shape, value = tuple(coo.shape), tensor_of("A", coo.data)
    elif _is_jax(A):
        if not hasattr(A, "indices"):
            return _read(scipy.sparse.coo_array(np.array(A)), num_nodes)
        at = tuple(np.array(A.indices).T)
        return _read(scipy.sparse.coo_array((np.array(A.data), at), A.shape), num_nodes)
    elif isinstance(A, Tensor):
        check_float("A", A)
        shape = tuple(A.shape)
        if A.layout == torch.strided and A.dim() == 2 and A.requires_grad:  # by zeros as well
            index, value = torch.ones_like(A).nonzero().T, A.reshape(-1)
        else:
            sparse = A.to_sparse() if A.layout == torch.strided else A.to_sparse_coo().coalesce()
            index, value = sparse.indices(), sparse.values()
    else:
        raise TypeError(
            "Expected 'A' to be a torch tensor or a sparse matrix of SciPy's "
            f"(got {type(A).__name__})."
        )
    check_float("A", value)
    if shape != (num_nodes, num_nodes):
        raise ValueError(
            f"Expected 'A' to have shape [{num_nodes}, {num_nodes}], as 'x' has rows "
            f"(got {list(shape)})."
        )
    if not bool(value.detach().isfinite().all()):
        raise ValueError("Expected 'A' to be finite (got NaN or infinite values).")
    return index[0], index[1], value


def _largest(structure: GraphStructure, size: Tensor, diagonal: Tensor) -> float:
    """A bound of the largest eigenvalue of a symmetric matrix: Gershgorin's, of many scalings."""
    if not diagonal.numel():
        return 0.0
    v, bound, lift = torch.ones_like(diagonal), math.inf, -float(diagonal.min())
    for _ in range(_ROUNDS):
        sums = structure.row_sums(size * v.index_select(0, structure.col)) / v + diagonal
        bound = min(bound, float(sums.max()))
        # A step of the power iteration, shifted so that no entry turns negative, and halved so that
        # none falls to zero, which would divide by it.
        v = v * (1 + (sums + lift) / (bound + lift + 1e-300))
        v = (v / v.max()).clamp_min(1e-12)
    return bound + 1e-12 * abs(bound)


def _top(structure: GraphStructure, off: Tensor, diagonal: Tensor, step: float) -> float:
    """The largest eigenvalue of a symmetric matrix, or a little more: Lanczos' iteration.

    The residual of a Ritz value, which says how far an eigenvalue is at most, is added to it. No
    vectors are kept: without them eigenvalues are found again, but the largest is as precise.
    """
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(diagonal.numel(), generator=generator, dtype=torch.float64, device="cpu")
    scale = max(float(off.abs().max()), float(diagonal.abs().max()))  # squares are in range
    off, diagonal, step = off / scale, diagonal / scale, step / scale
    v = start.to(diagonal) / start.norm().to(diagonal)
    before, norm = torch.zeros_like(v), 0.0
    middle: list[float] = []
    beside: list[float] = []
    top = residual = 0.0
    while len(middle) < _STEPS:
        image = structure.row_sums(off * v.index_select(0, structure.col)) + diagonal * v
        image = image - norm * before
        middle.append(float(image @ v))
        image = image - middle[-1] * v
        norm = float(image.norm())
        size = max(map(abs, middle + beside))
        is_over = norm <= 1e-14 * size or len(middle) == _STEPS
        if is_over or len(middle) % _CHECK == 0:
            values, vectors = scipy.linalg.eigh_tridiagonal(middle, beside)
            top, residual = float(values[-1]), norm * abs(float(vectors[-1, -1]))
            if is_over or residual <= max(_CLOSE * step, 1e-14 * size):
                break
        beside.append(norm)
        before, v = v, image / norm
    return scale * (top + residual + 1e-12 * max(map(abs, middle + beside)))
