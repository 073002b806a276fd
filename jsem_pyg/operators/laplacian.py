r"""The symmetric operator S of a weighted graph, with its spectrum in [-1, 1].

.. math::
    \mathbf{L} = \mathrm{diag}(r) (\mathbf{I} - \mathbf{S})

where the rate r is one for the normalised Laplacians, and half a bound of the spectrum of a node's
connected component otherwise. This is the only file that takes the inverse root of a degree.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._checks import (
    check_choice,
    check_edge_vector,
    check_instance,
    check_nonnegative,
    numbers_of,
)
from ..graph import GraphStructure
from ..kernels.csr import CSR
from ..kernels.table import CHEBYSHEV
from ..kernels.torch_func import check_forward_mode, is_transformed
from .heat_operator import HeatOperator, Scaling

NORMALIZATIONS = ("sym", "rw", None)


class Entries(NamedTuple):
    """The entries of S, before a kernel is chosen for it."""

    off_diagonal: Tensor  # [nnz] in the slots of the structure
    diagonal: Tensor | None  # [N], where S has one
    scaling: Scaling  # what else the Laplacian is made of

    def to(self, dtype: torch.dtype) -> "Entries":
        """The same entries in another type."""
        diagonal = None if self.diagonal is None else self.diagonal.to(dtype)
        return Entries(self.off_diagonal.to(dtype), diagonal, self.scaling.to(dtype))


def laplacian_operator(
    structure: GraphStructure,
    edge_weight: Tensor,
    normalization: str | None = "sym",
    conductance: Tensor | None = None,
    backend: str = "auto",
    self_loop: float = 0.0,
    dtype: torch.dtype | None = None,
) -> HeatOperator:
    """Compute the operator of a weighted graph; differentiable in weights and conductance.

    An edge is undirected, so the operator acts with the mean of w_ij and w_ji, and both get the
    same gradient: weights that are learned one by one stay symmetric.

    Args:
        structure: the prepared graph.
        edge_weight: [E] non-negative weights, in the order of the structure's edges.
        normalization: "sym" for I - D^(-1/2) W D^(-1/2), "rw" for I - D^(-1) W (Chung 1997,
            sections 1.2 and 1.5), None for D - W.
        conductance: [E] numbers in (0, 1] that the weights are multiplied by; None: ones.
        backend: what applies it, see :func:`~jsem_pyg.diffusion.heat_diffusion`.
        self_loop: the weight of a loop that is added to every node before the normalisation (Kipf
            and Welling 2017, "Semi-supervised classification with graph convolutional networks",
            equation 2); D - W does not depend on it.
        dtype: what signals are computed in, and so the type of the entries of S, which are of order
            one, whatever the weights; None: that of the weights.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if `normalization` or `backend` is none of these, the backend cannot run, or
            weights or conductance do not fit the edges. Their values are not looked at.
    """
    check_instance("structure", structure, GraphStructure, "a GraphStructure")
    check_edge_vector("edge_weight", edge_weight, structure.num_edges)
    if conductance is not None:
        check_edge_vector("conductance", conductance, structure.num_edges)
    check_nonnegative("self_loop", self_loop)
    if dtype is not None:
        check_instance("dtype", dtype, torch.dtype, "a torch.dtype or None")
    kernel = CHEBYSHEV.find(backend, edge_weight.device)
    dtype = edge_weight.dtype if dtype is None else dtype
    entries = laplacian_entries(
        structure, edge_weight, normalization, conductance, self_loop, dtype
    )
    if entries.diagonal is None:
        pattern, values = structure.csr, entries.off_diagonal
    else:
        pattern, order = structure.csr_with_diagonal
        values = torch.cat([entries.off_diagonal, entries.diagonal]).index_select(0, order)
    return HeatOperator(kernel.SparseOperator(pattern, values), entries.scaling, dtype)


def laplacian_entries(
    structure: GraphStructure,
    edge_weight: Tensor,
    normalization: str | None,
    conductance: Tensor | None = None,
    self_loop: float = 0.0,
    dtype: torch.dtype | None = None,
) -> Entries:
    """Compute the entries of S; see :func:`laplacian_operator`."""
    check_choice("normalization", normalization, NORMALIZATIONS)
    # Narrowed only once they are of order one: weights of float64 may be out of float32's range.
    entries = _entries(structure, edge_weight, normalization, conductance, self_loop)
    return entries if dtype is None else entries.to(dtype)


def _entries(
    structure: GraphStructure,
    edge_weight: Tensor,
    normalization: str | None,
    conductance: Tensor | None,
    self_loop: float,
) -> Entries:
    weight = structure.symmetric(structure.to_slots(edge_weight))
    if structure.has_repeated_edges and conductance is not None:
        # Edges that share a slot conduct side by side: their weights add up, each as it conducts.
        weight = structure.symmetric(structure.to_slots(edge_weight * conductance))
        conductance = None
    elif conductance is not None:
        conductance = structure.symmetric(structure.to_slots(conductance))
    if normalization is None or self_loop > 0:
        weight = weight if conductance is None else weight * conductance
    if normalization is None:
        return _combinatorial(structure, weight)
    if self_loop > 0:
        return _with_self_loops(structure.csr, weight, self_loop, normalization == "rw")
    return _normalized(structure.csr, weight, conductance, normalization == "rw")


def _normalized(csr: CSR, weight: Tensor, conductance: Tensor | None, random_walk: bool) -> Entries:
    r"""S_ij = w_ij h_ij / sqrt(d'_i d'_j), from numbers of order one, whatever the scale of w.

    With P_ij = w_ij / d_i and S0 = D^(-1/2) W D^(-1/2) of the weights as they are given,
    S_ij = S0_ij h_ij / sqrt(q_i q_j), where q_i = sum_j P_ij h_ij = d'_i / d_i.
    """
    values, degree = symmetric_normalize(csr, weight, weight)
    isolated = degree == 0
    safe_degree = torch.where(isolated, torch.ones_like(degree), degree)
    root = safe_degree.sqrt() if random_walk else None
    if conductance is not None:
        share = weight / safe_degree.index_select(0, csr.row)
        values, remaining = symmetric_normalize(csr, values * conductance, share * conductance)
        if root is not None:
            root = root * torch.where(isolated, torch.ones_like(remaining), remaining).sqrt()
    # A GPU would have to wait for the answer to whether there are any.
    has_isolated = isolated.device.type != "cpu" or bool(numbers_of(isolated).any())
    scaling = Scaling(row_scale=root, isolated=isolated if has_isolated else None)
    return Entries(values, None, scaling)


def _with_self_loops(csr: CSR, weight: Tensor, self_loop: float, random_walk: bool) -> Entries:
    """S = (D + l I)^(-1/2) (W + l I) (D + l I)^(-1/2); an isolated node has only its loop."""
    values, degree = symmetric_normalize(csr, weight, weight, self_loop)
    scaling = Scaling(row_scale=degree.sqrt() if random_walk else None)
    return Entries(values, self_loop / degree, scaling)


def symmetric_normalize(
    csr: CSR, a: Tensor, b: Tensor, self_loop: float = 0.0
) -> tuple[Tensor, Tensor]:
    r"""Entries a_ij / sqrt(d_i d_j), degrees d_i = l + sum_j b_ij; zero in rows without weight.

    Computed so that nothing over- or underflows whose result does not, gradients included.

    Args:
        csr: a symmetric pattern.
        a: [nnz] non-negative, symmetric, at most of the order of b.
        b: [nnz] non-negative.
        self_loop: l >= 0.

    Returns:
        [nnz] and [N]; differentiable, more than once.
    """
    values, degree = _SymmetricNormalize.apply(a, b, csr, self_loop)
    return values, degree


class _SymmetricNormalize(torch.autograd.Function):
    """Its derivative is written in terms of its results, which are all that has to be kept."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor, csr: CSR, self_loop: float) -> tuple[Tensor, Tensor]:
        degree = self_loop + _row_sums(csr, b)
        inverse_root = _inverse_root(degree)
        # Two roots of a, so that no product overflows; and S is symmetric to the last bit.
        root = a.sqrt()
        left = root * inverse_root.index_select(0, csr.row)
        return left.mul_(root.mul_(inverse_root.index_select(0, csr.col))), degree

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: tuple[Tensor, Tensor]) -> None:
        ctx.csr = inputs[2]
        ctx.save_for_backward(*output)
        ctx.save_for_forward(*output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_degree: Tensor) -> tuple[Any, ...]:
        values, degree = ctx.saved_tensors
        csr: CSR = ctx.csr
        inverse_root = _inverse_root(degree)
        grad_a = (
            grad * inverse_root.index_select(0, csr.row) * inverse_root.index_select(0, csr.col)
        )
        # d S_ij / d d_i = -S_ij / (2 d_i), and the same for d_j.
        product = grad * values
        both = _row_sums(csr, product).index_add(0, csr.col, product)
        of_degree = grad_degree - 0.5 * both * inverse_root * inverse_root
        return grad_a, of_degree.index_select(0, csr.row), None, None

    @staticmethod
    def jvp(ctx: Any, of_a: Tensor, of_b: Tensor, *_: None) -> tuple[Tensor, Tensor]:
        check_forward_mode()
        values, degree = ctx.saved_tensors
        csr: CSR = ctx.csr
        inverse_root = _inverse_root(degree)
        of_degree = _row_sums(csr, of_b)
        relative = 0.5 * of_degree * inverse_root * inverse_root
        both = relative.index_select(0, csr.row) + relative.index_select(0, csr.col)
        of_a = of_a * inverse_root.index_select(0, csr.row) * inverse_root.index_select(0, csr.col)
        return of_a - values * both, of_degree


def _row_sums(csr: CSR, values: Tensor) -> Tensor:
    return values.new_zeros(csr.num_rows).index_add(0, csr.row, values)


def _inverse_root(degree: Tensor) -> Tensor:
    """d^(-1/2), and zero where d is zero: the rows of S there are zero."""
    positive = degree > 0
    safe_degree = torch.where(positive, degree, torch.ones_like(degree))
    return torch.where(positive, safe_degree.rsqrt(), torch.zeros_like(degree))


def _combinatorial(structure: GraphStructure, weight: Tensor) -> Entries:
    r"""S = I - (2 / bound) (D - W), with a bound of its own for every connected component.

    The largest eigenvalue of D - W is at most the maximum of d_i + d_j over the edges (Anderson and
    Morley 1985; with weights: D - W shares it with the edge matrix :math:`B^T B \, diag(w)`, whose
    rows have the absolute sums d_i + d_j). A component of its own means that a graph in a batch
    diffuses exactly as it does alone. exp(-tL) does not depend on the bound, nor does its gradient.
    """
    csr, component = structure.csr, structure.component
    degree = _row_sums(csr, weight)
    with torch.no_grad():
        # Halves first: the sum of two degrees may overflow.
        half = degree / 2
        pair = half.index_select(0, csr.row) + half.index_select(0, csr.col)
        rate = degree.new_zeros(structure.num_components).scatter_reduce(
            0, component.index_select(0, csr.row), pair, "amax"
        )
        has_edges = csr.degree.new_zeros(rate.numel()).index_add(0, component, csr.degree) > 0
        rate = _round_up(_without_zeros(rate))
        of_node = rate.index_select(0, component)
        rate, group = torch.where(has_edges, rate, 0), component
        # A group costs coefficients; but for the number of them a GPU would have to wait.
        if rate.device.type == "cpu" and not is_transformed():
            rate, same = rate.unique(return_inverse=True)
            group = same.index_select(0, component)
    # Quotients, since the inverse of a rate may overflow.
    off_diagonal = weight / of_node.index_select(0, csr.row)
    return Entries(off_diagonal, 1 - degree / of_node, Scaling(rate=rate, group=group))


def _without_zeros(rate: Tensor) -> Tensor:
    """Rates [G], the largest of all for components without weight.

    Nothing flows there, whatever the rate; but a rate of zero would hide the gradient.
    """
    if rate.numel() == 0:
        return rate
    largest = rate.max()
    return torch.where(rate > 0, rate, torch.where(largest > 0, largest, 1.0))


def _round_up(rate: Tensor) -> Tensor:
    """The next of eight values to a power of two: thousands of components share a few rates.

    A bound of the spectrum that is a few per cent higher is one as well.
    """
    fraction, exponent = torch.frexp(rate)  # the fraction is in [1/2, 1)
    return torch.ldexp(torch.ceil(fraction * 16) / 16, exponent)
