"""The tolerance holds, whatever the time and the weights; or the call says why it cannot."""

import logging
import math

import pytest
import torch
from laws import random_graph
from simplicial_cases import simplicial_diffusion
from tiny_graphs import ring
from trust.oracle import distance, graph_heat

from jsem_pyg.diffusion import diffuse, heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.operators import laplacian_operator

NORMALIZATIONS = ["sym", "rw", None]
GRAPHS = {
    "random": (*random_graph(12, 0.4), 12),
    "ring": (ring(9)[0], torch.ones(18, dtype=torch.float64), 9),  # every row rounds alike
}


def exact(x, edge_index, weight, t, normalization):
    t = torch.tensor(t, dtype=torch.float64)
    return graph_heat(x.double(), edge_index, weight.double(), t, normalization)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_a_time_beyond_the_range_is_refused(normalization):
    edge_index, weight, num_nodes = GRAPHS["random"]
    x, how = torch.ones(num_nodes, 1), {"normalization": normalization}
    with pytest.raises(ValueError, match="'t' to be at most.*fastest rate.*got 3e.04.*the limit"):
        heat_diffusion(x, edge_index, weight, 3e4, **how)
    if normalization is None:
        with pytest.raises(ValueError, match="'t' to be at most"):
            heat_diffusion(x, edge_index, weight * 1e20, 1.0, **how)


def test_flows_keep_the_tolerance():
    edge_index, weight, _ = GRAPHS["random"]
    once = edge_index[0] < edge_index[1]
    edge_index, weight = edge_index[:, once], weight[once]
    x = torch.randn(edge_index.size(1), 2, generator=torch.Generator().manual_seed(0))
    for factor in (1e-29, 1.0, 1e29, 1e60):
        given = factor * weight if factor > 1e38 else (factor * weight).float()
        times = 200.0 / factor, 300.0 * factor
        narrow = simplicial_diffusion(x, edge_index, None, given, None, *times)
        unit = given.double() / factor
        wide = simplicial_diffusion(x.double(), edge_index, None, unit, None, 200.0, 300.0)
        assert distance(narrow, wide, x.norm()) < 2e-6


def test_signals_near_the_end_of_the_range_are_refused():
    edge_index, weight, num_nodes = GRAPHS["random"]
    x = torch.full((num_nodes, 1), 3e15)
    for signal in (x, -x, x.bfloat16()):
        with pytest.raises(ValueError, match="'x' to lie within.*of zero.*got values from"):
            heat_diffusion(signal, edge_index, weight)
    assert heat_diffusion(1e-1 * x, edge_index, weight, 1e4).isfinite().all()


def test_an_operator_of_float32_warns_of_its_rounding(caplog):
    edge_index, weight, num_nodes = GRAPHS["random"]
    operator = laplacian_operator(GraphStructure(edge_index, num_nodes), weight.float())
    x = torch.ones(num_nodes, 1)
    diffuse(x, operator, 5.0)
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        diffuse(x, operator, 1e4)
    assert "rounding in torch.float32 can change the result by 0.00095" in caplog.text


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_long_times_have_the_gradients_of_float64_compiled_or_not(normalization):
    edge_index, weight, num_nodes = GRAPHS["random"]
    x = torch.randn(num_nodes, 2, generator=torch.Generator().manual_seed(0))
    attr = torch.randn(num_nodes, num_nodes, generator=torch.Generator().manual_seed(1))
    attr = (attr + attr.T)[tuple(edge_index)]
    gradients = []
    ways = [(torch.float64, False), (torch.float32, False)]
    if normalization is not None:  # compiling takes seconds
        ways.append((torch.float32, True))
    for dtype, compiles in ways:
        layer = AnisotropicDiffusion(t=40.0, normalization=normalization).to(dtype)
        with torch.no_grad():
            layer.conductance.slope.fill_(0.7)
        torch._dynamo.reset()
        call = torch.compile(layer, backend="aot_eager", fullgraph=True) if compiles else layer
        leaf = x.to(dtype, copy=True).requires_grad_()
        out = call(leaf, edge_index, weight.to(dtype), attr.to(dtype))
        out.square().sum().backward()
        gradients.append([leaf.grad, *(each.grad for each in layer.parameters())])
    for narrow in gradients[1:]:
        for actual, expected in zip(narrow, gradients[0], strict=True):
            assert distance(actual, expected, max(expected.norm(), 1e-3)) < 1e-5


NARROW, WIDE = torch.float32, torch.float64


@pytest.mark.parametrize(("dtype", "bad"), [(NARROW, 1e-31), (NARROW, 1e31), (WIDE, 1e-201)])
def test_weights_beyond_the_range_are_refused(dtype, bad):
    edge_index, weight, num_nodes = GRAPHS["random"]
    x = torch.ones(num_nodes, 1, dtype=dtype)
    with pytest.raises(ValueError, match="'edge_weight' to be zero, or from .*divide by the larg"):
        heat_diffusion(x, edge_index, weight.to(dtype) * bad)
    mass = torch.full((num_nodes,), bad, dtype=dtype)
    with pytest.raises(ValueError, match="'node_mass' to be zero, or from"):
        heat_diffusion(x, edge_index, weight.to(dtype), normalization=None, node_mass=mass)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_weights_at_both_ends_of_the_range(normalization):
    """Two components; the roots of their degrees are as far apart as float32 goes."""
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    weight = torch.tensor([1e-30, 1e-30, 1e30, 1e30], requires_grad=True)
    x = torch.tensor([[1.0], [0.0], [1.0], [0.0]])
    out = heat_diffusion(x, edge_index, weight, 1.0, normalization=normalization)
    stays = (1 + math.exp(-2)) / 2
    assert out.flatten().tolist() == pytest.approx([stays, 1 - stays] * 2, rel=1e-6)
    out.sum().backward()
    assert weight.grad.isfinite().all()
    if normalization == "rw":  # which has no room in float32
        structure = GraphStructure(edge_index, 4)
        far = torch.tensor([1e-60, 1e-60, 1e60, 1e60], dtype=torch.float64)
        out = heat_diffusion(x, edge_index, far, 1.0, normalization="rw")
        assert out.flatten().tolist() == pytest.approx([stays, 1 - stays] * 2, rel=1e-6)
        steep = laplacian_operator(structure, far, "rw", dtype=torch.float32)
        assert steep.dtype == torch.float64
