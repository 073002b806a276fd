"""Under autocast the diffusion stays in full precision; linear maps go as autocast says."""

import pytest
import torch
from layer_cases import CHANNELS, Similarity, bend, call, make_data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, DiffusionClassifier

HERE = ["reference", "torch", "torch_sparse", "numba"]


def autocast(dtype=torch.bfloat16):
    return torch.autocast("cpu", dtype)


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize(
    ("normalization", "dtype"), [("rw", torch.bfloat16), (None, torch.float16)]
)
def test_heat_diffusion_is_left_alone(backend, normalization, dtype):
    data = make_data()
    x, weight, t = data.x, data.edge_weight, torch.tensor([0.5, 3.0])
    leaves = [each.requires_grad_() for each in (x, weight, t)]

    def diffuse():
        return heat_diffusion(
            x, data.edge_index, weight, t, normalization=normalization, backend=backend
        )

    expected = diffuse()
    wanted = torch.autograd.grad(expected.sin().sum(), leaves)
    with autocast(dtype):
        out = diffuse()
        inside = torch.autograd.grad(out.sin().sum(), leaves, retain_graph=True)
    outside = torch.autograd.grad(out.sin().sum(), leaves)
    assert torch.equal(out, expected)
    for gradients in (inside, outside):
        assert all(map(torch.equal, gradients, wanted))


@pytest.mark.parametrize("conductance", ["sigmoid", "mlp", Similarity()])
@pytest.mark.parametrize("fuse", [True, False])
def test_a_layer_without_a_linear_map_is_left_alone(conductance, fuse):
    data = make_data()
    layer = bend(AnisotropicDiffusion(t=[0.5, 2.0], conductance=conductance, fuse=fuse))
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = call(layer, data)
        gradients = torch.autograd.grad(out.sin().sum(), list(layer.parameters()))
        results.append([out, *gradients])
    for actual, wanted in zip(*results, strict=True):
        assert torch.equal(actual, wanted)


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize(("width", "t"), [(2, 0.5), (12, [0.5, 2.0])])  # the map is first, or last
def test_only_the_linear_map_loses_precision(backend, width, t):
    data = make_data()
    conv = bend(AnisotropicChebConv(CHANNELS, width, t=t, backend=backend))
    parameters = list(conv.parameters())
    expected = call(conv, data)
    wanted = torch.autograd.grad(expected.sin().sum(), parameters)
    with autocast():
        out = call(conv, data)
        assert call(conv, data, data.x.bfloat16()).dtype == out.dtype
        assert (out - expected).abs().max() > 0
    gradients = torch.autograd.grad(out.float().sin().sum(), parameters)
    for actual, full in zip([out.float(), *gradients], [expected, *wanted], strict=True):
        torch.testing.assert_close(actual, full, rtol=5e-2, atol=5e-2)


class Alike(torch.nn.Module):
    """A conductance of both ends, with a map whose type autocast would choose."""

    def __init__(self, in_channels):
        super().__init__()
        self.lin = torch.nn.Linear(in_channels, 4)

    def forward(self, edge_attr, x_i, x_j):
        return (self.lin(x_i) * self.lin(x_j)).sum(-1).sigmoid()


def test_conductances_of_nodes_take_the_features_that_maps_return():
    data = make_data()
    conv = AnisotropicChebConv(CHANNELS, 3, edge_dim=0, conductance=Alike(CHANNELS))
    model = DiffusionClassifier(CHANNELS, 3, conductance=Alike(3))
    edges = data.edge_index, data.edge_weight
    expected = conv(data.x, *edges), model(data.x, *edges)
    with autocast():
        low = conv(data.x.bfloat16(), *edges).float()
        p = model(data.x, *edges)
        assert model.conductances(data.x, *edges).dtype == p.dtype == torch.float32
    actual = low, p
    torch.testing.assert_close(actual, expected, rtol=5e-2, atol=5e-2)
