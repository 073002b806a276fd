"""Every backend against the reference: values and all gradients, on awkward graphs."""

import pytest
import torch
from largest import LargestTensor
from laws import assert_relative, random_graph

from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.csr import CSR
from jsem_pyg.kernels.table import CHEBYSHEV
from jsem_pyg.operators import laplacian_operator

CPU = torch.device("cpu")
FAST = [n for n in CHEBYSHEV.backends if n != "reference" and CHEBYSHEV.can_run(n, CPU)]
SIZES = [(1, 0), (2, 0), (63, 3), (100, 0)]


def problem(num_nodes, num_isolated, channels, degree, dtype, scales=1, per_channel=1):
    edge_index, weight = random_graph(num_nodes, 0.1, num_isolated, dtype=dtype)
    operator = laplacian_operator(GraphStructure(edge_index, num_nodes), weight, backend="torch")
    generator = torch.Generator().manual_seed(num_nodes)
    x = torch.randn(num_nodes, channels, dtype=dtype, generator=generator)
    coefficients = torch.randn(degree + 1, scales, per_channel, dtype=dtype, generator=generator)
    return operator.matrix.csr, operator.matrix.values[0], x, coefficients


def evaluate(backend, csr, values, x, coefficients):
    operator = CHEBYSHEV.find(backend, CPU).SparseOperator(csr, values)
    return operator.series(x, coefficients)


def assert_backends_agree(backend, csr, values, x, coefficients, rtol=None):
    """A backend gives the reference's values and gradients.

    Of the gradient in S only the sum over both directions of an edge has a meaning, since S is
    symmetric: backends may divide it between them as they like.
    """
    if rtol is None:
        rtol = 1e-10 if x.dtype == torch.float64 else 1e-4
    results = []
    for name in ("reference", backend):
        s, signal, c = (
            each.detach().clone().requires_grad_() for each in (values, x, coefficients)
        )
        out = evaluate(name, csr, s, signal, c)
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
        assert_relative(f"{backend!r} and 'reference', {what}", actual, expected, rtol)


def _both_directions(csr, slots):
    """Add the entries [nnz] of (i, j) and (j, i): one sum for each undirected edge."""
    row, col = csr.row.long(), csr.col.long()
    low, high = torch.minimum(row, col), torch.maximum(row, col)
    pair = torch.unique(low * max(csr.num_rows, 1) + high, return_inverse=True)[1]
    return slots.new_zeros(slots.numel()).index_add(0, pair, slots)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 20])
@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients(backend, dtype, degree, size):
    assert_backends_agree(backend, *problem(*size, channels=17, degree=degree, dtype=dtype))


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("scales", [1, 3])
@pytest.mark.parametrize("per_channel", [1, 5])
def test_scales_and_channels(backend, scales, per_channel):
    shape = {"scales": scales, "per_channel": per_channel}
    case = problem(40, 2, channels=5, degree=6, dtype=torch.float64, **shape)
    assert_backends_agree(backend, *case)


@pytest.mark.parametrize("backend", FAST)
def test_needs_no_gradient_of_what_is_fixed(backend):
    csr, values, x, coefficients = problem(30, 0, 3, 5, torch.float64)
    full = [each.clone().requires_grad_() for each in (values, x, coefficients)]
    expected = torch.autograd.grad(evaluate(backend, csr, *full).sin().sum(), full)
    for which in range(3):
        leaves = [values, x, coefficients]
        leaves[which] = leaves[which].clone().requires_grad_()
        (actual,) = torch.autograd.grad(evaluate(backend, csr, *leaves).sin().sum(), leaves[which])
        torch.testing.assert_close(actual, expected[which])


@pytest.mark.parametrize("keep", ["retain_graph", "create_graph"])
@pytest.mark.parametrize("backend", FAST)
def test_backward_may_run_twice(backend, keep):
    csr, values, x, coefficients = problem(30, 0, 3, 7, torch.float64)
    leaves = [each.clone().requires_grad_() for each in (values, x, coefficients)]
    y = evaluate(backend, csr, *leaves).sin().sum()
    first = torch.autograd.grad(y, leaves, **{keep: True})
    second = torch.autograd.grad(y, leaves)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", FAST)
def test_the_input_is_left_alone(backend):
    csr, values, x, coefficients = problem(30, 0, 3, 7, torch.float64)
    before = x.clone()
    x.requires_grad_()
    evaluate(backend, csr, values, x, coefficients).sum().backward()
    assert torch.equal(x.detach(), before)


def test_torch_never_makes_messages_or_dense_matrices():
    num_nodes, channels = 300, 8
    csr, values, x, coefficients = problem(num_nodes, 0, channels, 10, torch.float32)
    leaves = [each.clone().requires_grad_() for each in (values, x, coefficients)]
    assert num_nodes * channels < values.numel() * channels / 10  # so that messages would show
    sizes = {}
    for backend in ("torch", "reference"):
        with LargestTensor() as largest:
            evaluate(backend, csr, *leaves).sum().backward()
        sizes[backend] = largest.most
    assert sizes["torch"] <= max(num_nodes * channels, values.numel())
    assert sizes["reference"] == values.numel() * channels


def test_an_empty_pattern():
    empty = torch.empty(0, dtype=torch.long)
    csr = CSR(torch.zeros(4, dtype=torch.long), empty.int())
    coefficients = torch.ones(3, 1, 1)
    for backend in FAST:
        assert_backends_agree(backend, csr, torch.empty(0), torch.ones(3, 2), coefficients)
