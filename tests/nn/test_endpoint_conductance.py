import pytest
import torch
from layer_cases import CHANNELS, NORMALIZATIONS, NUM_NODES, make_data
from torch.nn.utils.prune import custom_from_mask

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, EndpointConductance
from jsem_pyg.operators import laplacian_operator


def make(seed=0):
    """One that tells edges apart."""
    torch.manual_seed(seed)
    return bend(EndpointConductance(CHANNELS, 3, rate=2.0))


def bend(conductance):
    with torch.no_grad():
        for each in (conductance.apart, conductance.alike, conductance.alone):
            each.copy_(torch.randn(3))
        conductance.bias.fill_(-0.5)
    return conductance


class Given(torch.nn.Module):
    """The features of an edge are its conductance."""

    def forward(self, edge_attr):
        return edge_attr


def ends(data):
    source, target = data.edge_index
    return data.x[target], data.x[source]


def conduct(conductance, data):
    return conductance(None, *ends(data))


def test_starts_constant_as_a_layer_without_it():
    data = make_data()
    torch.manual_seed(0)
    conv = AnisotropicChebConv(CHANNELS, 3, edge_dim=0, conductance=EndpointConductance())
    torch.manual_seed(0)
    plain = AnisotropicChebConv(CHANNELS, 3, edge_dim=0)
    plain.load_state_dict(conv.state_dict(), strict=False)
    out = conv(data.x, data.edge_index, data.edge_weight)
    torch.testing.assert_close(out, plain(data.x, data.edge_index, data.edge_weight))


def test_is_the_form_of_the_docstring_both_ways_alike():
    data, conductance = make_data(), make()
    z = data.x @ conductance.lin.weight.t()
    i, j = z[data.edge_index[1]], z[data.edge_index[0]]
    terms = (i - j).abs() * conductance.apart + i * j * conductance.alike
    logit = 2 * ((terms + (i + j) * conductance.alone).sum(-1) + conductance.bias)
    h = conduct(conductance, data)
    torch.testing.assert_close(h, 1e-4 + (1 - 1e-4) * logit.sigmoid())
    dense = torch.zeros(NUM_NODES, NUM_NODES).index_put(tuple(data.edge_index), h)
    torch.testing.assert_close(dense, dense.t())
    assert h.std() > 0.1


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_the_operator_stays_positive_however_the_edges_conduct(normalization):
    data, conductance = make_data(), make()
    h = conduct(conductance, data).double()
    operator = laplacian_operator(
        GraphStructure(data.edge_index, NUM_NODES),
        data.edge_weight.double(),
        normalization,
        h,
        self_loop=0.5,
    )
    s = operator.matrix.apply(torch.eye(NUM_NODES, dtype=torch.float64))
    eigenvalues = torch.linalg.eigvalsh(s)
    assert eigenvalues.min() >= -1 - 1e-12
    assert eigenvalues.max() <= 1 + 1e-12


def test_a_layer_sees_what_a_call_sees():
    data, conductance = make_data(), make()
    layer = AnisotropicDiffusion(edge_dim=0, t=[0.5, 2.0], conductance=conductance)
    out = layer(data.x, data.edge_index, data.edge_weight)
    h = conductance(None, *ends(data))
    expected = heat_diffusion(data.x, data.edge_index, data.edge_weight * h, t=layer.t)
    torch.testing.assert_close(out, torch.cat(list(expected), dim=-1))


@pytest.mark.parametrize("backend", ["numba", "torch"])
def test_every_parameter_and_the_signal_get_the_gradients_of_the_reference(backend):
    data = make_data()
    results = []
    for name in ("reference", backend):
        conductance = make()
        layer = AnisotropicChebConv(
            CHANNELS, 3, edge_dim=0, t=[0.5, 2.0], conductance=conductance, backend=name
        )
        torch.manual_seed(0)
        layer.reset_parameters()
        bend(conductance)  # a new layer starts constant
        x = data.x.clone().requires_grad_()
        layer(x, data.edge_index, data.edge_weight).sin().sum().backward()
        results.append([x.grad, *(each.grad for each in conductance.parameters())])
    for expected, actual in zip(*results, strict=True):
        assert expected.abs().max() > 0
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_edges", [0, 1, 500])
def test_all_nodes_at_once_as_pair_by_pair(num_edges, dtype):
    conductance = make().to(dtype)
    z = torch.randn(20, 3, dtype=dtype, requires_grad=True)  # some nodes have many edges
    target, source = ends = torch.randint(10, (2, num_edges))
    pairs = torch.arange(2 * num_edges).view(2, num_edges)
    grad = torch.randn(num_edges, dtype=dtype)
    learned = (z, conductance.apart, conductance.alike, conductance.alone, conductance.bias)
    results = []
    for out in (
        conductance.along(None, z, ends),
        conductance.along(None, torch.cat([z[target], z[source]]), pairs),
    ):
        results.append((out, *torch.autograd.grad(out, learned, grad)))
    torch.testing.assert_close(*results)


def test_a_class_below_it_is_heard():
    class Half(EndpointConductance):
        def along(self, edge_attr, z, ends):
            return super().along(edge_attr, z, ends) / 2

    data = make_data()
    conductance = bend(Half(CHANNELS, 3))
    layer = AnisotropicDiffusion(0, t=2.0, conductance=conductance, normalization=None)
    weight = data.edge_weight * conduct(conductance, data)
    expected = heat_diffusion(data.x, data.edge_index, weight, t=2.0, normalization=None)
    torch.testing.assert_close(layer(data.x, data.edge_index, data.edge_weight), expected)


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_layer_asks_for_one_way_of_an_edge_and_both_get_it(repeats, monkeypatch):
    """With features of edges, which may differ where an edge is repeated, it asks for both."""
    data = make_data()
    edge_index, weight = data.edge_index.repeat(1, repeats), data.edge_weight.repeat(repeats)
    along, asked, results = EndpointConductance.along, [], []

    def count(self, edge_attr, z, ends):
        asked.append(len(ends[0]))
        return along(self, edge_attr, z, ends)

    monkeypatch.setattr(EndpointConductance, "along", count)
    for attr in (None, torch.zeros(weight.numel(), 1)):
        conductance = make()
        layer = AnisotropicDiffusion(edge_dim=0, t=2.0, conductance=conductance)
        x, w = (each.clone().requires_grad_() for each in (data.x, weight))
        out = layer(x, edge_index, w, edge_attr=attr)
        out.sin().sum().backward()
        results.append([out, x.grad, w.grad, *(each.grad for each in conductance.parameters())])
    num_edges = data.edge_index.size(1)
    assert asked == [num_edges // 2, num_edges * repeats]
    for one_way, both_ways in zip(*results, strict=True):
        torch.testing.assert_close(one_way, both_ways, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_nodes", [0, 1])
def test_no_edges(num_nodes):
    layer = AnisotropicDiffusion(edge_dim=0, conductance=make())
    x = torch.randn(num_nodes, CHANNELS)
    torch.testing.assert_close(layer(x, torch.empty(2, 0, dtype=torch.long)), x)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: make().project(torch.ones(3, 5)),
            ValueError,
            r"'x' to be of shape \[rows, 4\], as 'in_channels' says .got \[3, 5\]",
        ),
        (lambda: make().project(torch.ones(3, 4).double()), TypeError, "'x' to be torch.float32"),
        (
            lambda: make()(None, torch.ones(3, 4), torch.ones(2, 4)),
            ValueError,
            r"'x_i' and 'x_j' to have the same shape .* .got \[3, 4\],.* and \[2, 4\]",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_numbers_below_zero_are_refused():
    class Negative(torch.nn.Module):
        def forward(self, edge_attr, x_i, x_j):
            return -x_i[:, 0].abs()

    data = make_data()
    with pytest.raises(ValueError, match=r"return values in \[0, 1\]"):
        AnisotropicDiffusion(0, conductance=Negative())(data.x, data.edge_index)


def test_hooks_see_a_call_and_take_effect():
    data, conductance = make_data(), make()
    layer = AnisotropicDiffusion(edge_dim=0, conductance=conductance)
    seen = []
    with conductance.register_forward_hook(lambda *given: seen.append(given[2]) or 1 - given[2]):
        out = layer(data.x, data.edge_index)
    torch.testing.assert_close(seen, [conduct(conductance, data)])
    other = AnisotropicDiffusion(conductance=Given())
    torch.testing.assert_close(out, other(data.x, data.edge_index, None, 1 - seen[0]))
    # Pruning is a hook that makes the parameter anew in each call.
    custom_from_mask(conductance, "alike", torch.tensor([1, 0, 1]))
    with torch.no_grad():
        conductance.alike_orig.add_(1.0)
    expected = conduct(conductance, data)
    torch.testing.assert_close(layer.conductance(None, *ends(data)), expected)
    torch.testing.assert_close(
        layer(data.x, data.edge_index), other(data.x, data.edge_index, None, expected)
    )
    forward = conductance.forward
    conductance.forward = lambda *given: (1 + forward(*given)) / 2  # as accelerate does
    torch.testing.assert_close(layer.conductance(None, *ends(data)), (1 + expected) / 2)
    torch.testing.assert_close(
        layer(data.x, data.edge_index), other(data.x, data.edge_index, None, (1 + expected) / 2)
    )
