import pytest
import torch
from hypergraph_cases import (
    CASES,
    IDS,
    WAYS,
    case,
    dense_hypergraph_matrix,
    every,
    exact,
    hypergraph_diffusion,
    random_hypergraph,
)
from largest import LargestTensor
from torch_geometric.nn import HypergraphConv

from jsem_pyg.diffusion.hypergraph import is_dense_cheaper
from jsem_pyg.graph import HypergraphStructure

PATHS = [(k, b) for k in (True, False) for b in ("auto", "reference")]


def gradients(out, leaves):
    direction = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).sin().reshape(out.shape)
    return torch.autograd.grad(out, leaves, direction, allow_unused=True, materialize_grads=True)


def leaves_of(name, batch=(), dtype=torch.float64):
    structure, weight = case(name, dtype)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(*batch, structure.num_nodes, 3, generator=generator, dtype=dtype)
    t = torch.tensor(1.7, dtype=torch.float64)
    return structure, [each.requires_grad_() for each in (x, weight, t)]


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize(("by_kernel", "backend"), PATHS)
def test_every_way_gives_the_matrix_exponential(name, normalization, by_kernel, backend):
    structure, leaves = leaves_of(name, batch=(2,))
    out = hypergraph_diffusion(
        leaves[0],
        structure,
        *leaves[1:],
        normalization=normalization,
        by_kernel=by_kernel,
        backend=backend,
        tol=1e-12,
    )
    expected = exact(leaves[0], CASES[name][0], *leaves[1:], normalization)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    for actual, wanted in zip(gradients(out, leaves), gradients(expected, leaves), strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(2,), (2, 3), (2, 1)])  # S, or S and D
@pytest.mark.parametrize("batch", [(), (2, 5)])
@pytest.mark.parametrize("by_kernel", WAYS)
def test_scales_and_a_time_for_every_channel(shape, batch, by_kernel):
    structure, (x, weight, _) = leaves_of("random", batch)
    t = torch.linspace(0.3, 3.0, 6).double()[: torch.Size(shape).numel()].reshape(shape)
    t.requires_grad_()
    out = hypergraph_diffusion(x, structure, weight, t, by_kernel=by_kernel, tol=1e-12)
    times = t.reshape(2, -1).expand(2, 3)
    expected = torch.stack(
        [
            torch.cat(
                [exact(x[..., d : d + 1], CASES["random"][0], weight, each) for d, each in columns],
                dim=-1,
            )
            for columns in map(enumerate, times)
        ],
        dim=-3,
    )
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
    leaves = (x, weight, t)
    for actual, wanted in zip(gradients(out, leaves), gradients(expected, leaves), strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("by_kernel", [True, False])
def test_the_reference_may_be_differentiated_twice(by_kernel):
    structure, leaves = leaves_of("single members")

    def run(x, weight, t):
        return hypergraph_diffusion(
            x, structure, weight, t, by_kernel=by_kernel, degree=5, backend="reference"
        )

    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


@pytest.mark.parametrize("by_kernel", WAYS)
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_no_tensor_is_larger_than_the_signals(by_kernel, backend):
    index, batch, channels = every(8, 3), 64, 16  # 168 memberships on 8 nodes, 56 hyperedges
    structure = HypergraphStructure(index, 8)
    x = torch.randn(batch, 8, channels, requires_grad=True)
    weight = torch.rand(56, requires_grad=True)
    t = torch.tensor(2.0, requires_grad=True)
    with LargestTensor() as largest:
        out = hypergraph_diffusion(x, structure, weight, t, by_kernel=by_kernel, backend=backend)
        out.square().sum().backward()
    rows = 56 if by_kernel is False else 8  # that one holds the means of the hyperedges
    assert 8 * batch * channels <= largest.most <= max(rows, 16) * batch * channels
    with LargestTensor() as largest:  # the reference does hold messages, so the measure sees them
        hypergraph_diffusion(x, structure, weight, t, by_kernel=False, backend="reference")
    assert largest.most == 168 * batch * channels


def test_the_cheapest_way_is_taken():
    experts = HypergraphStructure(every(8, 3), 8)
    assert is_dense_cheaper(experts, 4096 * 64)
    large = HypergraphStructure(random_hypergraph(400, 20, 0.1), 400)
    assert not is_dense_cheaper(large, 64)
    assert is_dense_cheaper(experts, 4096, 3, 3)
    assert not is_dense_cheaper(experts, 4096, 30_000)  # a kernel for every channel


@pytest.mark.parametrize("name", IDS)
def test_a_step_of_the_random_walk_is_pyg_hypergraph_conv(name):
    """So the formula that all is compared with is the one of others."""
    index, num_nodes, num_hyperedges = CASES[name]
    conv = HypergraphConv(3, 5, bias=False).double()
    x = torch.randn(num_nodes, 3, dtype=torch.float64)
    expected = conv(x, index, num_edges=num_hyperedges)
    ones = torch.ones(num_hyperedges, dtype=torch.float64)
    actual = dense_hypergraph_matrix(index, ones, num_nodes, "rw") @ conv.lin(x)
    connected = index[0].unique()  # PyG sets the others to zero
    torch.testing.assert_close(actual[connected], expected[connected])


@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("by_kernel", [True, False])
def test_a_common_factor_of_the_weights_cancels(normalization, by_kernel):
    structure, weight = case("random", torch.float32)
    results = []
    for factor in (1.0, 1e-29, 1e29):
        leaf = (factor * weight).requires_grad_()
        out = hypergraph_diffusion(
            torch.eye(9), structure, leaf, normalization=normalization, by_kernel=by_kernel
        )
        out.square().sum().backward()
        results.append([out.detach(), factor * leaf.grad])
    for actual in results[1:]:
        torch.testing.assert_close(actual, results[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("small", [0.0, 1e-30, 1e-24])
@pytest.mark.parametrize("by_kernel", [True, False])
def test_vanishing_weights_leave_values_and_gradients_finite(small, by_kernel):
    structure = HypergraphStructure(torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]]), 4)
    weight = torch.tensor([1.0, small], requires_grad=True)
    out = hypergraph_diffusion(torch.eye(4), structure, weight, by_kernel=by_kernel)
    out.square().sum().backward()
    assert out.isfinite().all()
    assert weight.grad.isfinite().all()
