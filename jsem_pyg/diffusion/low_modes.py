"""Find the lowest eigenpairs of a graph's Laplacian, as for spectral embedding."""

import logging
import math
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array, dia_array
from scipy.sparse.linalg import LinearOperator, SuperLU, eigsh, splu
from torch import Tensor

from .._checks import (
    check_choice,
    check_float,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from .._random import seeded
from ..graph import GraphStructure
from ..graph.reader import GraphReader, count_nodes
from ..kernels.bandwidth import bandwidth_order
from ..kernels.csr import scipy_indices
from ..kernels.torch_func import compute_dtype, without_autocast
from ..operators import HeatOperator, laplacian_operator
from ..operators.laplacian import laplacian_entries, scipy_matrix
from .evolve import sum_series
from .filter_coefficients import cosine_coefficients

_log = logging.getLogger(__name__)
_READER = GraphReader(keeps=False)

DENSE = 600  # nodes of a graph whose Laplacian is diagonalised as a table
GAIN = 8.5  # log of the growth of the smoothest mode in one filter
MOST_ROUNDS, MOST_TERMS = 40, 8_000
MOST_WORK = 1_000  # multiplications for each slot that a factorisation may take


@torch.no_grad()
@without_autocast
def low_modes(
    edge_index: Any,
    k: int,
    edge_weight: Tensor | None = None,
    *,
    normalization: str | None = "sym",
    num_nodes: int | None = None,
    tol: float = 1e-4,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    r"""Find the k smoothest modes of a graph: the lowest eigenpairs of its Laplacian.

    .. math::
        \mathbf{L} \mathbf{v}_j = \lambda_j \mathbf{v}_j, \qquad
        0 = \lambda_1 \le \lambda_2 \le \dots \le \lambda_k

    Each connected component, also an isolated node, has one eigenvalue zero; its mode, the root of
    the degrees there, comes first, that of the largest component before others.

    Random signals go through a Chebyshev filter that damps all but the lowest modes, L is
    diagonalised on the result (Rayleigh and Ritz), and both are repeated until the residual is
    small enough. Where L has sparse factors (which is counted before), as on paths,
    trees and narrow grids, Lanczos' method finds the modes of its inverse, and a factorisation
    counts whether one is missing: then the inverse is the filter. Small graphs are diagonalised as
    a table.

    Args:
        edge_index: the graph, in any form that :func:`~jsem_pyg.diffusion.heat_diffusion` takes.
        k: the number of modes, those of eigenvalue zero included; at most N.
        edge_weight: [E] non-negative weights, the same in both directions; None: ones.
        normalization: "sym" for :math:`\mathbf{I} - \mathbf{D}^{-1/2} \mathbf{W}
            \mathbf{D}^{-1/2}`; "rw" for :math:`\mathbf{I} - \mathbf{D}^{-1} \mathbf{W}`, of which
            the modes of eigenvalue zero are constant; None for :math:`\mathbf{D} - \mathbf{W}`.
        num_nodes: N, where isolated nodes may come after the last edge.
        tol: the largest residual :math:`||\mathbf{L v} - \lambda \mathbf{v}||` allowed, relative
            to :math:`\lambda_k`. Eigenvalues are then precise to about its square.
        seed: of the random signals.

    Returns:
        The eigenvalues [k], ascending, and the modes [N, k], without gradients, in the type of
        `edge_weight` (torch's default type without it). The columns are orthonormal; for "rw" they
        are :math:`(\bar{d} / d_i)^{1/2}` times those of "sym", with the mean degree
        :math:`\bar{d}`. The largest entry of each is positive. A residual above
        `tol` is logged as a warning.

    Source: Zhou, Saad, Tiago and Chelikowsky, "Self-consistent-field calculations using
    Chebyshev-filtered subspace iteration", Journal of Computational Physics 219, 2006.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> value, mode = low_modes(path, 2)
        >>> mode[:, 1] > 0  # the second mode parts the path in the middle
        tensor([ True,  True, False, False])
    """
    check_positive_int("k", k)
    check_choice("normalization", normalization, ("sym", "rw", None))
    check_positive("tol", tol)
    check_nonnegative_int("seed", seed)
    if edge_weight is not None:
        check_float("edge_weight", edge_weight)
    size = count_nodes(edge_index, num_nodes)
    if k > size:
        raise ValueError(f"Expected 'k' to be at most the number of nodes (got {k} of {size}).")
    device = edge_index.device() if callable(edge_index.device) else edge_index.device
    rows, weight = _READER.read(edge_index, torch.empty(size, 0, device=device), edge_weight)
    structure = rows.whole("to find its modes", "call low_modes before the graph is distributed")
    dtype = compute_dtype(weight)
    if weight is None:
        weight = torch.ones(structure.num_edges, dtype=torch.float64, device=structure.device)
    weight = weight.double()
    kind = None if normalization is None else "sym"
    value, mode = _lowest(structure, weight, int(k), kind, tol, seed)
    if normalization == "rw":
        degree = structure.row_sums(structure.symmetric(structure.to_slots(weight)))
        joined = degree > 0
        safe = torch.where(joined, degree, 1)
        mean = degree.sum() / joined.sum().clamp(min=1)
        mode = mode * torch.where(joined, mean / safe, 1).sqrt().unsqueeze(1)
    return value.to(dtype), mode.to(dtype)


def _lowest(
    structure: GraphStructure, weight: Tensor, k: int, kind: str | None, tol: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Return eigenvalues [k] and modes [N, k], whose largest entries are positive."""
    size = structure.num_nodes
    if size > DENSE and structure.device.type == "cpu":
        # Numbered so that neighbours lie close in memory, and factors are sparse.
        place = structure.csr.derived(bandwidth_order).place.long()
        moved = GraphStructure(place[torch.stack(structure.edges)], size)
        value, mode = _eigenpairs(moved, weight, k, kind, tol, seed)
        mode = mode[place]
    else:
        value, mode = _eigenpairs(structure, weight, k, kind, tol, seed)
    size_of = mode.abs()
    leading = (size_of >= 0.999 * size_of.amax(0)).byte().argmax(0, keepdim=True)
    return value, mode * torch.where(mode.gather(0, leading) < 0, -1.0, 1.0)


def _eigenpairs(
    structure: GraphStructure, weight: Tensor, k: int, kind: str | None, tol: float, seed: int
) -> tuple[Tensor, Tensor]:
    rest = _Rest(structure, weight, kind)
    null = rest.modes(min(k, rest.count))
    wanted = k - rest.count
    if wanted <= 0:
        return null.new_zeros(k), null
    width = wanted + max(16, wanted // 2)
    operator = laplacian_operator(structure, weight, kind)
    if structure.num_nodes <= DENSE or width > (structure.num_nodes - rest.count) // 2:
        value, mode = _diagonalize(operator, rest, torch.eye(len(null)).to(null))
    else:
        start = torch.randn(len(null), width, generator=seeded(seed), dtype=torch.float64).to(null)
        fast: Any = laplacian_operator(structure, weight, kind, dtype=torch.float32)
        if has_sparse_factors(structure):
            steps = scipy_matrix(structure, laplacian_entries(structure, weight, kind))
            start, fast = _lanczos(steps, rest, start, wanted)
        value, mode = _iterate((operator, fast), rest, start, wanted, tol)
    value = torch.cat([value.new_zeros(rest.count), value[:wanted].clamp(min=0)])
    return value, torch.cat([null, mode[:, :wanted]], 1)


class _Rest:
    """What is orthogonal to the modes of eigenvalue zero, one for every component."""

    def __init__(self, structure: GraphStructure, weight: Tensor, kind: str | None) -> None:
        self.component, self.count = structure.component, structure.num_components
        degree = structure.row_sums(structure.symmetric(structure.to_slots(weight)))
        square = torch.ones_like(degree)
        if kind is not None:
            square = torch.where(degree > 0, degree, square)
        self.still = (square / self._sums(square)[self.component]).sqrt().unsqueeze(1)

    def _sums(self, x: Tensor) -> Tensor:
        return x.new_zeros(self.count, *x.shape[1:]).index_add(0, self.component, x)

    def __call__(self, x: Tensor) -> Tensor:
        """Take the part in these modes away from signals [N, M]."""
        return x - self.still * self._sums(self.still * x)[self.component]

    def modes(self, count: int) -> Tensor:
        """Return the modes [N, count] of the largest components."""
        nodes = self.component.bincount(minlength=self.count)
        chosen = nodes.argsort(descending=True, stable=True)[:count]
        return self.still * (self.component.unsqueeze(1) == chosen)


def _diagonalize(operator: HeatOperator, rest: _Rest, identity: Tensor) -> tuple[Tensor, Tensor]:
    """Find all eigenpairs but the ones of eigenvalue zero that `rest` knows."""
    above = 4 * operator.rate  # where those go
    table = operator.apply_laplacian(identity) + above * (identity - rest(identity))
    value, mode = torch.linalg.eigh((table + table.T) / 2)
    return value[: -rest.count], mode[:, : -rest.count]


def has_sparse_factors(structure: GraphStructure) -> bool:
    """Return True if L is factorised in little work, in the order of the nodes; on a CPU."""
    if structure.device.type != "cpu":
        return False
    from ..kernels.sorted_edges import factor_work

    most = MOST_WORK * structure.num_slots
    return bool(factor_work(*scipy_indices(structure.csr), most) <= most)


def _lanczos(steps: csr_array, rest: _Rest, start: Tensor, wanted: int) -> tuple[Tensor, Any]:
    """Return modes of the inverse of I - S in a block, `start` if one is missing; the inverse."""

    def factorize(shift: float) -> SuperLU:
        matrix = dia_array((np.full((1, size), 1 + shift), [0]), steps.shape) - steps
        return splu(matrix.tocsc(), "NATURAL", 0.0, options={"SymmetricMode": True})

    def divide(x: Any) -> Tensor:
        return rest(torch.from_numpy(factors.solve(np.asarray(x).reshape(size, -1))))

    size, first = len(start), rest(start[:, :1]).numpy()
    # The least shift that leaves eigenvalues apart; the modes of eigenvalue zero are taken away.
    factors = factorize(1e-13)
    try:
        inverse = LinearOperator(steps.shape, divide, dtype=first.dtype)
        value, mode = eigsh(inverse, wanted, v0=first, maxiter=8)
        below = (1 - 1e-6) / value.min() - 2e-13
        pivots = factorize(-below).U.diagonal()  # one is negative for each eigenvalue (Sylvester)
    except RuntimeError:  # no convergence, as where most eigenvalues are equal; a pivot of zero
        return start, divide
    is_whole = (pivots < 0).sum() == rest.count + (1 / value - 1e-13 < below).sum()
    more = start[:, wanted:] / size**0.5  # with which iteration goes on where modes are too coarse
    return torch.cat([torch.from_numpy(mode), more], 1) if is_whole else start, divide


def _iterate(
    exact_fast: tuple[HeatOperator, Any], rest: _Rest, block: Tensor, wanted: int, tol: float
) -> tuple[Tensor, Tensor]:
    """Find eigenpairs by iteration of a block [N, M], by a filter of an operator or a function."""
    operator, fast = exact_fast
    for _ in range(MOST_ROUNDS):
        value, block, residual = _ritz(rest(block), operator, rest)
        worst = float(torch.linalg.vector_norm(residual[:, :wanted], dim=0).max())
        allowed = tol * float(value[wanted - 1])
        if worst <= max(allowed, 1e-13 * operator.rate):
            return value, block
        block = fast(block) if callable(fast) else _damp(fast, value, block, residual)
    _log.warning(
        "the %d smoothest modes of a graph of %d nodes have a residual of %.2g times the largest "
        "eigenvalue found, more than tol = %.2g allows. To fix this, raise 'tol', or take a 'k' "
        "after which the eigenvalues have a gap.",
        wanted,
        len(block),
        tol * worst / allowed,
        tol,
    )
    return value, block


def _damp(operator: HeatOperator, value: Tensor, block: Tensor, residual: Tensor) -> Tensor:
    """Damp what modes v [N, M] have above the last value: p(L) v, for a Chebyshev polynomial p.

    With q(z) = (p(z) - p(lambda)) / (z - lambda), it is p(lambda) v + q(L) (L v - lambda v). Only
    the residuals are filtered, so that an operator in float32 is precise enough.
    """
    rate = operator.rate
    cutoff = min(max(float(value[-1]), 1e-12 * rate), 1.8 * rate)
    width = rate - cutoff / 2
    growth = math.acosh(1 + cutoff / width)
    degree = min(max(math.ceil(GAIN / growth), 2), MOST_TERMS)

    def polynomial(eigenvalue: Tensor) -> Tensor:
        at = 1 + (cutoff - eigenvalue) / width
        waves, rise = degree * at.clamp(-1, 1).acos(), degree * at.clamp(min=1).acosh()
        return (waves.cos() * rise.cosh() / math.cosh(degree * growth)).unsqueeze(0)

    series = cosine_coefficients(polynomial, rate, degree, bound=1e-6).flatten()
    at = 1 - value.cpu() / rate
    parts = [torch.zeros_like(at)] * 2  # b_k = c_k + 2 a b_(k + 1) - b_(k + 2) (Clenshaw 1955)
    for term in series[1:].flip(0):
        parts.append(term + 2 * at * parts[-1] - parts[-2])
    # (p(s) - p(a)) / (s - a) has the coefficients b_1, 2 b_2, 2 b_3, ...
    quotient = torch.stack([parts[-1] / 2, *parts[-2:1:-1]]) * 2
    kept = series[0] + at * parts[-1] - parts[-2]
    turned = sum_series((residual / rate).float(), operator, quotient.float().unsqueeze(1))
    return block * kept.to(block.device) - turned[0]


def _ritz(block: Tensor, operator: HeatOperator, rest: _Rest) -> tuple[Tensor, Tensor, Tensor]:
    """Find Ritz values [M] and vectors [N, M] of the span of a block, and L v - lambda v."""
    scale, turn = torch.linalg.eigh(block.T @ block)
    if bool(scale[0] > 1e-14 * scale[-1]):
        block = block @ (turn / scale.sqrt())
    else:  # modes of weak links outweigh all others, which their squares would lose
        block = rest(torch.linalg.qr(block)[0])
    image = operator.apply_laplacian(block)
    core = block.T @ image
    value, turn = torch.linalg.eigh((core + core.T) / 2)
    block = block @ turn
    return value, block, image @ turn - block * value
