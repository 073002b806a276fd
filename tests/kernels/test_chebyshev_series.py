"""Every backend against the reference: values and all gradients, on awkward graphs."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from jsem_pyg.kernels.chebyshev.recurrence import group_sums, sorted_sums
from jsem_pyg.kernels.csr import CSR
from jsem_pyg.kernels.table import CHEBYSHEV
from jsem_pyg.operators import GraphStructure, laplacian_operator
from jsem_pyg.testing import assert_backends_agree, random_graph

CPU = torch.device("cpu")
FAST = [n for n in CHEBYSHEV.backends if n != "reference" and CHEBYSHEV.can_run(n, CPU)]
SIZES = [(1, 0), (2, 0), (63, 3), (100, 0)]


def problem(num_nodes, num_isolated, channels, degree, dtype, scales=1, groups=1, per_channel=1):
    edge_index, weight = random_graph(num_nodes, 0.1, num_isolated, dtype=dtype)
    operator = laplacian_operator(GraphStructure(edge_index, num_nodes), weight, backend="torch")
    generator = torch.Generator().manual_seed(num_nodes)
    x = torch.randn(num_nodes, channels, dtype=dtype, generator=generator)
    coefficients = torch.randn(
        degree + 1, scales, groups, per_channel, dtype=dtype, generator=generator
    )
    group = torch.arange(num_nodes) % groups if groups > 1 else None
    return operator.matrix.csr, operator.matrix.values[0], x, coefficients, group


def evaluate(backend, csr, values, x, coefficients, group=None):
    operator = CHEBYSHEV.find(backend, CPU).SparseOperator(csr, values)
    return operator.series(x, coefficients, group)


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 20])
@pytest.mark.parametrize("size", SIZES)
def test_values_and_gradients(backend, dtype, degree, size):
    assert_backends_agree(backend, *problem(*size, channels=17, degree=degree, dtype=dtype))


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("size", SIZES)
def test_a_signal_without_channels(backend, size):
    assert_backends_agree(backend, *problem(*size, channels=0, degree=3, dtype=torch.float64))


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("scales", [1, 3])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("per_channel", [1, 5])
def test_scales_groups_and_channels(backend, scales, groups, per_channel):
    shape = {"scales": scales, "groups": groups, "per_channel": per_channel}
    case = problem(40, 2, channels=5, degree=6, dtype=torch.float64, **shape)
    assert_backends_agree(backend, *case)


@pytest.mark.parametrize("backend", FAST)
def test_high_degrees_stay_accurate_though_the_recurrence_is_reversed(backend):
    for dtype, rtol in ((torch.float32, 1e-3), (torch.float64, 1e-10)):
        case = problem(100, 0, channels=4, degree=200, dtype=dtype)
        assert_backends_agree(backend, *case, rtol=rtol)


@pytest.mark.parametrize("backend", FAST)
def test_needs_no_gradient_of_what_is_fixed(backend):
    csr, values, x, coefficients, group = problem(30, 0, 3, 5, torch.float64)
    full = [each.clone().requires_grad_() for each in (values, x, coefficients)]
    expected = torch.autograd.grad(evaluate(backend, csr, *full, group).sin().sum(), full)
    for which in range(3):
        leaves = [values, x, coefficients]
        leaves[which] = leaves[which].clone().requires_grad_()
        (actual,) = torch.autograd.grad(
            evaluate(backend, csr, *leaves, group).sin().sum(), leaves[which]
        )
        torch.testing.assert_close(actual, expected[which])


@pytest.mark.parametrize("keep", ["retain_graph", "create_graph"])
@pytest.mark.parametrize("backend", FAST)
def test_backward_may_run_twice(backend, keep):
    csr, values, x, coefficients, group = problem(30, 0, 3, 7, torch.float64)
    leaves = [each.clone().requires_grad_() for each in (values, x, coefficients)]
    y = evaluate(backend, csr, *leaves, group).sin().sum()
    first = torch.autograd.grad(y, leaves, **{keep: True})
    second = torch.autograd.grad(y, leaves)
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", FAST)
def test_the_input_is_left_alone(backend):
    csr, values, x, coefficients, group = problem(30, 0, 3, 7, torch.float64)
    before = x.clone()
    x.requires_grad_()
    evaluate(backend, csr, values, x, coefficients, group).sum().backward()
    assert torch.equal(x.detach(), before)


class LargestTensor(TorchDispatchMode):
    """Watches every operation and remembers the most elements that a result had."""

    def __init__(self):
        super().__init__()
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                self.most = max(self.most, leaf.numel())
        return out


def test_torch_never_makes_messages_or_dense_matrices():
    num_nodes, channels = 300, 8
    csr, values, x, coefficients, group = problem(num_nodes, 0, channels, 10, torch.float32)
    leaves = [each.clone().requires_grad_() for each in (values, x, coefficients)]
    assert num_nodes * channels < values.numel() * channels / 10  # so that messages would show
    sizes = {}
    for backend in ("torch", "reference"):
        with LargestTensor() as largest:
            evaluate(backend, csr, *leaves, group).sum().backward()
        sizes[backend] = largest.most
    assert sizes["torch"] <= max(num_nodes * channels, values.numel())
    assert sizes["reference"] == values.numel() * channels


def test_an_empty_pattern():
    empty = torch.empty(0, dtype=torch.long)
    csr = CSR(torch.zeros(4, dtype=torch.long), empty.int())
    coefficients = torch.ones(3, 1, 1, 1)
    for backend in FAST:
        assert_backends_agree(backend, csr, torch.empty(0), torch.ones(3, 2), coefficients)


def test_sums_over_no_groups():
    """As where a process has no part of a graph."""
    none = torch.empty(0, dtype=torch.long)
    assert group_sums(torch.ones(2, 0, 3), none, 0).shape == (2, 0, 3)


@pytest.mark.parametrize("num_groups", [1, 2, 4, 5, 30])
@pytest.mark.parametrize("channels", [1, 3])
def test_sums_of_groups(num_groups, channels):
    """Some groups are empty; what is not finite in one does not reach another."""
    generator = torch.Generator().manual_seed(0)
    group = torch.randint(max(1, num_groups - 1), (40,), generator=generator)
    products = torch.randn(2, 40, channels, generator=generator, dtype=torch.float64)
    products[0, group == group[0]] = torch.nan
    zeros = torch.zeros(2, num_groups, channels, dtype=torch.float64)
    expected = zeros.index_add(1, group, products)
    ways = [group_sums] if channels > 1 else [group_sums, sorted_sums]
    for way in ways:
        torch.testing.assert_close(way(products, group, num_groups), expected, equal_nan=True)
