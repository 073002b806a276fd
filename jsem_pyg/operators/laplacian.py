r"""A Laplacian by its operator S, symmetric with its spectrum in [-1, 1]; that of a weighted graph.

.. math::
    \mathbf{L} = r \mathbf{P}^{-1} (\mathbf{I} - \mathbf{S}) \mathbf{P}, \qquad
    e^{-t \mathbf{L}} = \mathbf{P}^{-1} e^{-t r (\mathbf{I} - \mathbf{S})} \mathbf{P}

The rate r is one for the normalised Laplacians, and half a bound of the spectrum otherwise.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, cast

import numpy as np
import torch
from scipy.sparse import csr_array, dia_array
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .._checks import (
    check_choice,
    check_edge_vector,
    check_instance,
    check_nonnegative,
    check_vector,
    check_weight_range,
    numbers_of,
)
from ..graph.structure import GraphRows, GraphStructure
from ..kernels.chebyshev import Operator
from ..kernels.csr import scipy_indices
from ..kernels.torch_func import is_transformed

NORMALIZATIONS = ("sym", "rw", None)
MANY_SLOTS = 1 << 20  # from here on, memory counts more than a few calls of functions
T = TypeVar("T")
_STEEPEST = 1e6  # roots of degrees that are further apart magnify the rounding of float32


@dataclass(frozen=True)
class HeatOperator:
    """Holds an operator S, with the rate and the scaling that make a Laplacian L of it.

    Of an operator of your own, :func:`~jsem_pyg.diffusion.diffuse` makes one by itself.
    """

    matrix: Operator  #: S, symmetric, with its spectrum in [-1, 1]
    rate: float = 1.0  #: r, half a bound of the spectrum of L
    row_scale: Tensor | None = None  #: [N] the diagonal of P, at most one; None: the identity
    isolated: Tensor | None = None  #: [N] bool, nodes that keep their features; None: no node does
    condition: float = 1.0  #: the condition number of P: how much it can magnify an error
    dtype: torch.dtype | None = None  #: what signals are computed in; None: their own type

    @property
    def num_nodes(self) -> int:
        """The number N of nodes."""
        return self.matrix.num_nodes

    def apply_laplacian(self, x: Tensor) -> Tensor:
        """Return L x for x [N, M]: for laws, spectra and tests; differentiable."""
        scale = None if self.row_scale is None else self.row_scale.unsqueeze(-1)
        scaled = x if scale is None else scale * x
        out = self.rate * (scaled - self.matrix.apply(scaled))
        out = out if scale is None else out / scale
        return out if self.isolated is None else out.masked_fill(self.isolated.unsqueeze(-1), 0.0)


class Entries(NamedTuple):
    """Holds the entries of S, and the other fields of its `HeatOperator`."""

    off_diagonal: Tensor  # [nnz] in the slots
    diagonal: Tensor | None  # [N]; None: zeros
    rate: float = 1.0
    row_scale: Tensor | None = None
    isolated: Tensor | None = None
    condition: float = 1.0


# From entries in the slots and on the diagonal to S
MakeMatrix = Callable[[Tensor, Tensor | None], Operator]


def laplacian_operator(
    structure: GraphRows,
    edge_weight: Tensor | None = None,
    normalization: str | None = "sym",
    conductance: Tensor | None = None,
    backend: str = "auto",
    self_loop: float | Tensor = 0.0,
    dtype: torch.dtype | None = None,
    node_mass: Tensor | None = None,
) -> HeatOperator:
    """Compute the operator of a weighted graph; differentiable in weights and conductance.

    An edge is undirected, so the operator acts with the mean of w_ij and w_ji, and both get the
    same gradient: weights that are learned one by one stay symmetric.

    Args:
        structure: the prepared graph, or the rows of it that this process holds.
        edge_weight: [E] non-negative weights, in the order of the structure's edges; None: ones.
        normalization: "sym" for I - D^(-1/2) W D^(-1/2), "rw" for I - D^(-1) W (Chung 1997,
            sections 1.2 and 1.5), None for D - W.
        conductance: [E] numbers that the weights are multiplied by, in [0, 1]; None: ones.
        backend: what evaluates a series, see :func:`~jsem_pyg.diffusion.heat_diffusion`.
        self_loop: the weight of a loop that is added to every node before the normalisation (Kipf
            and Welling 2017, "Semi-supervised classification with graph convolutional networks",
            equation 2). Beside it an edge counts by its conductance over the mean conductance of
            the edges around, so that a common factor of all conductances changes nothing.
            Or [n] weights of loops, on a graph without isolated nodes. D - W does not depend on
            loops.
        dtype: what signals are computed in, and so the type of the entries of S; None: that of the
            weights. Roots of degrees or masses that differ by more than 1e6 are used in float64.
        node_mass: [n] positive masses M of the nodes, for L = M^(-1) (D - W), with
            `normalization=None`; None: ones.
    """
    check_instance("structure", structure, GraphRows, "a GraphStructure, or rows of one")
    check_choice("normalization", normalization, NORMALIZATIONS)
    for name, values in (("edge_weight", edge_weight), ("conductance", conductance)):
        if values is not None:
            check_edge_vector(name, values, structure.num_edges)
    if not isinstance(self_loop, Tensor):
        check_nonnegative("self_loop", self_loop)
    if dtype is None:
        given = [each.dtype for each in (edge_weight, conductance) if each is not None]
        dtype = functools.reduce(torch.promote_types, given or [torch.get_default_dtype()])
    check_instance("dtype", dtype, torch.dtype, "a torch.dtype or None")
    entries = laplacian_entries(
        structure, edge_weight, normalization, conductance, self_loop, node_mass
    )
    make = functools.partial(structure.make_matrix, backend=backend)
    return operator_of_entries(entries, dtype, make)


def operator_of_entries(entries: Entries, dtype: torch.dtype, make: MakeMatrix) -> HeatOperator:
    """Make an operator of its entries, in a type, or in float64 if the scaling needs it."""
    off_diagonal, diagonal, rate, row_scale, isolated, condition = entries
    if condition > _STEEPEST and off_diagonal.device.type != "mps":
        dtype = torch.float64
    diagonal = None if diagonal is None else diagonal.to(dtype)
    row_scale = None if row_scale is None else row_scale.to(dtype)
    matrix = make(off_diagonal.to(dtype), diagonal)
    return HeatOperator(matrix, rate, row_scale, isolated, condition, dtype)


def laplacian_entries(
    structure: GraphRows,
    edge_weight: Tensor | None,
    normalization: str | None,
    conductance: Tensor | None = None,
    self_loop: float | Tensor = 0.0,
    node_mass: Tensor | None = None,
) -> Entries:
    """Compute the entries of S, see :func:`laplacian_operator`, in float64 (on MPS in float32).

    What is given has passed its checks.
    """
    if node_mass is not None:
        _check_mass(node_mass, structure, normalization)
    make = functools.partial(_entries, structure, normalization, self_loop)
    return _made_again(structure, make, edge_weight, conductance, node_mass)


def _made_again(structure: GraphRows, make: Callable[..., T], *given: Tensor | None) -> T:
    """Return `make(*given)`; of a large graph, its inner values are made again for the gradient.

    Autograd would keep four and more numbers in float64 for each slot until the end of the backward
    pass. To make them anew takes the time of a product with S or two.
    """
    is_learning = any(each is not None and each.requires_grad for each in given)
    is_large = isinstance(structure, GraphStructure) and structure.num_slots >= MANY_SLOTS
    if not (is_large and is_learning and torch.is_grad_enabled()) or is_transformed():
        return make(*given)
    again = checkpoint(
        make, *given, use_reentrant=False, preserve_rng_state=False, determinism_check="none"
    )
    return cast(T, again)


def _entries(
    structure: GraphRows,
    normalization: str | None,
    self_loop: float | Tensor,
    edge_weight: Tensor | None,
    conductance: Tensor | None,
    node_mass: Tensor | None,
) -> Entries:
    weight = _slot_weights(structure, edge_weight, conductance)
    if normalization is None:
        return _combinatorial(structure, weight, node_mass)
    has_loops = isinstance(self_loop, Tensor) or self_loop > 0
    if conductance is not None and has_loops:
        weight = _relative_weights(structure, weight, edge_weight)
    return _normalized(structure, weight, self_loop if has_loops else None, normalization == "rw")


def scipy_matrix(structure: GraphStructure, entries: Entries) -> csr_array:
    """Make S of its entries, as a sparse matrix of SciPy's that leaves isolated nodes as they are.

    It is what a factorisation needs.
    """
    size, (col, rowptr) = structure.num_nodes, scipy_indices(structure.csr)
    away = csr_array((entries.off_diagonal.numpy(), col, rowptr), shape=(size, size))
    stays = np.zeros(size) if entries.diagonal is None else entries.diagonal.numpy()
    if entries.isolated is not None:
        stays = np.where(entries.isolated.numpy(), 1.0, stays)
    return csr_array(away + dia_array((stays[None], [0]), (size, size)))


def _normalized(
    structure: GraphRows, weight: Tensor, self_loop: float | Tensor | None, random_walk: bool
) -> Entries:
    """Compute S_ij = w_ij / sqrt(d_i d_j), loops included; "rw" scales its rows by sqrt(d)."""
    degree = structure.row_sums(weight)
    degree = degree if self_loop is None else degree + self_loop
    fill = (structure.min_max(degree)[1] or 1.0) if random_walk else 1.0  # of no effect
    isolated = None if isinstance(self_loop, float) else degree == 0  # a loop leaves no node alone
    # A GPU would have to wait for the answer to whether there are any.
    if isolated is not None and isolated.device.type == "cpu" and not numbers_of(isolated).any():
        isolated = None
    root = (degree if isolated is None else torch.where(isolated, fill, degree)).sqrt()
    off_diagonal = _between(structure, weight, root.reciprocal())
    diagonal = None if self_loop is None else self_loop / root / root
    alone = isolated if self_loop is None else None
    row_scale, condition = _row_scale(structure, root) if random_walk else (None, 1.0)
    return Entries(off_diagonal, diagonal, 1.0, row_scale, alone, condition)


def _combinatorial(structure: GraphRows, weight: Tensor, mass: Tensor | None) -> Entries:
    r"""Compute S = I - M^(-1/2) (D - W) M^(-1/2) / r, rows times M^(1/2), for M^(-1) (D - W).

    exp(-tL) does not depend on r, nor does its gradient. D - W does not depend on self-loops.
    """
    degree, rate = structure.row_sums(weight), _rate(structure, weight, mass)
    off_diagonal, share = weight / rate, degree / rate
    row_scale, condition = None, 1.0
    if mass is not None:
        root = mass.to(weight.dtype).sqrt()
        off_diagonal, share = _between(structure, off_diagonal, 1 / root), share / root / root
        row_scale, condition = _row_scale(structure, root)
    return Entries(off_diagonal, 1 - share, rate, row_scale, None, condition)


@torch.no_grad()
def _rate(structure: GraphRows, weight: Tensor, mass: Tensor | None) -> float:
    r"""Compute half a bound of the spectrum of M^(-1) (D - W), for weights [nnz] in the slots.

    The largest eigenvalue is at most the maximum of d_i / m_i + d_j / m_j over the edges (Anderson
    and Morley 1985; with weights: D - W shares it with the edge matrix :math:`B^T M^{-1} B \,
    diag(w)`, whose rows have these absolute sums).
    """
    degree = structure.row_sums(weight)
    speed = structure.to_columns(degree if mass is None else degree / mass)
    pair = speed.index_select(0, structure.row) + speed.index_select(0, structure.col)
    rate = structure.min_max(pair)[1] / 2
    return rate if rate > 0 else 1.0  # if nothing flows, any rate will do


def _slot_weights(
    structure: GraphRows, edge_weight: Tensor | None, conductance: Tensor | None = None
) -> Tensor:
    """Multiply weights [E] by conductances [E]: [nnz], the same in both directions of an edge."""
    dtype = torch.float32 if structure.row.device.type == "mps" else torch.float64
    factors = [each.to(dtype) for each in (edge_weight, conductance) if each is not None]
    if not factors:
        factors = [torch.ones(structure.num_edges, dtype=dtype, device=structure.row.device)]
    return structure.symmetric(structure.to_slots(math.prod(factors[1:], start=factors[0])))


def _relative_weights(structure: GraphRows, weight: Tensor, edge_weight: Tensor | None) -> Tensor:
    """Divide weights [nnz] times conductances by the mean conductances of both ends' edges.

    By the geometric mean of both. Beside loops it keeps those that conduct alike as they were,
    however little they conduct.
    """
    part = structure.row_sums(weight)
    whole = _degree(structure, edge_weight)
    flows = part > 0
    if part.device.type == "cpu" and bool(numbers_of(flows).all()):
        mean = part / whole
    else:
        mean = torch.where(flows, part / torch.where(flows, whole, 1), 1)
    return _between(structure, weight, mean.rsqrt())


def _degree(structure: GraphRows, edge_weight: Tensor | None) -> Tensor:
    """Sum the weights [E] around each node: [n]; without weights once for a graph."""
    if edge_weight is not None:
        return structure.row_sums(_slot_weights(structure, edge_weight))
    return structure.once("degree", lambda: structure.row_sums(_slot_weights(structure, None)))


def _between(structure: GraphRows, slots: Tensor, of_node: Tensor) -> Tensor:
    """Multiply values [nnz] of edges by numbers [n] of both ends."""

    def product(spread: Tensor, row: Tensor, col: Tensor) -> Tensor:
        return spread.index_select(0, row) * spread.index_select(0, col)

    spread, count = structure.to_columns(of_node), 8 if len(structure.row) >= MANY_SLOTS else 1
    parts = zip(structure.row.chunk(count), structure.col.chunk(count), strict=True)
    # The product of both first: it is the same in both directions, to the last bit.
    both = [_made_again(structure, product, spread, *part) for part in parts]
    return slots * (both[0] if count == 1 else torch.cat(both))


def _row_scale(structure: GraphRows, root: Tensor) -> tuple[Tensor, float]:
    """Divide roots [n] by the largest of all; return also how far they are apart."""
    lowest, highest = structure.min_max(root)
    condition = highest / lowest if highest > 0 else 1.0  # there may be no rows
    return root / (highest or 1.0), condition


def _check_mass(node_mass: Tensor, structure: GraphRows, normalization: str | None) -> None:
    """Raise unless masses [n] are positive, in the supported range, and go with D - W."""
    check_vector("node_mass", node_mass, structure.num_nodes, "node")
    if normalization is not None:
        raise ValueError(
            "Expected normalization=None with 'node_mass', for L = M^-1 (D - W) "
            f"(got {normalization!r})."
        )
    check_weight_range("node_mass", node_mass)
    if bool((numbers_of(node_mass) == 0).any()):
        raise ValueError("Expected 'node_mass' to be positive (got zeros).")
