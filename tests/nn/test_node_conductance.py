"""Conductances of both ends of an edge: agreement, and modules of the user's own."""

import pytest
import torch
from layer_cases import NUM_NODES, make_data
from torch.nn import Linear, Sequential, Sigmoid

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicDiffusion


class Agreement(torch.nn.Module):
    """The definition, of a pair of rows for every edge."""

    def forward(self, edge_attr, x_i, x_j):
        one, other = (x**2 / (x**2).sum(-1, keepdim=True) for x in (x_i, x_j))
        return 0.05 + 0.95 * (one * other).sum(-1)


class Given(torch.nn.Module):
    """The features of an edge are its conductance."""

    def forward(self, edge_attr):
        return edge_attr


def results(layer, repeats=1):
    """The output, and the gradients of features, weights, and all that is learned."""
    data = make_data().apply(lambda v: v.double() if v.is_floating_point() else v)
    x, weight = data.x.softmax(-1).requires_grad_(), data.edge_weight.repeat(repeats)
    out = layer.double()(x, data.edge_index.repeat(1, repeats), weight.requires_grad_())
    return [out, *torch.autograd.grad(out.sin().sum(), [x, weight, *set(layer.parameters())])]


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("repeats", [1, 2])
def test_a_layer_has_the_values_and_gradients_of_the_definition(fuse, repeats):
    found, expected = (
        results(AnisotropicDiffusion(0, t=2.0, conductance=each, fuse=fuse), repeats)
        for each in ("agreement", Agreement())
    )
    for actual, wanted in zip(found[:3], expected[:3], strict=True):
        assert wanted.abs().max() > 0
        torch.testing.assert_close(actual, wanted)


def test_a_call_gives_what_a_layer_uses():
    data, layer = make_data(), AnisotropicDiffusion(0, t=1.5, conductance="agreement")
    x = data.x.softmax(-1)
    h = layer.conductance(x, data.edge_index)
    dense = torch.zeros(NUM_NODES, NUM_NODES).index_put(tuple(data.edge_index), h)
    torch.testing.assert_close(dense, dense.t())
    assert h.std() > 0.01
    expected = heat_diffusion(x, data.edge_index, data.edge_weight * h, t=1.5)
    torch.testing.assert_close(layer(x, data.edge_index, data.edge_weight), expected)


def test_agreement_is_the_chance_of_one_class():
    agreement = AnisotropicDiffusion(0, conductance="agreement").conductance
    p = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0], [1 / 3] * 3, [1 / 3] * 3])
    edges = torch.tensor([[0, 0, 3], [1, 2, 4]])
    expected = torch.tensor([1, 0.05, 0.05 + 0.95 / 3])
    torch.testing.assert_close(agreement(p, edges), expected)
    p = torch.eye(3).requires_grad_()
    agreement(p, torch.tensor([[0, 1], [2, 2]])).sum().backward()
    assert torch.isfinite(p.grad).all()


class Constant(torch.nn.Module):
    def __init__(self, value, columns=1):
        super().__init__()
        self.value, self.columns = value, columns

    def forward(self, edge_attr):
        return torch.full((len(edge_attr), self.columns), self.value)


class Negative(torch.nn.Module):
    def forward(self, edge_attr, x_i, x_j):
        return -x_i[:, 0].abs()


class FromTheTarget(torch.nn.Module):
    def forward(self, edge_attr, x_i, x_j):
        self.seen = x_i, x_j
        return x_i[:, 0] * torch.ones(len(edge_attr))


def test_a_module_gets_the_target_first_and_edges_conduct_by_the_mean_of_both_directions():
    data, module = make_data(), FromTheTarget()
    x, (source, target) = data.x.softmax(-1), data.edge_index
    given = data.edge_index, data.edge_weight, data.edge_attr
    out = AnisotropicDiffusion(conductance=module, t=2.0)(x, *given)
    torch.testing.assert_close(module.seen, (x[target], x[source]))
    mean = (x[target, 0] + x[source, 0]) / 2
    expected = AnisotropicDiffusion(conductance=Given(), t=2.0)(x, *given[:2], mean)
    torch.testing.assert_close(out, expected)


def test_a_module_is_kept_above_the_floor_and_refused_out_of_range():
    data = make_data()
    attr = torch.zeros(data.num_edges, 1)
    closed, narrow = (
        AnisotropicDiffusion(conductance=Constant(each), normalization=None) for each in (0.0, 1e-4)
    )
    outs = [layer(data.x, data.edge_index, edge_attr=attr) for layer in (closed, narrow)]
    torch.testing.assert_close(*outs, rtol=0, atol=0)
    for module, message in [
        (Constant(1.5), r"'conductance' to return values in \[0, 1\].*Sigmoid"),
        (Constant(float("nan")), "'conductance' to be finite"),
        (Constant(0.5, columns=2), r"'conductance' to return shape \[E\] or \[E, 1\]"),
        (Negative(), r"'conductance' to return values in \[0, 1\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            AnisotropicDiffusion(conductance=module)(data.x, data.edge_index, edge_attr=attr)
    AnisotropicDiffusion(conductance=Sequential(Linear(1, 1), Sigmoid()))
    with pytest.raises(ValueError, match=r"takes \(edge_attr\) or \(edge_attr, x_i, x_j\).*got 2"):
        AnisotropicDiffusion(conductance=torch.nn.Bilinear(1, 1, 1))
    with pytest.raises(
        ValueError, match="'conductance' to be 'sigmoid', 'mlp', 'agr.*torch.nn.Mod"
    ):
        AnisotropicDiffusion(conductance="relu")
