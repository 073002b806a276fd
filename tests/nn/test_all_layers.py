"""Every public layer: made without memory and filled in later, copied, kept in files, trained."""

import copy
import pickle

import pytest
import torch
from hypergraph_cases import case
from layer_cases import CHANNELS, call, make_data

from jsem_pyg.nn import (
    AnisotropicChebConv,
    AnisotropicDiffusion,
    DiffusionClassifier,
    HeteroChebConv,
    HeteroDiffusion,
    HypergraphChebConv,
    HypergraphDiffusion,
    MLPConductance,
    RelationalChebConv,
    SigmoidConductance,
    SimplicialDiffusion,
)

STRUCTURE, _ = case("random")
COUNT = STRUCTURE.num_hyperedges
SIGNAL = torch.randn(STRUCTURE.num_nodes, CHANNELS)
DATA = make_data()
EDGES = torch.tensor([[0, 1], [1, 2]])


def on_graph(layer):
    return call(layer, DATA)


def on_hypergraph(layer):
    return layer(SIGNAL, STRUCTURE)


def on_features(layer):
    return layer(torch.randn(7, 2))


def alone(layer):
    return layer()


# What makes a layer, and what uses it.
LAYERS = [
    (lambda: AnisotropicDiffusion(t=[1.0, 2.0]), on_graph),
    (lambda: AnisotropicDiffusion(t=torch.ones(2, CHANNELS, device="cpu")), on_graph),
    (lambda: AnisotropicDiffusion(conductance="mlp"), on_graph),
    (lambda: AnisotropicChebConv(CHANNELS, 2, t=[1.0, 2.0]), on_graph),
    (lambda: AnisotropicChebConv(CHANNELS, 9), on_graph),
    (lambda: DiffusionClassifier(CHANNELS, 3), lambda layer: layer(
        DATA.x, DATA.edge_index)),
    (lambda: HypergraphDiffusion(num_hyperedges=COUNT, t=[1.0, 2.0]), on_hypergraph),
    (lambda: HypergraphChebConv(CHANNELS, 2, num_hyperedges=COUNT), on_hypergraph),
    (lambda: SimplicialDiffusion(t=2.0), lambda layer: layer(torch.randn(2, 3), EDGES)),
    (lambda: SigmoidConductance(2), on_features),
    (lambda: MLPConductance(2), on_features),
    (lambda: AnisotropicDiffusion(0, conductance="agreement"), lambda layer: layer(
        DATA.x.softmax(-1), DATA.edge_index)),
    (lambda: AnisotropicDiffusion(0, num_relations=3), lambda layer: layer(
        torch.eye(2), EDGES.new_tensor([[0, 1], [1, 0]]), edge_type=torch.tensor([2, 2]))),
    (lambda: HeteroDiffusion((["a"], [("a", "to", "a")])), lambda layer: layer(
        {"a": torch.eye(3)}, {("a", "to", "a"): EDGES})["a"]),
    (lambda: HeteroChebConv({"a": 2}, 3, (["a"], [("a", "to", "a")])), lambda layer: layer(
        {"a": torch.randn(3, 2)}, {("a", "to", "a"): EDGES})["a"]),
    (lambda: RelationalChebConv(2, 3, 2, num_bases=1), lambda layer: layer(
        torch.randn(3, 2), EDGES, torch.tensor([0, 1]))),
]  # fmt: skip
IDS = [f"{type(make()).__name__}{i}" for i, (make, _) in enumerate(LAYERS)]


@pytest.mark.parametrize(("make", "use"), LAYERS, ids=IDS)
def test_a_layer_made_on_meta_becomes_a_new_one(make, use):
    with torch.device("meta"):
        layer = make()
    assert all(each.is_meta for each in layer.parameters())
    layer = layer.to_empty(device="cpu")
    for each in (*layer.parameters(), *layer.buffers()):  # what `to_empty` happens to find
        each.data.fill_(torch.nan if each.is_floating_point() else 1 << 40)
    torch.manual_seed(0)
    if hasattr(layer, "reset_parameters"):
        layer.reset_parameters()
    other = make()
    torch.manual_seed(0)
    if hasattr(other, "reset_parameters"):
        other.reset_parameters()
    expected = {**dict(other.named_parameters()), **dict(other.named_buffers())}
    actual = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert torch.equal(value, expected[name]), name
        assert value.requires_grad == expected[name].requires_grad
    torch.manual_seed(1)
    out = use(layer)
    torch.manual_seed(1)
    assert torch.equal(out, use(other))


def seeded(use, layer):
    torch.manual_seed(1)
    return use(layer)


def learned(make):
    """A layer whose parameters are no longer those of a new one."""
    layer = make()
    with torch.no_grad():
        for each in layer.parameters():
            each.add_(torch.linspace(0.5, 1.5, each.numel()).view_as(each))
    return layer


@pytest.mark.parametrize(("make", "use"), LAYERS, ids=IDS)
def test_copies_pickles_and_states_give_the_same(make, use):
    layer, other = learned(make), make()
    other.load_state_dict(layer.state_dict())
    expected = seeded(use, layer.eval())
    for same in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other.eval()):
        assert torch.equal(seeded(use, same), expected)
