import pytest
import torch
from layer_cases import CHANNELS, make_data
from torch.autograd.graph import saved_tensors_hooks

from jsem_pyg.nn import (
    AgreementConductance,
    AnisotropicChebConv,
    AnisotropicDiffusion,
    DiffusionClassifier,
)


class Plain(torch.nn.Module):
    """The definition: a pair of rows for every edge."""

    def forward(self, edge_attr, x_i, x_j):
        one, other = (x**2 / (x**2).sum(-1, keepdim=True) for x in (x_i, x_j))
        return 0.05 + 0.95 * (one * other).sum(-1)


def results(layer, dtype):
    """The output, and the gradients of probabilities, weights and time."""
    data = make_data()
    p = data.x.to(dtype).softmax(-1).requires_grad_()
    weight = data.edge_weight.to(dtype).requires_grad_()
    out = layer.to(dtype)(p, data.edge_index, weight)
    learned = [p, weight, next(layer.time.parameters())]
    return [out, *torch.autograd.grad(out.sin().sum(), learned)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fuse", [True, False])
def test_a_layer_has_the_values_and_gradients_of_the_definition(dtype, fuse):
    layers = [
        AnisotropicDiffusion(0, t=2.0, conductance=each, fuse=fuse)
        for each in (Plain(), AgreementConductance())
    ]
    expected, actual = (results(layer, dtype) for layer in layers)
    for wanted, found in zip(expected, actual, strict=True):
        assert wanted.abs().max() > 0
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("form", [AgreementConductance, Plain])
def test_no_pair_of_rows_for_every_edge_is_kept(form):
    num_nodes, channels = 40, 16
    edge_index = (1 - torch.eye(num_nodes)).nonzero().t()
    p, kept = torch.rand(num_nodes, channels).softmax(-1).requires_grad_(), []
    layer = AnisotropicDiffusion(0, t=0.5, conductance=form())
    with saved_tensors_hooks(lambda each: kept.append(each.numel()) or each, lambda each: each):
        layer(p, edge_index).sum().backward()
    assert (max(kept) <= 2 * edge_index.size(1)) == (form is AgreementConductance)


def test_second_derivatives():
    data, found = make_data(), []
    for form in (Plain(), AgreementConductance()):
        p = data.x.double().softmax(-1).requires_grad_()
        layer = AnisotropicDiffusion(0, t=2.0, conductance=form, backend="reference").double()
        out = layer(p, data.edge_index).sin().sum()
        (first,) = torch.autograd.grad(out, p, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), p))
    torch.testing.assert_close(*found)


@pytest.mark.slow
def test_compiled():
    layer = AnisotropicDiffusion(0, conductance=AgreementConductance())
    whole = torch.compile(layer, fullgraph=True, backend="aot_eager")
    whole.time = layer.time
    expected, actual = results(layer, torch.float32), results(whole, torch.float32)
    for wanted, found in zip(expected, actual, strict=True):
        torch.testing.assert_close(found, wanted)


def test_loops_conduct_in_full():
    layers = [
        AnisotropicChebConv(CHANNELS, 2, edge_dim=0, conductance=each)
        for each in (Plain(), AgreementConductance())
    ]
    layers[1].lin.load_state_dict(layers[0].lin.state_dict())
    data = make_data()
    p = data.x.softmax(-1)
    outs = [layer(p, data.edge_index, data.edge_weight) for layer in layers]
    torch.testing.assert_close(*outs)


def test_a_form_of_the_users_own_is_heard():
    class Timid(AgreementConductance):
        def forward(self, edge_attr, x_i, x_j):
            return super().forward(edge_attr, x_i, x_j).square()

    data = make_data()
    arguments = (data.x, data.edge_index, data.edge_weight)
    heard = []
    for form in (AgreementConductance(), Timid()):
        torch.manual_seed(0)
        heard.append(DiffusionClassifier(CHANNELS, 3, conductance=form).conductances(*arguments))
    torch.testing.assert_close(heard[1], heard[0].square())


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_a_common_factor_of_a_row_cancels(factor):
    p, form = torch.rand(5, 3) + 0.1, AgreementConductance()
    expected = form(None, p, p.flip(0))
    torch.testing.assert_close(form(None, factor * p, p.flip(0)), expected)


def test_high_powers_of_many_small_probabilities():
    p = (0.1 * torch.randn(4, 400, dtype=torch.float64)).softmax(-1)
    form = AgreementConductance(sharpness=30.0)
    expected = form(None, p, p).float()
    torch.testing.assert_close(form(None, p.float(), p.float()), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("num_nodes", [0, 1])
def test_no_edges(num_nodes):
    layer = AnisotropicDiffusion(0, conductance=AgreementConductance())
    p = torch.rand(num_nodes, 3)
    torch.testing.assert_close(layer(p, torch.empty(2, 0, dtype=torch.long)), p)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda form: form(None, torch.ones(3, 2), torch.ones(4, 2)),
            r"'x_i' and 'x_j' to have the same shape \[E, D\].*got \[3, 2\].* and \[4, 2\]",
        ),
        (
            lambda form: form(None, torch.ones(3, 2), torch.ones(3, 2).double()),
            r"'x_i' and 'x_j' to have the same shape .* and type",
        ),
        (
            lambda form: form(None, torch.ones(3, 0), torch.ones(3, 0)),
            r"a probability for every class \(got \[6, 0\]\)",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call(AgreementConductance())
