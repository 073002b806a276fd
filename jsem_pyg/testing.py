"""Public assertions: the laws of diffusion, for your own functions, operators and backends.

All raise an AssertionError that shows the numbers that disagree.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, to_undirected

from ._random import seeded
from .kernels.csr import CSR
from .kernels.table import CHEBYSHEV


def random_graph(
    num_nodes: int,
    probability: float = 0.2,
    num_isolated: int = 0,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Draw a random undirected graph with weights in [0.1, 1.1).

    Args:
        num_nodes: N.
        probability: that two nodes are joined.
        num_isolated: how many nodes, at the end, have no edge for certain.
        seed: of the random numbers.
        dtype: of the weights.

    Returns:
        edge_index [2, E], sorted, and edge_weight [E].
    """
    generator = seeded(seed)
    chosen = torch.rand(num_nodes, num_nodes, generator=generator) < probability
    last = num_nodes - num_isolated
    chosen[last:], chosen[:, last:] = False, False
    edge_index = chosen.triu(diagonal=1).nonzero().t().contiguous()
    weight = 0.1 + torch.rand(edge_index.size(1), generator=generator, dtype=dtype)
    edge_index, weight = to_undirected(edge_index, weight, num_nodes)
    edge_index, weight = coalesce(edge_index, weight, num_nodes)
    return edge_index, weight


def assert_backends_agree(
    backend: str,
    csr: CSR,
    values: Tensor,
    x: Tensor,
    coefficients: Tensor,
    rtol: float | None = None,
) -> None:
    """Assert that a backend gives the reference's values and gradients.

    Of the gradient in S only the sum over both directions of an edge has a meaning, since S is
    symmetric: backends may divide it between them as they like.

    Args:
        backend: its name, as in :func:`jsem_pyg.diffusion.heat_diffusion`.
        csr: the pattern of a symmetric matrix S.
        values: [nnz] its entries.
        x: [N, M] columns.
        coefficients: [K + 1, S, channels].
        rtol: the relative error of each result; None: 1e-10 in float64, 1e-4 in float32.
    """
    if rtol is None:
        rtol = 1e-10 if x.dtype == torch.float64 else 1e-4
    results = []
    for name in ("reference", backend):
        s, signal, c = (
            each.detach().clone().requires_grad_() for each in (values, x, coefficients)
        )
        kernel = CHEBYSHEV.find(name, x.device)
        out = kernel.SparseOperator(csr, s).series(signal, c)
        direction = torch.linspace(-1, 2, out.numel(), dtype=out.dtype, device=out.device)
        out.backward(direction.sin().reshape(out.shape))
        grad_s, *gradients = (
            torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in (s, signal, c)
        )
        results.append((out.detach(), _both_directions(csr, grad_s), *gradients))
    for what, expected, actual in zip(
        ("values", "gradient in S", "gradient in x", "gradient in the coefficients"),
        *results,
        strict=True,
    ):
        _assert_relative(f"{backend!r} and 'reference', {what}", actual, expected, rtol)


def _both_directions(csr: CSR, slots: Tensor) -> Tensor:
    """Add the entries [nnz] of (i, j) and (j, i): one sum for each undirected edge."""
    row, col = csr.row.long(), csr.col.long()
    low, high = torch.minimum(row, col), torch.maximum(row, col)
    pair = torch.unique(low * max(csr.num_rows, 1) + high, return_inverse=True)[1]
    return slots.new_zeros(slots.numel()).index_add(0, pair, slots)


def assert_permutation_equivariant(
    diffuse: Callable[[Tensor, Tensor, Tensor], Tensor],
    x: Tensor,
    edge_index: Tensor,
    edge_weight: Tensor,
    rtol: float = 1e-6,
) -> None:
    """Assert that renumbering the nodes renumbers the result, and that the edges' order is free.

    Args:
        diffuse: maps (x, edge_index, edge_weight) to [..., N, D].
        x: [..., N, D].
        edge_index: [2, E].
        edge_weight: [E].
        rtol: relative error allowed.
    """
    generator = torch.Generator().manual_seed(0)
    # Turned by one, since a random order of two is often the one they have.
    order = torch.randperm(x.size(-2), generator=generator).roll(1)
    shuffle = torch.randperm(edge_index.size(1), generator=generator).roll(1)
    moved = diffuse(
        x.index_select(-2, order), order.argsort()[edge_index][:, shuffle], edge_weight[shuffle]
    )
    expected = diffuse(x, edge_index, edge_weight).index_select(-2, order)
    _assert_relative("a graph and its renumbering", moved, expected, rtol)


def assert_heat_laws(
    diffuse: Callable[[Tensor, float], Tensor], x: Tensor, rtol: float = 1e-5
) -> None:
    """Assert the laws of a heat semigroup: t = 0 is the identity, and times add up.

    Layers have times > 0 as parameters: call the function that they call, such as
    :func:`~jsem_pyg.diffusion.heat_diffusion`.

    Args:
        diffuse: maps (x, t) to exp(-tL) x, for times t >= 0.
        x: [..., N, D].
        rtol: relative error allowed.
    """
    _assert_relative("t = 0 and the identity", diffuse(x, 0.0), x, rtol)
    twice = diffuse(diffuse(x, 0.7), 1.6)
    _assert_relative("t = 0.7, then 1.6, and t = 2.3", twice, diffuse(x, 2.3), rtol)


def _assert_relative(what: str, actual: Tensor, expected: Tensor, rtol: float) -> None:
    if actual.shape != expected.shape:
        raise AssertionError(f"{what}: shapes {list(actual.shape)} and {list(expected.shape)}.")
    actual, expected = actual.detach().double(), expected.detach().double()
    error = float((actual - expected).norm()) / max(float(expected.norm()), 1e-300)
    if not error <= rtol:
        raise AssertionError(f"{what}: a relative error of {error:.3g}, above {rtol:.3g}.")
