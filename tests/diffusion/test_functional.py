import pytest
import torch
from dense import exact_heat_diffusion
from laws import random_graph

from jsem_pyg.diffusion import filters, heat_diffusion
from jsem_pyg.graph import GraphStructure

NORMALIZATIONS = ["sym", "rw", None]
BACKENDS = ["reference", "torch", "torch_sparse"]
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def signal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def relative_error(actual, expected):
    return float((actual - expected).norm() / expected.norm())


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("t", [0.1, 2.0, 20.0])
def test_is_the_matrix_exponential_within_the_tolerance(normalization, backend, tol, t):
    edge_index, weight = random_graph(40, 0.1, num_isolated=2)
    x = signal(40, 5)
    expected = exact_heat_diffusion(x, edge_index, weight, t, normalization)
    actual = heat_diffusion(
        x, edge_index, weight, t, tol=tol, normalization=normalization, backend=backend
    )
    assert relative_error(actual, expected) <= tol


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("t", [torch.tensor(1.5), torch.tensor([0.5, 3.0])])
def test_gradients(normalization, backend, t):
    edge_index, weight = random_graph(8, 0.4, num_isolated=1)
    structure = GraphStructure(edge_index, 8)
    inputs = (signal(8, 2), weight, t.double())
    inputs = tuple(each.clone().requires_grad_() for each in inputs)

    def diffuse(x, weight, t):
        return heat_diffusion(
            x, structure, weight, t, degree=30, normalization=normalization, backend=backend
        )

    assert torch.autograd.gradcheck(diffuse, inputs, fast_mode=True)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_second_gradients_on_the_reference_backend(normalization):
    edge_index, weight = random_graph(6, 0.5)
    inputs = (signal(6, 2), weight, torch.tensor(1.5, dtype=torch.float64))
    inputs = tuple(each.clone().requires_grad_() for each in inputs)

    def diffuse(x, weight, t):
        return heat_diffusion(
            x, edge_index, weight, t, degree=30, normalization=normalization, backend="reference"
        )

    assert torch.autograd.gradgradcheck(diffuse, inputs, fast_mode=True)


def test_a_second_derivative_of_a_fused_backend_is_refused():
    x = signal(3, 1).requires_grad_()
    y = heat_diffusion(x, PATH, backend="torch").square().sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(NotImplementedError, match="backend='reference' for a second derivative"):
        gradient.sum().backward()


@pytest.mark.parametrize("backend", ["torch", "numba", "reference"])
def test_gradients_reach_weights_that_are_close_to_zero(backend):
    """They do not shrink with the weights, though the result hardly differs from x."""
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    x = torch.tensor([[1.0], [0.0], [4.0]], dtype=torch.float64)
    for size in (1e-6, 1e-10, 1e-20):
        weight = torch.full((4,), size, dtype=torch.float64, requires_grad=True)
        y = heat_diffusion(x, edge_index, weight, normalization=None, backend=backend)
        (grad,) = torch.autograd.grad((x * y).sum(), weight)  # minus half of (x_i - x_j)^2
        torch.testing.assert_close(
            grad, -torch.tensor([0.5, 0.5, 8, 8]).double(), rtol=1e-4, atol=0
        )


def test_isolated_nodes_keep_their_features_and_their_gradient():
    x = signal(5, 2).requires_grad_()
    out = heat_diffusion(x, PATH, t=3.0)
    assert torch.equal(out[3:], x[3:])
    out.sum().backward()
    assert torch.equal(x.grad[3:], torch.ones(2, 2, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    edge_index, weight = random_graph(10, 0.4, dtype=torch.float32)
    x = signal(10, 3, dtype=torch.float32).to(dtype)
    out = heat_diffusion(x, edge_index, weight, 2.0)
    assert out.dtype == dtype
    torch.testing.assert_close(out, heat_diffusion(x.float(), edge_index, weight, 2.0).to(dtype))


def test_a_prepared_structure_takes_the_place_of_edge_index():
    edge_index, weight = random_graph(10, 0.4)
    x, structure = signal(10, 3), GraphStructure(edge_index, 10)
    assert torch.equal(
        heat_diffusion(x, structure, weight, 2.0), heat_diffusion(x, edge_index, weight, 2.0)
    )
    with pytest.raises(ValueError, match="'x' to have 10 nodes.*got 9"):
        heat_diffusion(x[:9], structure, weight)


def test_a_fixed_degree_is_kept_and_one_too_low_is_logged(caplog):
    x = signal(3, 1)
    heat_diffusion(x, PATH, t=1.0, degree=12)
    assert not caplog.records
    heat_diffusion(x, PATH, t=50.0, degree=5)
    assert "degree=5 is too low for t = 50" in caplog.text


@pytest.mark.parametrize("backend", [*BACKENDS, "numba"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_weights_get_gradients_of_zero_where_they_change_nothing(backend, normalization):
    options = {"normalization": normalization, "backend": backend}
    no_edges = torch.empty(2, 0, dtype=torch.int64)
    calls = {
        "no time": lambda w: heat_diffusion(signal(3, 2), PATH, w, t=0.0, **options),
        "no product": lambda w: heat_diffusion(signal(3, 2), PATH, w, degree=0, **options),
        "no edge": lambda w: heat_diffusion(signal(3, 2), no_edges, w[:0], **options),
        "no column": lambda w: heat_diffusion(signal(3, 0), PATH, w, **options),
        "no signal": lambda w: heat_diffusion(signal(0, 3, 2), PATH, w, **options),
        "constant": lambda w: filters.FromFunction(torch.ones_like)(
            signal(3, 2), PATH, w, **options
        ),
    }
    for name, call in calls.items():
        weight = torch.ones(4, dtype=torch.float64, requires_grad=True)
        call(weight).sum().backward()
        assert float(weight.grad.abs().max()) < 1e-10, name


@pytest.mark.parametrize("t", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_gradients_of_weights_are_as_precise_at_short_times(normalization, t):
    """They are of the order of t, as what the series leaves out must not be beside them."""
    edge_index, weight = random_graph(8, 0.5, seed=2, dtype=torch.float64)
    x, grad = signal(8, 2), signal(8, 2, seed=1)
    found = []
    for diffuse in (heat_diffusion, exact_heat_diffusion):
        leaf = weight.clone().requires_grad_()
        diffuse(x, edge_index, leaf, t, normalization=normalization).backward(grad)
        found.append(leaf.grad)
    assert relative_error(*found) < 1e-6


def test_a_time_that_was_seen_in_inference_mode_serves_training():
    edge_index, weight = random_graph(12, 0.4)
    x, t = torch.randn(12, 2, dtype=weight.dtype), 1.0625  # which no other test takes
    with torch.inference_mode():
        heat_diffusion(x, edge_index, weight, t)
    heat_diffusion(x, edge_index, weight.requires_grad_(), t).sum().backward()
