"""The transforms of `torch.func`: what autograd says, or a clear word on who can."""

from dataclasses import replace

import pytest
import torch
from hypergraph_cases import case
from layer_cases import NORMALIZATIONS, Similarity, bend, make_data
from night import night
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from jsem_pyg.diffusion import (
    expm_multiply,
    heat_coefficients,
    heat_diffusion,
    hypergraph_diffusion,
)
from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.table import CHEBYSHEV
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, HypergraphChebConv

BACKENDS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            not CHEBYSHEV.can_run(name, torch.device("cpu")), reason="not installed"
        ),
    )
    for name in CHEBYSHEV.backends
    if name not in ("torch_sparse", "triton")  # one refuses transforms, one is for CUDA
]
BOUNDED = BACKENDS[1:]


@pytest.fixture
def inputs():
    """A signal, weights and scales, in float64."""
    data = make_data()
    t = torch.tensor([0.5, 2.0], dtype=torch.float64)
    return data.x.double(), data.edge_weight.double(), t


def diffusion(backend="reference", normalization="sym"):
    edge_index = make_data().edge_index

    def run(x, weight, t):
        # The same polynomial everywhere, whatever the times: a longer one would show. A long one
        # without normalisation, whose bound is a constant to reverse mode, but not to forward mode.
        degree = 45 if normalization is None else 12
        options = {"backend": backend, "normalization": normalization, "degree": degree}
        return heat_diffusion(x, edge_index, weight, t, **options)

    return run


def loss(run):
    return lambda *inputs: run(*inputs).sin().sum()


def plain_gradients(run, inputs):
    """By autograd, without torch.func."""
    leaves = [each.clone().requires_grad_() for each in inputs]
    return torch.autograd.grad(loss(run)(*leaves), leaves)


def dual_tangent(run, x):
    """The derivative of run(x) in the direction cos(x), by dual numbers."""
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x.cos())
        return torch.autograd.forward_ad.unpack_dual(run(dual)).tangent


def assert_same(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("backend", ["reference"])
def test_reverse_mode(backend, normalization, inputs):
    run = diffusion(backend, normalization)
    expected = plain_gradients(diffusion("reference", normalization), inputs)
    assert_same(grad(loss(run), argnums=(0, 1, 2))(*inputs), expected)
    for i in range(3):
        assert_same(grad(loss(run), argnums=i)(*inputs), expected[i])
    out, pull = vjp(run, *inputs)
    assert_same(pull(out.cos()), expected)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("backend", ["reference"])
def test_forward_mode(backend, normalization, inputs):
    run = diffusion(backend, normalization)
    tangents = tuple(each.cos() for each in inputs)
    for moved in ([0], [2], [0, 2], *([[1], [0, 1, 2]] if backend == "reference" else [])):

        def part(*given, moved=moved, run=run):
            return run(*(given[moved.index(i)] if i in moved else inputs[i] for i in range(3)))

        primals = tuple(inputs[i] for i in moved)
        directions = tuple(tangents[i] for i in moved)
        _, actual = jvp(part, primals, directions)
        # The same by reverse mode, twice.
        plain = diffusion("reference", normalization)
        _, expected = torch.autograd.functional.jvp(
            lambda *given, part=part, plain=plain: part(*given, run=plain), primals, directions
        )
        assert_same(actual, expected)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("backend", ["reference"])
def test_vmap_over_signals_and_times(backend, normalization, inputs):
    run = diffusion(backend, normalization)
    x, weight, t = inputs
    signals = torch.stack([x, x.sin(), 2 * x])
    expected = torch.stack([run(each, weight, t) for each in signals])
    assert_same(vmap(lambda x: run(x, weight, t))(signals), expected)
    along = vmap(lambda x: run(x, weight, t), in_dims=1, out_dims=-1)(signals.transpose(0, 1))
    assert_same(along, expected.movedim(0, -1))
    # A time for every signal, times alone, and a time for every channel too.
    times = torch.tensor([[0.5, 1.0], [0.2, 2.0], [1.5, 0.1]], dtype=torch.float64)
    expected = torch.stack([run(*each) for each in zip(signals, [weight] * 3, times, strict=True)])
    assert_same(vmap(run, in_dims=(0, None, 0))(signals, weight, times), expected)
    expected = torch.stack([run(x, weight, each) for each in times])
    assert_same(vmap(lambda t: run(x, weight, t))(times), expected)
    channels = torch.linspace(0.1, 2, 8, dtype=torch.float64).reshape(2, 4)
    expected = torch.stack([run(each, weight, channels) for each in signals])
    assert_same(vmap(lambda x: run(x, weight, channels))(signals), expected)


@pytest.mark.parametrize("backend", ["reference"])
def test_one_transform_in_another(backend, inputs):
    run = diffusion(backend)
    x, weight, t = inputs
    signals = torch.stack([x, x.sin()])

    def each(run, x, weight, t):
        return sum(loss(run)(signal, weight, t) for signal in x)

    def batch(*given):
        return vmap(run, in_dims=(0, None, None))(*given).sin().sum()

    leaves = [each.clone().requires_grad_() for each in (signals, weight, t)]
    expected = torch.autograd.grad(each(diffusion(), *leaves), leaves)
    assert_same(grad(batch, argnums=(0, 1, 2))(signals, weight, t), expected)
    assert_same(vmap(grad(lambda x: loss(run)(x, weight, t)))(signals), expected[0])
    expected = plain_gradients(diffusion(), (x, weight, t))[2]
    by_scale = vmap(run, in_dims=(None, None, 0))
    assert_same(grad(lambda t: by_scale(x, weight, t).sin().sum())(t), expected)
    # Jacobians, by both modes, and the derivative of the gradient of a function of the signal.
    jacobian = torch.autograd.functional.jacobian(lambda x: diffusion()(x, weight, t), x)
    assert_same(jacrev(lambda x: run(x, weight, t))(x), jacobian)
    assert_same(jacfwd(lambda x: run(x, weight, t))(x), jacobian)
    jacobian = torch.autograd.functional.jacobian(lambda t: diffusion()(x, weight, t), t)
    assert_same(jacfwd(lambda t: run(x, weight, t))(t), jacobian)
    expected = torch.autograd.functional.hessian(lambda x: loss(diffusion())(x, weight, t), x)
    assert_same(hessian(lambda x: loss(run)(x, weight, t))(x), expected)


@pytest.mark.parametrize("normalization", ["rw", *night("sym", None)])
def test_the_reference_knows_every_derivative(normalization, inputs):
    run = loss(diffusion("reference", normalization))
    for i in range(3):

        def part(given, i=i):
            return run(*inputs[:i], given, *inputs[i + 1 :])

        expected = torch.autograd.functional.hessian(part, inputs[i])
        assert_same(hessian(part)(inputs[i]), expected)
        assert_same(jacrev(jacrev(part))(inputs[i]), expected)
    weights = torch.stack([inputs[1], inputs[1].sin() + 2])
    actual = vmap(grad(run, argnums=1), in_dims=(None, 0, None))(inputs[0], weights, inputs[2])
    expected = [
        plain_gradients(diffusion("reference", normalization), (inputs[0], each, inputs[2]))[1]
        for each in weights
    ]
    assert_same(actual, torch.stack(expected))


@pytest.mark.parametrize("backend", BOUNDED)
def test_what_a_fused_backend_cannot_do_names_the_one_that_can(backend, inputs):
    run = loss(diffusion(backend))
    x, weight, t = inputs
    weights = torch.stack([weight, 2 * weight])
    refused = [
        lambda: grad(run)(x, weight, t),
        lambda: vjp(run, x, weight, t),
        lambda: jvp(lambda w: run(x, w, t), (weight,), (weight,)),
        lambda: vmap(lambda w: run(x, w, t))(weights),
        lambda: vmap(grad(run, argnums=1), in_dims=(0, None, None))(x[None], weight, t),
        lambda: vmap(grad(run, argnums=2), in_dims=(0, None, None))(x[None], weight, t),
        lambda: jacrev(lambda w: diffusion(backend)(x, w, t))(weight),
        lambda: jacrev(lambda t: diffusion(backend)(x, weight, t))(t),
        lambda: hessian(lambda w: run(x, w, t))(weight),
        lambda: hessian(lambda t: run(x, weight, t))(t),
        lambda: grad(lambda t: grad(run, argnums=2)(x, weight, t).sum())(t),
        lambda: jvp(grad(lambda x, t: run(x, weight, t)), (x, t), (x, t)),
        lambda: jvp(lambda x: run(x, weight, t), (x,), (x,)),
        lambda: vmap(lambda x: run(x, weight, t))(x[None]),
        lambda: dual_tangent(lambda x: run(x, weight, t), x),
    ]
    for each in refused:
        with pytest.raises(NotImplementedError, match="backend='reference'"):
            each()


def test_torch_sparse_is_refused_whole(inputs):
    pytest.importorskip("torch_sparse")
    x, weight, t = inputs
    run = loss(diffusion("torch_sparse"))
    for each in (
        lambda: grad(run)(x, weight, t),
        lambda: jvp(lambda x: run(x, weight, t), (x,), (x,)),
        lambda: vmap(lambda x: run(x, weight, t))(x[None]),
    ):
        with pytest.raises(NotImplementedError, match="backend='reference' for the transforms"):
            each()
    with pytest.raises(NotImplementedError, match="backend='reference' for forward mode"):
        dual_tangent(lambda x: run(x, weight, t), x)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_second_derivatives_of_autograd_by_torch_sparse(normalization, inputs):
    pytest.importorskip("torch_sparse")

    def second(backend):
        leaves = [each.clone().requires_grad_() for each in inputs]
        out = loss(diffusion(backend, normalization))(*leaves)
        first = torch.autograd.grad(out, leaves, create_graph=True)
        return torch.autograd.grad(sum(each.sin().sum() for each in first), leaves)

    assert_same(second("torch_sparse"), second("reference"))


@pytest.mark.parametrize("backend", ["reference"])
def test_forward_over_forward_mode(backend, inputs):
    (x, weight, t), run = inputs, loss(diffusion(backend))
    both = jacfwd(jacfwd(lambda t: run(x, weight, t)))(t)
    assert_same(both, hessian(lambda t: run(x, weight, t))(t))


@pytest.mark.parametrize("backend", ["reference"])
def test_dual_numbers(backend, inputs):
    x, weight, t = inputs
    run = diffusion(backend)
    tangent = dual_tangent(lambda x: run(x, weight, t), x)
    assert_same(tangent, run(x.cos(), weight, t))  # a linear map is its own derivative


@pytest.mark.parametrize("backend", ["reference"])
def test_dual_times(backend, inputs):
    x, weight, t = inputs
    run = diffusion(backend)
    _, expected = jvp(lambda t: run(x, weight, t), (t,), (t.cos(),))
    assert_same(dual_tangent(lambda t: run(x, weight, t), t), expected)
    chain = torch.ones(len(x) - 1, dtype=x.dtype)
    chain = torch.diag(chain, 1) + torch.diag(chain, -1)

    def grow(t):
        return expm_multiply(chain, x, t, tol=1e-12, backend=backend)

    assert_same(dual_tangent(grow, t[0]), t[0].cos() * (chain @ grow(t[0])))


def test_dual_weights_and_masses_of_a_graph_without_normalization(inputs):
    x, weight, t = inputs
    edge_index = make_data().edge_index
    mass = 1 + x[:, 0].square()

    def by_mass(mass):
        options = {"normalization": None, "node_mass": mass, "backend": "reference"}
        return heat_diffusion(x, edge_index, weight, t, degree=45, **options)

    def by_weight(weight):
        return diffusion("reference", None)(x, weight, t)

    for function, given in ((by_mass, mass), (by_weight, weight)):
        expected = torch.autograd.functional.jvp(function, given, given.cos())[1]
        assert_same(dual_tangent(function, given), expected)
    masses = torch.stack([mass, mass.sin() + 2])
    assert_same(vmap(by_mass)(masses), torch.stack([by_mass(each) for each in masses]))


def test_coefficients():
    t = torch.tensor([[0.0, 0.3], [2.0, 30.0]], dtype=torch.float64)

    def coefficients(t):
        return heat_coefficients(t, degree=5)

    forward = jacfwd(coefficients)(t)
    assert_same(forward, jacrev(coefficients)(t))
    assert_same(forward, torch.autograd.functional.jacobian(coefficients, t))
    second = jacrev(jacrev(coefficients))(t)
    assert_same(jacfwd(jacrev(coefficients))(t), second)
    assert_same(jacrev(jacfwd(coefficients))(t), second)
    assert_same(vmap(coefficients, in_dims=1, out_dims=2)(t), coefficients(t))
    t = (t + 0.01).requires_grad_()  # off the edge, which a difference would look beyond
    assert torch.autograd.gradcheck(coefficients, t, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(coefficients, t)


LAYERS = {
    "diffusion": lambda backend: AnisotropicDiffusion(t=[1.0, 2.0], backend=backend),
    "narrowing": lambda backend: AnisotropicChebConv(4, 1, t=[1.0, 2.0], backend=backend),
    "widening": lambda backend: AnisotropicChebConv(4, 9, t=[1.0, 2.0], backend=backend),
    "watched": lambda backend: AnisotropicDiffusion(fuse=False, backend=backend),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("backend", ["reference"])
def test_layers(backend, name):
    data = make_data()
    layer = bend(LAYERS[name](backend))
    parameters = dict(layer.named_parameters())
    signals = torch.stack([data.x, data.x.sin()])

    def call(parameters, x):
        given = (x, data.edge_index, data.edge_weight, data.edge_attr)
        return functional_call(layer, parameters, given)

    expected = torch.stack([call(parameters, x) for x in signals])
    gradients = torch.autograd.grad(expected.sin().sum(), list(parameters.values()))
    if name != "watched":  # which counts its messages
        actual = vmap(call, in_dims=(None, 0))(parameters, signals)
        torch.testing.assert_close(actual, expected)

    def total(parameters):
        return sum(call(parameters, x).sin().sum() for x in signals)

    actual = list(grad(total)(parameters).values())
    torch.testing.assert_close(actual, list(gradients), rtol=1e-4, atol=1e-4)
    # What was prepared inside of a transform serves outside of it.
    torch.testing.assert_close(layer(data.x, data.edge_index, data.edge_weight, data.edge_attr),
                               expected[0])  # fmt: skip


def test_ensembles_on_the_reference():
    data = make_data()
    layers = [bend(AnisotropicDiffusion(t=t, backend="reference")) for t in (1.0, 2.0)]
    stacked = torch.func.stack_module_state(layers)

    def call(parameters, buffers, x):
        given = (x, data.edge_index, data.edge_weight, data.edge_attr)
        return functional_call(layers[0], (parameters, buffers), given)

    expected = [
        layer(data.x, data.edge_index, data.edge_weight, data.edge_attr) for layer in layers
    ]
    torch.testing.assert_close(
        vmap(call, in_dims=(0, 0, None))(*stacked, data.x), torch.stack(expected)
    )


def test_a_conductance_that_sees_nodes_on_the_reference():
    data = make_data()
    layer = AnisotropicDiffusion(conductance=Similarity(), backend="reference")

    def call(x):
        return layer(x, data.edge_index, data.edge_weight)

    signals = torch.stack([data.x, data.x.sin()])
    torch.testing.assert_close(vmap(call)(signals), torch.stack(list(map(call, signals))))


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.parametrize("method", ["dense", "csr", "incidence"])
def test_hypergraphs(method, backend):
    structure, weight = case("isolated nodes")
    x = torch.randn(2, structure.num_nodes, 3, dtype=torch.float64)
    t = torch.tensor([0.5, 2.0], dtype=torch.float64)

    def run(x, weight, t, backend=backend):
        return hypergraph_diffusion(x, structure, weight, t, method=method, backend=backend)

    inputs = (x[0], weight, t)
    expected = plain_gradients(lambda *given: run(*given, backend="reference"), inputs)
    if backend == "reference":
        assert_same(grad(loss(run), argnums=(0, 1, 2))(*inputs), expected)
    if backend == "reference":
        assert_same(vmap(lambda x: run(x, weight, t))(x), run(x, weight, t))
        _, actual = jvp(lambda x: run(x, weight, t), (x[0],), (x[1],))
        assert_same(actual, run(x[1], weight, t))
        expected = torch.autograd.functional.hessian(lambda w: loss(run)(x[0], w, t), weight)
        assert_same(hessian(lambda w: loss(run)(x[0], w, t))(weight), expected)
    else:
        with pytest.raises(NotImplementedError, match="backend='reference'"):
            hessian(lambda w: loss(run)(x[0], w, t))(weight)


def test_a_hypergraph_layer():
    structure, _ = case("random")
    conv = HypergraphChebConv(3, 2, num_hyperedges=structure.num_hyperedges, t=[1.0, 2.0])
    conv.options = replace(conv.options, backend="reference")
    index = torch.stack([structure.node, structure.hyperedge])
    parameters, x = dict(conv.named_parameters()), torch.randn(structure.num_nodes, 3)
    expected = torch.autograd.grad(conv(x, index).sin().sum(), list(parameters.values()))
    conv._reader = type(conv._reader)()  # to be prepared inside
    actual = grad(lambda p: functional_call(conv, p, (x, index)).sin().sum())(parameters)
    torch.testing.assert_close(list(actual.values()), list(expected), rtol=1e-4, atol=1e-5)


def test_graphs_are_not_mapped_over(inputs):
    edge_index = make_data().edge_index
    x = inputs[0]
    with pytest.raises(ValueError, match="'edge_index' to be the same for all that 'vmap'"):
        vmap(lambda edges: heat_diffusion(x, edges))(torch.stack([edge_index, edge_index]))
    with pytest.raises(ValueError, match="'hyperedge_index' to be the same for all that 'vmap'"):
        vmap(lambda index: hypergraph_diffusion(x, index))(torch.zeros(2, 2, 3).long())


def test_bad_values_are_named_inside_of_transforms(inputs):
    x, weight, t = inputs
    edge_index = make_data().edge_index
    run = diffusion()
    with pytest.raises(ValueError, match="'x' to be finite"):
        grad(loss(run))(x * float("nan"), weight, t)
    with pytest.raises(ValueError, match="'edge_weight' to be the same in both directions"):
        grad(lambda w: run(x, w * torch.arange(len(w)), t).sum())(weight)
    with pytest.raises(ValueError, match="'edge_weight' to be non-negative"):
        vmap(lambda w: run(x, w, t))(-weight[None])
    with pytest.raises(ValueError, match="'t' to be finite and >= 0"):
        vmap(lambda t: run(x, weight, t))(-t)
    with pytest.raises(ValueError, match="undirected"):
        grad(lambda x: heat_diffusion(x, edge_index[:, 1:]).sum())(x)


def test_a_structure_that_is_used_first_inside_of_a_transform_serves_outside(inputs):
    x, weight, _ = inputs
    structure = GraphStructure(make_data().edge_index, len(x))

    def run(x):
        return (
            heat_diffusion(x, structure, weight, normalization=None, backend="reference")
            .sin()
            .sum()
        )

    grad(run)(x)
    for held in (structure.component, structure.csr.row, structure.csr_with_diagonal[1]):
        held.data_ptr()  # a tensor of a transform's has none
    run(x)


@pytest.mark.parametrize("backend", ["reference"])
def test_a_backward_pass_in_forward_mode_has_its_tangent_or_is_refused(backend, inputs):
    x, weight, t = inputs
    run, step = diffusion(backend), 1e-6 * x.cos()

    def by_weight(x):
        leaf = weight.clone().requires_grad_()
        return torch.autograd.grad(run(x, leaf, t).square().sum(), leaf)[0]

    expected = (by_weight(x + step) - by_weight(x - step)) / 2e-6
    if backend != "reference":
        with pytest.raises(NotImplementedError):
            dual_tangent(by_weight, x)
    else:
        torch.testing.assert_close(dual_tangent(by_weight, x), expected, rtol=1e-5, atol=1e-7)
