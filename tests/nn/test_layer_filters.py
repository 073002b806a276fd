"""Layers with a filter in place of the heat, and with masses of the nodes."""

from functools import partial

import pytest
import torch
from dense import dense_laplacian
from hypergraph_cases import random_hypergraph
from layer_cases import CHANNELS, NUM_NODES, bend, call, make_data
from simplicial_cases import shuffled

from jsem_pyg.diffusion import filters
from jsem_pyg.nn import (
    AnisotropicChebConv,
    AnisotropicDiffusion,
    HypergraphChebConv,
    HypergraphDiffusion,
    SimplicialDiffusion,
)

HYPEREDGES = random_hypergraph(9, 5, num_isolated=1)


def learned(degree=6):
    return filters.Learned(degree, start=filters.Heat(2.0))


def dense_of(layer, data, of=None):
    """f(L) X by the eigenvectors of the dense Laplacian of what the layer conducts."""
    with torch.no_grad():
        conductance = layer.conductance(data.edge_attr)
    weight = (data.edge_weight * conductance).double()
    normalization = layer.options.normalization
    laplacian = dense_laplacian(data.edge_index, weight, NUM_NODES, normalization)
    value, vector = torch.linalg.eig(laplacian)
    f = (layer.filter if of is None else of).response(value.real.clamp_min(0)).detach()
    return (vector * f.to(vector)).matmul(torch.linalg.inv(vector)).real @ data.x.double()


def test_gradients_of_filter_conductance_and_signal():
    data = make_data().apply(lambda v: v.double() if v.is_floating_point() else v)
    layer = bend(AnisotropicDiffusion(edge_dim=1, filter=learned(4), tol=1e-11).double())
    slope = dict(layer.conductance.named_parameters())

    def run(x, value, *parts):
        names = [f"conductance.{name}" for name in slope]
        given = {"filter.value": value, **dict(zip(names, parts, strict=True))}
        args = (x, data.edge_index, data.edge_weight, data.edge_attr)
        return torch.func.functional_call(layer, given, args)

    given = [data.x, layer.filter.value, *slope.values()]
    leaves = [each.detach().clone().requires_grad_() for each in given]
    assert torch.autograd.gradcheck(run, leaves, fast_mode=True, atol=1e-6)


def test_the_filter_is_a_part_of_the_layer():
    data = make_data()
    conv = AnisotropicChebConv(CHANNELS, 3, edge_dim=1, filter=learned())
    assert "filter.value" in conv.state_dict()
    assert "filter=Learned(degree=6, start=FromFunction(heat, t=2.0))" in repr(conv)
    assert not conv.time.raw.requires_grad
    call(conv, data).square().sum().backward()
    assert conv.filter.value.grad.abs().min() > 0
    first = conv.filter.value.detach().clone()
    other = AnisotropicChebConv(CHANNELS, 3, edge_dim=1, filter=filters.Learned(6))
    other.load_state_dict(conv.state_dict(), strict=False)  # whose start has no parameters
    assert torch.equal(call(other, data), call(conv, data))
    with torch.no_grad():
        conv.filter.value += 1
    conv.reset_parameters()
    assert torch.equal(conv.filter.value, first)


def test_a_bank_is_reset_and_gives_a_result_for_each_filter():
    data = make_data()
    bank = filters.FilterBank(filters.Learned(3), filters.Resolvent(2.0))
    layer = AnisotropicDiffusion(filter=bank, tol=1e-7)
    with torch.no_grad():
        bank.parts[0].value.mul_(2)
    out = call(layer, data)
    torch.testing.assert_close(out[:, :CHANNELS], 2 * data.x, atol=1e-5, rtol=0)
    expected = dense_of(layer, data, filters.Resolvent(2.0))
    torch.testing.assert_close(out[:, CHANNELS:].double(), expected, atol=1e-5, rtol=0)
    layer.reset_parameters()
    torch.testing.assert_close(call(layer, data)[:, :CHANNELS], data.x, atol=1e-5, rtol=0)


def test_hypergraph_layers_take_filters():
    x = torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    bank = filters.FilterBank(filters.Heat(2.0), filters.PersonalizedPageRank(0.2))
    layer = HypergraphDiffusion(filter=bank, tol=1e-9).double()
    out = layer(x, HYPEREDGES)
    heat = HypergraphDiffusion(t=2.0, tol=1e-9).double()(x, HYPEREDGES)
    torch.testing.assert_close(out[:, :4], heat, atol=1e-7, rtol=0)
    ranks, alpha = out[:, 4:], 0.2  # (alpha I + (1 - alpha) L) f x = alpha x
    structure = torch.eye(9, dtype=torch.float64)
    unit = HypergraphDiffusion(filter=learned_line()).double()
    laplacian = (structure - unit(structure, HYPEREDGES)) / 2  # L = (I - S) / 2
    solved = alpha * ranks + (1 - alpha) * laplacian @ ranks
    torch.testing.assert_close(solved, alpha * x, atol=1e-6, rtol=0)
    conv = HypergraphChebConv(4, 2, filter=learned())
    conv(x.float(), HYPEREDGES).sum().backward()
    assert conv.filter.value.grad.abs().sum() > 0


def learned_line():
    """The polynomial S."""
    made = filters.Learned(1)
    with torch.no_grad():
        made.value.copy_(torch.cos(torch.pi * (torch.arange(2) + 0.5) / 2))
    return made


@pytest.mark.parametrize("triangles", [None, torch.empty(3, 0, dtype=torch.int64)])
def test_filters_of_the_hodge_laplacian(triangles):
    edges = shuffled(8, 0.6, seed=2)
    x = torch.randn(edges.size(1), 3, dtype=torch.float64)
    layer = SimplicialDiffusion(filter=filters.Resolvent(0.4), tol=1e-10).double()
    out = layer(x, edges, triangles)
    eye = torch.eye(edges.size(1), dtype=torch.float64)
    small = 1e-5  # L by a difference of its heat
    layers = [SimplicialDiffusion(t=k * small, tol=1e-13).double() for k in (1, 2)]
    heat = [each(eye, edges, triangles) for each in layers]
    laplacian = (3 * eye - 4 * heat[0] + heat[1]).detach() / (2 * small)
    torch.testing.assert_close(out + 0.4 * laplacian @ out, x, atol=1e-5, rtol=0)
    assert not any(each.requires_grad for each in layer.parameters())  # times are not used
    expected = "SimplicialDiffusion(filter=FromFunction(resolvent, t=0.4))"
    assert repr(layer) == expected


def mass():
    return torch.linspace(0.2, 3.0, NUM_NODES)


def test_what_is_refused():
    with pytest.raises(TypeError, match="Expected 'filter' to be a filter"):
        AnisotropicDiffusion(filter=lambda eigenvalue: eigenvalue)
    data = make_data()
    with pytest.raises(ValueError, match=r"normalization=None.*'node_mass'"):
        AnisotropicDiffusion()(data.x, data.edge_index, node_mass=mass())
    with pytest.raises(TypeError, match="node_mass"):
        HypergraphDiffusion()(torch.ones(9, 1), HYPEREDGES, node_mass=torch.ones(9))
    with pytest.raises(TypeError, match="node_mass"):
        SimplicialDiffusion()(torch.ones(3, 1), torch.tensor([[0], [1]]), node_mass=torch.ones(1))


@pytest.mark.parametrize("layer", [AnisotropicDiffusion, partial(AnisotropicChebConv, 3, 4)])
def test_a_conductance_that_is_not_used_gets_gradients_of_zero(layer):
    """`DistributedDataParallel` takes a parameter without a gradient for an error."""
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    layer = layer(filter=filters.Learned(3), conductance="mlp")
    layer(torch.randn(3, 3), edge_index).sum().backward()
    assert all(each.grad is not None for each in layer.parameters() if each.requires_grad)
    assert all(not each.grad.any() for each in layer.conductance.parameters())
