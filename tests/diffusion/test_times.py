"""The shape of `t` means the same at every door: [S] scales, or [S, D] scales and channels."""

import numpy as np
import pytest
import torch
from dense import exact_heat_diffusion
from hypergraph_cases import case, hypergraph_diffusion
from laws import random_graph
from layer_cases import CHANNELS, make_data

from jsem_pyg.diffusion import diffuse, heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion, HypergraphDiffusion
from jsem_pyg.operators import laplacian_operator

DATA = make_data()
STRUCTURE, WEIGHT = case("random", dtype=torch.float32)
SIGNAL = torch.randn(STRUCTURE.num_nodes, CHANNELS, generator=torch.Generator().manual_seed(0))


def on_operator(t):
    structure = GraphStructure(DATA.edge_index, len(DATA.x))
    return diffuse(DATA.x, laplacian_operator(structure, DATA.edge_weight), t)


def compiled(t):
    torch._dynamo.reset()  # each shape of t is code of its own
    run = torch.compile(heat_diffusion, backend="eager", fullgraph=True)
    return run(DATA.x, DATA.edge_index, DATA.edge_weight, t)


FUNCTIONS = {
    "heat_diffusion": lambda t: heat_diffusion(DATA.x, DATA.edge_index, DATA.edge_weight, t),
    "compiled": compiled,
    "diffuse": on_operator,
    "hypergraph_diffusion": lambda t: hypergraph_diffusion(SIGNAL, STRUCTURE, WEIGHT, t),
    "dense": lambda t: hypergraph_diffusion(SIGNAL, STRUCTURE, WEIGHT, t, by_kernel=True),
}
LAYERS = {
    "diffusion": lambda t: AnisotropicDiffusion(edge_dim=0, t=t)(
        DATA.x, DATA.edge_index, DATA.edge_weight
    ),
    "watched": lambda t: AnisotropicDiffusion(edge_dim=0, t=t, fuse=False)(
        DATA.x, DATA.edge_index, DATA.edge_weight
    ),
    "hypergraph": lambda t: HypergraphDiffusion(t=t)(SIGNAL, STRUCTURE, WEIGHT),
}
SCALES = torch.tensor([0.5, 1.0, 2.0, 4.0])  # as many as there are channels, on purpose


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_dimension_is_scales(name):
    run = FUNCTIONS[name]
    one = [run(float(t)) for t in SCALES]
    torch.testing.assert_close(run(SCALES), torch.stack(one))
    torch.testing.assert_close(run(SCALES[:, None]), torch.stack(one))
    assert run(SCALES[0]).shape == one[0].shape
    assert run(SCALES[:1]).shape == (1, *one[0].shape)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_dimensions_are_scales_and_channels(name):
    run = FUNCTIONS[name]
    times = torch.stack([SCALES, SCALES.flip(0) + 0.1])
    one = [[run(float(t))[:, i] for i, t in enumerate(row)] for row in times]
    expected = torch.stack([torch.stack(row, dim=1) for row in one])
    torch.testing.assert_close(run(times), expected)
    torch.testing.assert_close(run(times[:1]), expected[:1])
    for t in (torch.ones(2, CHANNELS + 1), torch.ones(1, 2, CHANNELS)):
        with pytest.raises((ValueError, RuntimeError), match=r"scales or \[S, D\] scales and"):
            run(t)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_put_scales_side_by_side(name):
    layer = LAYERS[name]
    side_by_side = torch.cat([layer(float(t)) for t in SCALES], dim=-1)
    for t in (SCALES, SCALES.tolist(), SCALES[:, None].expand(-1, CHANNELS)):
        torch.testing.assert_close(layer(t), side_by_side)
    by_channel = layer(SCALES[None])
    expected = torch.stack([layer(float(t))[:, i] for i, t in enumerate(SCALES)], dim=1)
    torch.testing.assert_close(by_channel, expected)


@pytest.mark.parametrize("t", [0.0, 1e-12, 1e-9, 1e-4, 1e-2])
@pytest.mark.parametrize("normalization", ["sym", "rw", None])
def test_the_gradient_in_the_shortest_times(t, normalization):
    edge_index, weight = random_graph(20, 0.5)
    x = torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    direction = torch.linspace(-1, 2, 60, dtype=torch.float64).view(20, 3)
    gradients = []
    for way in (heat_diffusion, exact_heat_diffusion):
        time = torch.tensor(t, dtype=torch.float64, requires_grad=True)
        out = way(x, edge_index, weight, time, normalization=normalization)
        gradients.append(torch.autograd.grad((direction * out).sum(), time)[0])
    # What is cut is a hundredth of the tolerance, of a derivative of some hundreds.
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-5)


def test_an_array_without_dimensions_is_a_single_time():
    expected = heat_diffusion(DATA.x, DATA.edge_index, DATA.edge_weight, 2.0)
    for t in (np.array(2.0), np.float32(2.0), np.int64(2)):
        assert torch.equal(heat_diffusion(DATA.x, DATA.edge_index, DATA.edge_weight, t), expected)
