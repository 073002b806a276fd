"""Compiled code gives what eager code gives, in one graph, and sees what eager code sees.

Compilers are slow: a few cases run by default, the others at night.
"""

import pytest
import torch
from layer_cases import CHANNELS, NUM_NODES, Similarity, bend, call, count_preparations, make_data
from night import night
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import forward_ad

from jsem_pyg.diffusion import filters, heat_diffusion
from jsem_pyg.evaluation import dirichlet_energy
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import (
    AnisotropicChebConv,
    AnisotropicDiffusion,
    HypergraphChebConv,
    HypergraphDiffusion,
    SimplicialDiffusion,
)


@pytest.fixture(autouse=True)
def _forget_compiled_code():
    torch._dynamo.reset()


class Model(torch.nn.Module):
    """Scales, a conv that diffuses first and one that maps first, and a time for every channel."""

    def __init__(self, **options):
        super().__init__()
        widths = (2 * CHANNELS, 20, 3)
        self.diffusion = bend(AnisotropicDiffusion(t=[0.5, 2.0], **options))
        self.widen = bend(AnisotropicChebConv(*widths[:2], t=[1.0, 3.0], **options))
        self.narrow = bend(AnisotropicChebConv(*widths[1:], t=2.0, **options))
        self.channels = bend(
            AnisotropicDiffusion(t=torch.linspace(1, 2, 3).unsqueeze(0), **options)
        )

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        for layer in (self.diffusion, self.widen, self.narrow, self.channels):
            x = layer(x, edge_index, edge_weight, edge_attr).tanh()
        return x


def whole(function, backend="aot_eager", **options):
    return torch.compile(function, fullgraph=True, backend=backend, **options)


def results(function, data):
    """The output, and the gradients of the signal, the weights and all parameters."""
    x, weight = data.x.clone().requires_grad_(), data.edge_weight.clone().requires_grad_()
    out = function(x, data.edge_index, weight, data.edge_attr)
    parameters = [p for p in function.parameters() if p.requires_grad]
    return [out, *torch.autograd.grad(out.sin().sum(), [x, weight, *parameters])]


def assert_same(actual, expected):
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("normalization", "conductance"), [("rw", "mlp"), *night(("sym", "mlp"), (None, "sigmoid"))]
)
def test_values_and_gradients(normalization, conductance):
    model, data = Model(normalization=normalization, conductance=conductance), make_data()
    assert_same(results(whole(model), data), results(model, data))


@pytest.mark.slow
def test_inductor():
    layer, data = bend(AnisotropicChebConv(CHANNELS, 2)), make_data()
    assert_same(results(whole(layer, "inductor"), data), results(layer, data))


def test_training_compiles_once_and_follows_the_eager_path(monkeypatch):
    data, losses, made = make_data(seed=7), [], count_preparations(monkeypatch)
    counter = CompileCounterWithBackend("aot_eager")
    for compiled in (False, True):
        torch.manual_seed(0)
        model = Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run = whole(model, counter) if compiled else model
        losses.append([])
        made.clear()
        for _ in range(4):  # the times change, and with them the degree of the series
            optimizer.zero_grad()
            loss = call(run, data).square().sum()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < losses[0][0]
    assert counter.frame_count == 1
    assert len(made) == 1  # of all layers


@pytest.mark.parametrize("dynamic", [None, *night(True)])
def test_graphs_of_other_sizes_compile_twice_at_most(dynamic):
    model = bend(AnisotropicChebConv(CHANNELS, 2))
    counter = CompileCounterWithBackend("aot_eager")
    compiled = whole(model, counter, dynamic=dynamic)
    sizes = set()
    for seed in range(4):
        data = make_data(seed)
        sizes.add(data.num_edges)
        assert_same([call(compiled, data)], [call(model, data)])
    assert len(sizes) > 2
    assert counter.frame_count <= 2


@pytest.mark.parametrize(
    ("conductance", "dynamic"),
    [(Similarity(), False), *night((Similarity(), True), ("sigmoid", True))],
)
def test_conductances_and_dynamic_sizes(conductance, dynamic):
    options = {"edge_dim": 2, "t": torch.rand(2, CHANNELS) + 0.5, "conductance": conductance}
    layer = bend(AnisotropicDiffusion(**options))
    compiled = whole(layer, dynamic=dynamic)
    for seed in range(1 + dynamic):
        data = make_data(seed, edge_dim=2)
        assert_same(results(compiled, data), results(layer, data))


@pytest.mark.parametrize("in_place", [True, *night(False)])
def test_another_graph_of_the_same_size_is_seen(in_place):
    layer, data = bend(AnisotropicDiffusion()), make_data()
    compiled = whole(layer)
    before = call(compiled, data)
    if in_place:
        data.edge_index.copy_(NUM_NODES - 1 - data.edge_index)
    else:
        data.edge_index = NUM_NODES - 1 - data.edge_index
    assert_same(results(compiled, data), results(layer, data))
    assert not torch.allclose(call(compiled, data), before)


def test_bad_input_is_named():
    data = make_data()
    x, edge_index, weight, attr = data.x, data.edge_index, data.edge_weight, data.edge_attr
    layer = whole(AnisotropicDiffusion())
    with pytest.raises(ValueError, match="without self-loops"):
        layer(x, torch.zeros_like(edge_index), weight, attr)
    with pytest.raises(ValueError, match="'edge_attr' to be finite"):
        layer(x, edge_index, weight, attr * float("nan"))
    with pytest.raises(ValueError, match="'x' to be finite"):
        layer(x * float("nan"), edge_index, weight, attr)
    layer = whole(AnisotropicDiffusion(0, num_relations=2))
    with pytest.raises(ValueError, match="'conductance' to have shape"):
        layer(x, edge_index, weight, edge_type=edge_index[0, 1:] % 2)


@pytest.mark.parametrize(
    ("normalization", "prepared"), [("rw", True), *night(("sym", False), (None, True))]
)
def test_heat_diffusion(normalization, prepared):
    data = make_data()
    graph = GraphStructure(data.edge_index, NUM_NODES) if prepared else data.edge_index

    def loss(x, graph, weight, t):
        out = heat_diffusion(x.sin(), graph, weight, t, normalization=normalization)
        return out.cos().sum()

    inputs = [data.x, data.edge_weight, torch.tensor([0.5, 2.0])]
    x, weight, t = inputs = [each.requires_grad_() for each in inputs]
    gradients = [
        torch.autograd.grad(run(x, graph, weight, t), inputs) for run in (whole(loss), loss)
    ]
    assert_same(*gradients)


def test_a_number_as_time_may_change():
    data, counter = make_data(), CompileCounterWithBackend("aot_eager")
    compiled = whole(heat_diffusion, counter)
    for t in (1.0, 2.0, 3.0, 4.0):
        actual = compiled(data.x, data.edge_index, t=t)
        assert_same([actual], [heat_diffusion(data.x, data.edge_index, t=t)])
    assert counter.frame_count == 2
    with pytest.raises(ValueError, match="'t' to be finite and >= 0"):
        compiled(data.x, data.edge_index, t=-1.0)


@pytest.mark.parametrize(
    ("backend", "num_nodes"),
    [("auto", NUM_NODES), *night(("auto", 0), ("reference", 0), ("reference", NUM_NODES))],
)
def test_what_is_not_looked_at_gets_no_gradient(backend, num_nodes):
    data = make_data()
    x, weight = data.x[:num_nodes], data.edge_weight.requires_grad_()
    edge_index = data.edge_index
    if num_nodes == 0:
        edge_index, weight = edge_index[:, :0], torch.ones(0, requires_grad=True)
    compiled = whole(heat_diffusion)
    out = compiled(x, edge_index, weight, degree=0, backend=backend)
    assert torch.equal(out, heat_diffusion(x, edge_index, weight, degree=0, backend=backend))
    (gradient,) = torch.autograd.grad(out.sum(), weight)
    assert torch.equal(gradient, torch.zeros_like(weight))


@pytest.mark.parametrize(
    ("differentiable", "keep", "backend"),
    [
        (True, True, "numba"),
        *night((False, False, "numba"), (True, True, "torch"), (True, False, "reference")),
    ],
)
def test_the_op_is_registered_properly(differentiable, keep, backend):
    data = make_data()
    x, weight = data.x.requires_grad_(differentiable), data.edge_weight.requires_grad_()
    t = torch.tensor([[0.5], [2.0]], requires_grad=True)
    source, target = data.edge_index
    options = (None, 1e-6, "sym", backend, 1.0, keep)
    torch.library.opcheck(
        torch.ops.jsem_pyg.heat_diffusion.default,
        (x, t, weight, None, None, target, source, *options),
    )


EAGER = {
    "hypergraph layer": lambda: HypergraphDiffusion(num_hyperedges=4, t=0.9),
    "hypergraph convolution": lambda: HypergraphChebConv(CHANNELS, 2, num_hyperedges=4),
    "complex layer": lambda: SimplicialDiffusion(t=0.9, t_up=0.3),
    "filter": lambda: filters.Heat(0.9),
    "energy": lambda: dirichlet_energy,
}


DAY = ["complex layer", "filter"]


@pytest.mark.parametrize("name", [*DAY, *night(*[name for name in EAGER if name not in DAY])])
def test_what_has_no_registered_op_runs_eagerly_in_compiled_code(name):
    function = EAGER[name]()
    compiled = torch.compile(lambda x, index: function(x.sin(), index).cos(), backend="aot_eager")
    for size in (5, 7):
        x = torch.rand(size, CHANNELS, requires_grad=True)
        index = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size])
        if "hypergraph" in name:
            index = index % torch.tensor([[size], [4]])
        elif "complex" not in name:
            index = torch.cat([index, index.flip(0)], dim=1)
        actual, expected = compiled(x, index), function(x.sin(), index).cos()  # eager code last
        torch.testing.assert_close(actual, expected)
        gradients = [torch.autograd.grad(out.sum(), x)[0] for out in (expected, actual)]
        torch.testing.assert_close(*gradients)


def test_derivatives_that_compiled_code_does_not_know_are_refused_where_torch_returns_zeros():
    layer, data = bend(AnisotropicDiffusion(backend="reference", learn_t=False)), make_data()
    compiled, x = torch.compile(layer, backend="eager"), data.x.requires_grad_()
    with pytest.raises(NotImplementedError, match="Expected first derivatives"):
        torch.autograd.grad(call(compiled, data).sin().sum(), x, create_graph=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(data.x.detach(), torch.ones_like(x))
        with torch.no_grad(), pytest.raises(NotImplementedError, match="Expected no forward mode"):
            call(compiled, data, dual)
