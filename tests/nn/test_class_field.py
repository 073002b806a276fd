import pytest
import torch
from torch.testing import assert_close
from torch_geometric.data import Data

from jsem_pyg.neighbors import NeighborIndex
from jsem_pyg.nn import AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.nn.class_field import ClassField
from jsem_pyg.nn.diffusion_classifier import balance_classes
from jsem_pyg.training import fit
from jsem_pyg.training.training_graph import prepare_graph

NUM_CLASSES, NUM_NEW = 3, 4


def blobs(count, seed):
    draw = torch.Generator().manual_seed(seed)
    centre = torch.eye(5)[torch.arange(count) % NUM_CLASSES]
    return centre + 0.3 * torch.randn(count, 5, generator=draw)


@pytest.fixture(scope="module")
def trained():
    x = blobs(45, 0)
    index = NeighborIndex(x, 5)
    data = Data(x=x, edge_index=index.edge_index, edge_weight=index.edge_weight)
    model = fit(DiffusionClassifier(5, NUM_CLASSES), data, times=[2.0], epochs=2).model
    graph = prepare_graph(data)
    field = ClassField(model, model.classify(x), graph.structure, graph.edge_weight)
    x_new = blobs(NUM_NEW, 1)
    return model, data, field, x_new, *index.links(x_new)


def one_way_heat(data, conductance, row, signal, t):
    """The heat of the last node, which others lead to and which leads to none."""
    n = data.num_nodes
    w = torch.zeros(n + 1, n + 1, dtype=torch.float64)
    w[*data.edge_index] = (data.edge_weight * conductance).double()
    w[n, :n] = row
    degree = w.sum(1)
    s = w / (degree[:, None] * degree).sqrt()
    return torch.matrix_exp(t * (s - torch.eye(n + 1))) @ signal


def one_by_hand(model, data, x_new, neighbor, weight):
    """What the model says of a point, by its definition and dense exponentials."""
    t = float(model.t)
    row = torch.zeros(data.num_nodes, dtype=torch.float64)
    row[neighbor] = weight.double()
    q = model.classify(torch.cat([data.x, x_new[None]])).double()
    p = one_way_heat(data, torch.ones(data.num_edges), row, q, t)
    p = balance_classes(p, model.isotropic_mean.mean.double(), model.balance)
    agree = AnisotropicDiffusion(0, conductance="agreement").conductance
    nodes = torch.arange(data.num_nodes)
    row = row * agree(p, torch.stack([nodes, torch.full_like(nodes, data.num_nodes)]))
    out = one_way_heat(data, agree(p, data.edge_index), row, p, t)
    return balance_classes(out, model.anisotropic_mean.mean.double(), model.balance)[-1]


def test_nodes_have_what_the_model_says(trained):
    model, data, field, *_ = trained
    assert_close(field.p, model(data.x, data.edge_index, data.edge_weight), rtol=1e-4, atol=1e-5)
    expected = model.conductances(data.x, data.edge_index, data.edge_weight)
    assert_close(field.conductance, expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_points_have_what_the_definition_says_of_each_alone(trained):
    model, data, field, x_new, neighbor, weight = trained
    actual = field.at(x_new, neighbor, weight)
    each = zip(x_new, neighbor, weight, strict=True)
    expected = torch.stack([one_by_hand(model, data, *of) for of in each]).float()
    assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert actual.std(0).max() > 0.1


def test_points_have_the_same_alone_and_among_others(trained):
    _, _, field, *new = trained
    together = field.at(*new)
    for each in range(NUM_NEW):
        assert torch.equal(field.at(*(of[each : each + 1] for of in new)), together[each, None])


def test_a_model_in_training_mode_keeps_its_means(trained):
    model, data, *_ = trained
    graph = prepare_graph(data)
    certain = torch.eye(NUM_CLASSES)[torch.full((data.num_nodes,), 1)]  # of another mean
    expected = ClassField(model, certain, graph.structure, graph.edge_weight).p
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    again = ClassField(model, certain, graph.structure, graph.edge_weight).p
    model.eval()
    assert torch.equal(again, expected)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
