"""The transforms of `torch.func`: the reference does them all, other backends say that it does."""

from functools import partial

import pytest
import torch
from hypergraph_cases import case, hypergraph_diffusion
from layer_cases import NORMALIZATIONS, Similarity, bend, make_data
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from jsem_pyg.diffusion import heat_coefficients, heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion

FUSED = ["torch", "torch_sparse", "numba"]


@pytest.fixture
def inputs():
    """A signal, weights and scales, in float64."""
    data = make_data()
    t = torch.tensor([0.5, 2.0], dtype=torch.float64)
    return data.x.double(), data.edge_weight.double(), t


def diffusion(backend="reference", normalization="sym"):
    graph = GraphStructure(make_data().edge_index, len(make_data().x))
    # The same polynomial whatever the times. A long one without normalisation, whose bound is a
    # constant to reverse mode, but not to forward mode.
    degree = 45 if normalization is None else 12

    def run(x, weight, t):
        options = {"backend": backend, "normalization": normalization, "degree": degree}
        return heat_diffusion(x, graph, weight, t, **options)

    return run


def loss(run):
    return lambda *inputs: run(*inputs).sin().sum()


def dual_tangent(run, x):
    """The derivative of run(x) in the direction cos(x), by dual numbers."""
    run(x)  # what is remembered of this has no derivative
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x.cos())
        return torch.autograd.forward_ad.unpack_dual(run(dual)).tangent


def assert_same(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_both_modes_agree_with_autograd(normalization, inputs):
    run = diffusion("reference", normalization)
    leaves = [each.clone().requires_grad_() for each in inputs]
    expected = torch.autograd.grad(loss(run)(*leaves), leaves)
    assert_same(grad(loss(run), argnums=(0, 1, 2))(*inputs), expected)
    out, pull = vjp(run, *inputs)
    assert_same(pull(out.cos()), expected)
    tangents = tuple(each.cos() for each in inputs)
    by_reverse_mode = torch.autograd.functional.jvp(run, inputs, tangents)[1]
    assert_same(jvp(run, inputs, tangents)[1], by_reverse_mode)
    for i in range(3):

        def part(given, i=i):
            return loss(run)(*inputs[:i], given, *inputs[i + 1 :])

        second = torch.autograd.functional.hessian(part, inputs[i])
        assert_same(hessian(part)(inputs[i]), second)
        assert_same(jacrev(jacrev(part))(inputs[i]), second)
        direction = torch.autograd.functional.jvp(part, inputs[i], inputs[i].cos())[1]
        assert_same(dual_tangent(part, inputs[i]), direction)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_vmap_over_signals_weights_and_times(normalization, inputs):
    run = diffusion("reference", normalization)
    _, weight, t = inputs
    batches = [torch.stack([each, each.sin() + 2]) for each in inputs]
    for i, batch in enumerate(batches):
        given = [batch if i == j else each for j, each in enumerate(inputs)]
        expected = [run(*(each[k] if i == j else each for j, each in enumerate(given)))
                    for k in range(2)]  # fmt: skip
        dims = tuple(0 if i == j else None for j in range(3))
        assert_same(vmap(run, in_dims=dims)(*given), torch.stack(expected))
        gradient = vmap(grad(loss(run), argnums=i), in_dims=dims)(*given)
        expected = [grad(loss(run), argnums=i)(*(each[k] if i == j else each
                    for j, each in enumerate(given))) for k in range(2)]  # fmt: skip
        assert_same(gradient, torch.stack(expected))
    along = vmap(lambda x: run(x, weight, t), in_dims=1, out_dims=-1)(batches[0].transpose(0, 1))
    assert_same(along, torch.stack([run(each, weight, t) for each in batches[0]], -1))
    channels = torch.linspace(0.1, 2, 8, dtype=torch.float64).reshape(2, 4)
    expected = [run(each, weight, channels) for each in batches[0]]
    assert_same(vmap(lambda x: run(x, weight, channels))(batches[0]), torch.stack(expected))


@pytest.mark.parametrize("backend", FUSED)
def test_a_fused_backend_names_the_one_that_can(backend, inputs):
    run = loss(diffusion(backend))
    x, weight, t = inputs
    for each in (
        lambda: grad(run)(x, weight, t),
        lambda: jvp(lambda x: run(x, weight, t), (x,), (x,)),
        lambda: vmap(lambda w: run(x, w, t))(weight[None]),
        lambda: jacrev(lambda t: diffusion(backend)(x, weight, t))(t),
        lambda: hessian(lambda w: run(x, w, t))(weight),
        lambda: dual_tangent(lambda x: run(x, weight, t), x),
    ):
        with pytest.raises(NotImplementedError, match="backend='reference'"):
            each()


def test_coefficients():
    t = torch.tensor([[0.0, 0.3], [2.0, 30.0]], dtype=torch.float64)

    coefficients = partial(heat_coefficients, degree=5)
    assert_same(jacfwd(coefficients)(t), torch.autograd.functional.jacobian(coefficients, t))
    assert_same(jacfwd(jacrev(coefficients))(t), jacrev(jacrev(coefficients))(t))
    assert_same(vmap(coefficients, in_dims=1, out_dims=2)(t), coefficients(t))
    t = (t + 0.01).requires_grad_()  # off the edge, which a difference would look beyond
    assert torch.autograd.gradcheck(coefficients, t, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(coefficients, t)


LAYERS = {
    "diffusion": lambda: AnisotropicDiffusion(t=[1.0, 2.0], backend="reference"),
    "narrowing": lambda: AnisotropicChebConv(4, 1, t=[1.0, 2.0], backend="reference"),
    "sees nodes": lambda: AnisotropicDiffusion(conductance=Similarity(), backend="reference"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    data, layer = make_data(), bend(LAYERS[name]())
    parameters = dict(layer.named_parameters())
    signals = torch.stack([data.x, data.x.sin()])

    def call(parameters, x):
        given = (x, data.edge_index, data.edge_weight, data.edge_attr)
        return functional_call(layer, parameters, given)

    expected = torch.stack([call(parameters, x) for x in signals])
    torch.testing.assert_close(vmap(call, in_dims=(None, 0))(parameters, signals), expected)
    gradients = torch.autograd.grad(expected.sin().sum(), list(parameters.values()))
    actual = grad(lambda p: sum(call(p, x).sin().sum() for x in signals))(parameters)
    torch.testing.assert_close(list(actual.values()), list(gradients), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("by_kernel", [True, False])
def test_hypergraphs(by_kernel):
    structure, weight = case("isolated nodes")
    x = torch.randn(2, structure.num_nodes, 3, dtype=torch.float64)

    def run(*given):
        return hypergraph_diffusion(*given, 0.5, by_kernel=by_kernel, backend="reference")

    assert_same(vmap(lambda x: run(x, structure, weight))(x), run(x, structure, weight))
    of_weight = partial(loss(run), x[0], structure)
    expected = torch.autograd.functional.hessian(of_weight, weight)
    assert_same(hessian(of_weight)(weight), expected)


def test_bad_input_is_named_inside_of_transforms(inputs):
    (x, weight, t), edge_index, run = inputs, make_data().edge_index, diffusion()
    with pytest.raises(ValueError, match="'x' to be finite"):
        grad(loss(run))(x * float("nan"), weight, t)
    with pytest.raises(ValueError, match="'edge_weight' to be non-negative"):
        vmap(lambda w: run(x, w, t))(-weight[None])
    with pytest.raises(ValueError, match="'edge_index' to be the same for all that 'vmap'"):
        vmap(lambda edges: heat_diffusion(x, edges))(torch.stack([edge_index, edge_index]))
    with pytest.raises(ValueError, match="'hyperedge_index' to be the same for all that 'vmap'"):
        vmap(lambda index: hypergraph_diffusion(x, index))(torch.zeros(2, 2, 3).long())


def test_a_structure_that_is_used_first_inside_of_a_transform_serves_outside(inputs):
    x, weight, _ = inputs
    structure = GraphStructure(make_data().edge_index, len(x))

    def run(x):
        return heat_diffusion(x, structure, weight, backend="reference").sin().sum()

    grad(run)(x)
    for held in (structure.component, structure.csr.row, structure.csr_with_diagonal[1]):
        held.data_ptr()  # a tensor of a transform's has none
    assert run(x).isfinite()
