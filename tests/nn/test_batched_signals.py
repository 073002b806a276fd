"""Every layer takes [..., N, D], and gives what a loop over the leading dimensions gives.

The layers on hypergraphs are in `test_hypergraph_layers.py`.
"""

import pytest
import torch
from layer_cases import CHANNELS, NORMALIZATIONS, NUM_NODES, bend, call, make_data

from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion

LAYERS = {
    "AnisotropicDiffusion": AnisotropicDiffusion,
    "AnisotropicChebConv, wider": lambda **kwargs: AnisotropicChebConv(CHANNELS, 9, **kwargs),
    "AnisotropicChebConv, narrower": lambda **kwargs: AnisotropicChebConv(CHANNELS, 1, **kwargs),
}


def gradients(layer, out, x):
    direction = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).sin().reshape(out.shape)
    return torch.autograd.grad(out, (x, *layer.parameters()), direction)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("t", [1.5, [0.5, 3.0], torch.linspace(0.5, 4.0, CHANNELS).unsqueeze(0)])
@pytest.mark.parametrize(("shape", "fuse"), [((2, 3), True), ((2,), False)])
def test_a_batch_is_the_loop_over_its_signals(name, normalization, t, shape, fuse):
    data = make_data()
    data.edge_weight, data.edge_attr = data.edge_weight.double(), data.edge_attr.double()
    layer = bend(LAYERS[name](t=t, normalization=normalization, fuse=fuse)).double()
    x = torch.randn(*shape, NUM_NODES, CHANNELS, dtype=torch.float64, requires_grad=True)
    out = call(layer, data, x)
    loop = torch.stack([call(layer, data, each) for each in x.flatten(0, -3)]).unflatten(0, shape)
    torch.testing.assert_close(out, loop, rtol=1e-6, atol=1e-9)
    for one, other in zip(gradients(layer, out, x), gradients(layer, loop, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)
