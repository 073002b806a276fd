r"""The symmetric operator S of a weighted graph, with its spectrum in [-1, 1].

.. math::
    \mathbf{L} = \mathrm{diag}(r) (\mathbf{I} - \mathbf{S})

where the rate r is one for the normalised Laplacians, and half a bound of the spectrum of a node's
connected component otherwise.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._checks import (
    check_choice,
    check_edge_vector,
    check_float,
    check_instance,
    check_nonnegative,
    check_vector,
    numbers_of,
)
from .._precision import inverse_square_root, power_of_two, square_root
from ..graph.rows import GraphRows
from ..kernels.table import CHEBYSHEV, lists_backends
from ..kernels.torch_func import LightFunction, check_forward_mode, is_transformed
from .heat_operator import HeatOperator, Scaling


class Entries(NamedTuple):
    """The entries of S, before a kernel is chosen for it."""

    off_diagonal: Tensor  # [nnz] in the slots of the structure
    diagonal: Tensor | None  # [N], where S has one
    scaling: Scaling  # what else the Laplacian is made of

    def to(self, dtype: torch.dtype) -> "Entries":
        """The same entries in another type."""
        diagonal = None if self.diagonal is None else self.diagonal.to(dtype)
        return Entries(self.off_diagonal.to(dtype), diagonal, self.scaling.to(dtype))


@lists_backends(CHEBYSHEV)
def laplacian_operator(
    structure: GraphRows,
    edge_weight: Tensor | None = None,
    normalization: str | None = "sym",
    conductance: Tensor | None = None,
    backend: str = "auto",
    self_loop: float = 0.0,
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
        backend: {backends}.
        self_loop: the weight of a loop that is added to every node before the normalisation (Kipf
            and Welling 2017, "Semi-supervised classification with graph convolutional networks",
            equation 2). Beside it edges count by their conductance over the means (geometric, of
            both ends) of those around: closing all edges does not switch the graph off.
        dtype: what signals are computed in, and so the type of the entries of S, which are of order
            one, whatever the weights; None: that of the weights.
        node_mass: [n] positive masses M of the nodes, for L = M^(-1) (D - W), with
            `normalization=None`; None: ones.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if `normalization` or `backend` is none of these, the backend cannot run, or
            weights or conductance do not fit the edges. Their values are not looked at.
    """
    check_instance("structure", structure, GraphRows, "a GraphStructure, or rows of one")
    if edge_weight is not None:
        check_edge_vector("edge_weight", edge_weight, structure.num_edges)
    if conductance is not None:
        check_edge_vector("conductance", conductance, structure.num_edges)
    check_nonnegative("self_loop", self_loop)
    if dtype is not None:
        check_instance("dtype", dtype, torch.dtype, "a torch.dtype or None")
    CHEBYSHEV.choose(backend, structure.device)  # refused before anything is computed
    entries = laplacian_entries(
        structure, edge_weight, normalization, conductance, self_loop, dtype, node_mass
    )
    matrix = structure.make_matrix(entries.off_diagonal, entries.diagonal, backend)
    return HeatOperator(matrix, entries.scaling, entries.off_diagonal.dtype)


def laplacian_entries(
    structure: GraphRows,
    edge_weight: Tensor | None,
    normalization: str | None,
    conductance: Tensor | None = None,
    self_loop: float = 0.0,
    dtype: torch.dtype | None = None,
    node_mass: Tensor | None = None,
) -> Entries:
    """Compute the entries of S; see :func:`laplacian_operator`."""
    check_choice("normalization", normalization, NORMALIZATIONS)
    if node_mass is not None:
        _check_mass(node_mass, structure, normalization)
    if edge_weight is None:
        wide = dtype if conductance is None else conductance.dtype
        edge_weight = torch.ones(structure.num_edges, dtype=wide, device=structure.device)
    # Narrowed only once they are of order one: weights of float64 may be out of float32's range.
    entries = _entries(structure, edge_weight, normalization, conductance, self_loop, node_mass)
    entries = entries._replace(scaling=structure.share_range(entries.scaling))
    return entries if dtype is None else entries.to(dtype)


def _entries(
    structure: GraphRows,
    edge_weight: Tensor,
    normalization: str | None,
    conductance: Tensor | None,
    self_loop: float,
    node_mass: Tensor | None,
) -> Entries:
    weight = structure.symmetric(structure.to_slots(edge_weight))
    has_loops = self_loop > 0 and normalization is not None
    if conductance is not None and (structure.has_repeated_edges or has_loops):
        # Edges that share a slot conduct side by side: their weights add up, each as it conducts.
        whole = weight
        weight = structure.symmetric(structure.to_slots(edge_weight * conductance))
        conductance = None
        if has_loops:
            mean = structure.spread(_mean_conductance(structure, weight, whole))
            weight = _DivideByRoots.call(weight, mean, structure.row, structure.col)
    elif conductance is not None:
        conductance = structure.symmetric(structure.to_slots(conductance))
    if node_mass is not None:
        mass = node_mass.to(torch.promote_types(node_mass.dtype, weight.dtype))
        return _combinatorial(structure, weight, conductance, self_loop, mass)
    return NORMALIZATIONS[normalization](structure, weight, conductance, self_loop)


def _mean_conductance(structure: GraphRows, part: Tensor, whole: Tensor) -> Tensor:
    """The mean conductance [n] of the edges of a node, by weight; one where none conducts."""
    part, whole = structure.row_sums(part), structure.row_sums(whole)
    conducts = part > 0
    ratio = part / torch.where(conducts, whole, torch.ones_like(whole))
    return torch.where(conducts, ratio, torch.ones_like(ratio))


def _check_mass(node_mass: Tensor, structure: GraphRows, normalization: str | None) -> None:
    check_float("node_mass", node_mass)
    check_vector("node_mass", node_mass, structure.num_nodes, "node")
    if normalization is not None:
        raise ValueError(
            "Expected normalization=None with 'node_mass', for L = M^-1 (D - W) "
            f"(got {normalization!r})."
        )
    mass = numbers_of(node_mass)
    if not bool(((mass > 0) & mass.isfinite()).all()):
        raise ValueError("Expected 'node_mass' to be positive and finite (got other masses).")


def _product(weight: Tensor, conductance: Tensor | None) -> Tensor:
    return weight if conductance is None else weight * conductance


def _normalized(
    structure: GraphRows,
    weight: Tensor,
    conductance: Tensor | None,
    self_loop: float,
    *,
    random_walk: bool,
) -> Entries:
    r"""L = I - S, S_ij = w_ij h_ij / sqrt(d'_i d'_j), or L = I - D^(-1) W, which is similar to it.

    With P_ij = w_ij / d_i and S0 = D^(-1/2) W D^(-1/2) of the weights as they are given,
    S_ij = S0_ij h_ij / sqrt(q_i q_j), where q_i = sum_j P_ij h_ij = d'_i / d_i: numbers of order
    one, whatever the scale of w.
    """
    if self_loop > 0:
        return _with_self_loops(structure, weight, self_loop, random_walk)
    values, degree = symmetric_normalize(structure, weight, weight)
    isolated = degree == 0
    safe_degree = torch.where(isolated, torch.ones_like(degree), degree)
    root = square_root(safe_degree) if random_walk else None
    if conductance is not None:
        unit, row = power_of_two(safe_degree), structure.row  # in which no derivative overflows
        relative = (safe_degree / unit).index_select(0, row)
        share = weight / unit.index_select(0, row) / relative
        values, remaining = symmetric_normalize(
            structure, values * conductance, share * conductance
        )
        isolated = remaining == 0  # also where no edge conducts
        if root is not None:
            remaining = torch.where(isolated, torch.ones_like(remaining), remaining)
            root = root * square_root(remaining)
    # A GPU would have to wait for the answer to whether there are any.
    has_isolated = isolated.device.type != "cpu" or bool(numbers_of(isolated).any())
    scaling = Scaling(row_scale=root, isolated=isolated if has_isolated else None)
    return Entries(values, None, scaling)


def _with_self_loops(
    structure: GraphRows, weight: Tensor, self_loop: float, random_walk: bool
) -> Entries:
    """S = (D + l I)^(-1/2) (W + l I) (D + l I)^(-1/2); an isolated node has only its loop."""
    values, degree = symmetric_normalize(structure, weight, weight, self_loop)
    scaling = Scaling(row_scale=square_root(degree) if random_walk else None)
    return Entries(values, self_loop / degree, scaling)


def symmetric_normalize(
    structure: GraphRows, a: Tensor, b: Tensor, self_loop: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Entries a_ij / sqrt(d_i d_j), degrees d_i = l + sum_j b_ij; zero in rows without weight.

    Both are [nnz] and non-negative, a symmetric and at most of the order of b. Computed so that
    nothing over- or underflows whose result does not, gradients included.
    """
    degree = self_loop + structure.row_sums(b)
    values = _DivideByRoots.call(a, structure.spread(degree), structure.row, structure.col)
    return values, degree


class _DivideByRoots(LightFunction):
    """a_ij / sqrt(d_i d_j); its derivative is written in terms of its result."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, degree: Tensor, row: Tensor, col: Tensor) -> Tensor:
        inverse_root = _inverse_root(degree)
        # Two roots of a, so that no product overflows; and S is symmetric to the last bit.
        root = a.sqrt()
        left = root * inverse_root.index_select(0, row)
        return left.mul_(root.mul_(inverse_root.index_select(0, col)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(output, *inputs[1:])
        ctx.save_for_forward(output, *inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        values, degree, row, col = ctx.saved_tensors
        inverse_root = _inverse_root(degree)
        grad_a = grad * inverse_root.index_select(0, row) * inverse_root.index_select(0, col)
        # d S_ij / d d_i = -S_ij / (2 d_i), and the same for d_j.
        product = grad * values
        both = torch.zeros_like(degree).index_add(0, row, product).index_add(0, col, product)
        return grad_a, -0.5 * both * inverse_root * inverse_root, None, None

    @staticmethod
    def jvp(ctx: Any, of_a: Tensor, of_degree: Tensor, *_: None) -> Tensor:
        check_forward_mode()
        values, degree, row, col = ctx.saved_tensors
        inverse_root = _inverse_root(degree)
        relative = 0.5 * of_degree * inverse_root * inverse_root
        both = relative.index_select(0, row) + relative.index_select(0, col)
        of_a = of_a * inverse_root.index_select(0, row) * inverse_root.index_select(0, col)
        return of_a - values * both


def _inverse_root(degree: Tensor) -> Tensor:
    """d^(-1/2), and zero where d is zero: the rows of S there are zero."""
    positive = degree > 0
    safe_degree = torch.where(positive, degree, torch.ones_like(degree))
    return torch.where(positive, inverse_square_root(safe_degree), torch.zeros_like(degree))


def _combinatorial(
    structure: GraphRows,
    weight: Tensor,
    conductance: Tensor | None,
    self_loop: float,
    mass: Tensor | None = None,
) -> Entries:
    r"""S = I - (2 / bound) (D - W), with a bound of its own for every connected component.

    The largest eigenvalue of D - W is at most the maximum of d_i + d_j over the edges (Anderson and
    Morley 1985; with weights: D - W shares it with the edge matrix :math:`B^T B \, diag(w)`, whose
    rows have the absolute sums d_i + d_j). A component of its own means that a graph in a batch
    diffuses exactly as it does alone. exp(-tL) does not depend on the bound, nor does its gradient.
    D - W does not depend on self-loops.

    With masses, S = I - (2 / bound) M^(-1/2) (D - W) M^(-1/2), and M^(1/2) is the scale of the
    rows: L = M^(-1) (D - W). The edge matrix is then :math:`B^T M^{-1} B \, diag(w)`, whose rows
    have the absolute sums d_i / m_i + d_j / m_j.
    """
    weight = _product(weight, conductance)
    component = structure.component
    degree = structure.row_sums(weight)
    root = None if mass is None else square_root(mass)
    inverse = None if mass is None else inverse_square_root(mass)
    with torch.no_grad():
        # Halves first: the sum of two degrees may overflow.
        half = structure.spread(degree / 2 if inverse is None else degree / 2 * inverse * inverse)
        pair = half.index_select(0, structure.row) + half.index_select(0, structure.col)
        rate = structure.largest_of_components(pair)
        has_edges = rate >= 0
        rate = _round_up(_without_zeros(rate, structure))
        of_node = rate.index_select(0, component)
        rate, group = torch.where(has_edges, rate, 0), component
        # A group costs coefficients, but to count the groups a GPU would have to wait.
        if rate.device.type == "cpu" and not is_transformed():
            rate, same = rate.detach().unique(return_inverse=True)  # it has no forward mode
            group = same.index_select(0, component)
    # Quotients, since the inverse of a rate may overflow.
    off_diagonal, share = weight / of_node.index_select(0, structure.row), degree / of_node
    if inverse is not None:
        # By one root after the other, since their product may overflow, as may its gradient.
        share = share * inverse * inverse
        inverse = structure.spread(inverse)
        off_diagonal = off_diagonal * inverse.index_select(0, structure.row)
        off_diagonal = off_diagonal * inverse.index_select(0, structure.col)
    return Entries(off_diagonal, 1 - share, Scaling(rate=rate, group=group, row_scale=root))


def _without_zeros(rate: Tensor, structure: GraphRows) -> Tensor:
    """Rates [G], the largest of all for components without weight.

    Nothing flows there, whatever the rate; but a rate of zero would hide the gradient.
    """
    highest = rate.max() if rate.numel() else rate.new_zeros(())
    largest = structure.largest(highest)
    return torch.where(rate > 0, rate, torch.where(largest > 0, largest, 1.0))


def _round_up(rate: Tensor) -> Tensor:
    """The next of eight values to a power of two: thousands of components share a few rates.

    A bound of the spectrum that is a few per cent higher is one as well.
    """
    fraction, exponent = torch.frexp(rate)  # the fraction is in [1/2, 1)
    return torch.ldexp(torch.ceil(fraction * 16) / 16, exponent)


# How a Laplacian is made of weights, by the name of its normalisation.
NORMALIZATIONS: dict[str | None, Callable[..., Entries]] = {
    "sym": partial(_normalized, random_walk=False),
    "rw": partial(_normalized, random_walk=True),
    None: _combinatorial,
}
