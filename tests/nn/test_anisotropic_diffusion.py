import copy

import pytest
import torch
from layer_cases import (
    CHANNELS,
    NORMALIZATIONS,
    NUM_NODES,
    Similarity,
    bend,
    call,
    count_preparations,
    make_data,
)
from torch_geometric.typing import SparseTensor

from jsem_pyg import nn
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion

METADATA = ["a"], [("a", "r", "a")]
HETERO = {"HeteroChebConv": (4, 2, METADATA), "HeteroDiffusion": (METADATA,)}
CONDUCTANCES = ["sigmoid", "mlp", Similarity()]


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize(("conductance", "edge_dim"), [("sigmoid", 1), ("mlp", 3)])
def test_a_new_layer_is_isotropic(normalization, conductance, edge_dim):
    data = make_data(edge_dim=edge_dim)
    layer = AnisotropicDiffusion(
        edge_dim, t=2.0, conductance=conductance, normalization=normalization
    )
    constant = layer.conductance(data.edge_attr)
    assert constant.max() == constant.min()
    expected = heat_diffusion(
        data.x,
        data.edge_index,
        constant[0].item() * data.edge_weight,
        2.0,
        normalization=normalization,
    )
    torch.testing.assert_close(call(layer, data), expected)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("conductance", CONDUCTANCES)
@pytest.mark.parametrize("t", [2.0, torch.linspace(0.5, 4.0, 2 * CHANNELS).view(2, -1)])
@pytest.mark.parametrize("repeated", [False, True])
def test_the_watched_path_is_the_fused_path(normalization, conductance, t, repeated):
    data = make_data()
    if repeated:  # parallel edges
        for key in ("edge_index", "edge_weight", "edge_attr"):
            dim = 1 if key == "edge_index" else 0
            data[key] = torch.cat([data[key], data[key]], dim=dim)
    layer = bend(
        AnisotropicDiffusion(
            t=t, conductance=copy.deepcopy(conductance), normalization=normalization
        )
    )
    results = []
    for fuse in (True, False):
        layer.fuse = fuse
        layer.zero_grad()
        x = data.x.clone().requires_grad_()
        out = call(layer, data, x)
        out.sin().sum().backward()
        results.append([out, x.grad, *(p.grad for p in layer.parameters())])
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-5)


def test_hooks_see_every_message_and_may_change_it():
    data, layer = make_data(), bend(AnisotropicDiffusion(t=2.0, degree=8))
    fused, seen = call(layer, data), []
    hook = layer.register_message_forward_hook(lambda module, inputs, out: seen.append(out.shape))
    torch.testing.assert_close(call(layer, data), fused, rtol=1e-5, atol=1e-5)
    assert seen == [(data.num_edges, CHANNELS)] * 8
    hook.remove()
    layer.register_aggregate_forward_hook(lambda module, inputs, out: torch.zeros_like(out))
    assert not torch.allclose(call(layer, data), fused)
    assert seen == seen[:8]


@pytest.mark.parametrize("fuse", [True, False])
def test_sparse_inputs(fuse):
    data = make_data()
    layer = bend(AnisotropicDiffusion(t=2.0, fuse=fuse))
    expected = call(layer, data)
    size = NUM_NODES, NUM_NODES
    coo = torch.sparse_coo_tensor(data.edge_index, data.edge_weight, size)
    actual = layer(data.x, coo.to_sparse_csr(), edge_attr=data.edge_attr)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.sparse
@pytest.mark.parametrize("fuse", [True, False])
def test_a_sparse_tensor_and_its_transpose(fuse):
    data = make_data()
    layer = bend(AnisotropicDiffusion(t=2.0, fuse=fuse))
    expected = call(layer, data)
    size = NUM_NODES, NUM_NODES
    adj = SparseTensor.from_edge_index(data.edge_index, data.edge_weight, sparse_sizes=size)
    for form in (adj, adj.t()):
        actual = layer(data.x, form, edge_attr=data.edge_attr)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_without_edge_features_it_is_isotropic_and_says_so_once(caplog):
    data, layer = make_data(), bend(AnisotropicDiffusion(t=2.0))
    for _ in range(2):
        out = layer(data.x, data.edge_index, data.edge_weight)
    torch.testing.assert_close(out, heat_diffusion(data.x, data.edge_index, data.edge_weight, 2.0))
    assert len(caplog.records) == 1
    assert "got no 'edge_attr'" in caplog.text


def test_the_graph_is_prepared_once_and_a_change_is_seen(monkeypatch):
    data, layer, made = make_data(), AnisotropicDiffusion(), count_preparations(monkeypatch)
    for _ in range(3):
        call(layer, data)
    assert len(made) == 1
    data.edge_index = (NUM_NODES - 1 - data.edge_index).clone()
    call(layer, data)
    assert len(made) == 2


def test_only_a_layer_that_treats_channels_alike_is_sketchable():
    assert AnisotropicDiffusion(t=[1.0, 2.0]).sketchable
    assert not AnisotropicDiffusion(t=torch.ones(1, 4)).sketchable
    assert not AnisotropicDiffusion(conductance=Similarity()).sketchable
    assert not AnisotropicChebConv(4, 2).sketchable


def test_bad_inputs_are_named():
    data = make_data()
    x, edge_index, weight, attr = data.x, data.edge_index, data.edge_weight, data.edge_attr
    layer = AnisotropicDiffusion()
    with pytest.raises(ValueError, match=r"'edge_attr' to be None .* edge_dim=0 \(got \["):
        AnisotropicDiffusion(0)(x, edge_index, weight, attr)
    with pytest.raises(ValueError, match="'edge_weight' to have shape.* as edge_attr="):
        layer(x, edge_index, attr)
    with pytest.raises(ValueError, match=r"'edge_attr' to have shape \[\d+, F\], a row"):
        layer(x, edge_index, weight, attr[1:])
    with pytest.raises(ValueError, match="'edge_attr' to be the same in both directions"):
        layer(x, edge_index, weight, torch.arange(len(attr)).float())
    with pytest.raises(ValueError, match=r"D = 4 .got shape \[1, 3\]"):
        AnisotropicDiffusion(t=torch.ones(1, 3))(x, edge_index, weight, attr)
    with pytest.raises(ValueError, match=r"'x' to have shape \[N, D\], since the conductance"):
        AnisotropicDiffusion(conductance=Similarity())(x.unsqueeze(0), edge_index, weight, attr)


@pytest.mark.parametrize("name", ["AnisotropicChebConv", "DiffusionClassifier", *HETERO])
def test_an_unknown_keyword_is_refused_in_the_name_of_the_layer_that_was_called(name):
    with pytest.raises(TypeError, match=f"^{name} got .* 'foo'.* one of learn_t, "):
        getattr(nn, name)(*HETERO.get(name, (4, 2)), foo=1)
