from types import SimpleNamespace

import pytest
import torch
from scipy.linalg import expm
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import Linear
from torch_geometric.utils import stochastic_blockmodel_graph
from training.training_cases import two_clusters

from jsem_pyg.nn import DiffusionClassifier, EndpointConductance, MLPConductance
from jsem_pyg.training import fit, label_propagation, propagate_labels, select_time
from jsem_pyg.training.edge_features import EdgeFeatures
from jsem_pyg.training.self_training import fit_classifier
from jsem_pyg.transforms import FaissKNNGraph

UNKNOWN = -1


def some_labels(y, each=3):
    """The first few of every class."""
    labels = torch.full_like(y, UNKNOWN)
    for label in y.unique():
        labels[(y == label).nonzero().flatten()[:each]] = label
    return labels


def overlapping(seed=0):
    """Three clusters, near enough for many edges to join two of them."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(3).repeat_interleave(60)
    x = 1.5 * torch.eye(3, 8)[y] + 0.8 * torch.randn(180, 8, generator=generator)
    order = torch.randperm(180, generator=generator)
    return FaissKNNGraph(k=8, metric="l2")(Data(x=x[order], y=y[order]))


@pytest.mark.parametrize("seed", [0, 1])
def test_edges_learn_which_classes_they_join(seed):
    """In a planted partition, of whose edges every third joins two classes."""
    torch.manual_seed(seed)
    y = torch.arange(3).repeat_interleave(60)
    chances = torch.full((3, 3), 0.04).fill_diagonal_(0.15)
    edge_index = stochastic_blockmodel_graph([60] * 3, chances)
    data = Data(x=torch.eye(3, 8)[y] + 0.8 * torch.randn(180, 8), edge_index=edge_index)
    labels = some_labels(y, 5)
    flat, found = (propagate_labels(data, labels, conductance=c) for c in ("open", "features"))
    assert torch.equal(flat.conductance, torch.ones(edge_index.size(1)))
    same = y[edge_index[0]] == y[edge_index[1]]
    assert found.conductance[same].mean() > 2 * found.conductance[~same].mean()
    right = [int((each.probabilities.argmax(-1) == y).sum()) for each in (flat, found)]
    assert right[1] >= right[0] + 10


@pytest.mark.parametrize("has_weight", [False, True])
def test_is_heat_of_the_sources(has_weight):
    """Against dense algebra: what is left to learn of the result is one number, its sureness."""
    data = two_clusters()
    data.edge_weight = data.edge_weight.double() if has_weight else None
    data.x = data.x.double()
    labels = some_labels(data.y)
    result = propagate_labels(data, labels, conductance=Half(), steps=5)
    assert torch.equal(result.conductance, Half()(data.edge_attr).double())
    weight = torch.ones(data.num_edges) if data.edge_weight is None else data.edge_weight
    w = torch.zeros(24, 24, dtype=torch.float64)
    w[data.edge_index[1], data.edge_index[0]] = weight.double() * result.conductance
    scale = w.sum(1).rsqrt()
    laplacian = torch.eye(24) - scale[:, None] * w * scale
    sources = nn.functional.one_hot(labels.clamp(min=0)).double() * (labels >= 0)[:, None]
    heat = torch.from_numpy(expm(-result.t * laplacian.numpy())) @ (sources / sources.sum(0))
    gap = (heat + 1e-6).log().diff(dim=1).squeeze(1)
    found = result.probabilities.log().diff(dim=1).squeeze(1)
    rest = labels < 0
    sureness = float(found[rest][0] / gap[rest][0])
    assert sureness > 0
    torch.testing.assert_close(found[rest], sureness * gap[rest], rtol=1e-4, atol=1e-6)


class Half(nn.Module):
    """Every edge conducts the same half."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(()))

    def forward(self, edge_attr):
        return torch.full((len(edge_attr),), 0.5) + 0 * self.unused


def test_known_labels_stay_and_probabilities_are_such():
    data = overlapping()
    labels = some_labels(data.y)
    p = propagate_labels(data, labels).probabilities
    torch.testing.assert_close(p.sum(-1), torch.ones(180))
    assert torch.equal(p[labels >= 0], nn.functional.one_hot(labels[labels >= 0]).float())


def test_what_is_asked_is_not_told(monkeypatch):
    """An edge never knows the labels that it learns from."""
    data, told, asked = overlapping(), [], []
    make, learn = EdgeFeatures.__call__, label_propagation._learn

    def tell(self, labels):
        told.append(labels >= 0)
        return make(self, labels)

    def ask(model, labels, folds, lr):
        folds = list(folds)
        asked.extend(fold.held_out for fold in folds)
        learn(model, labels, folds, lr)

    monkeypatch.setattr(EdgeFeatures, "__call__", tell)
    monkeypatch.setattr(label_propagation, "_learn", ask)
    labels = some_labels(data.y, 5)
    propagate_labels(data, labels, steps=4, folds=4)
    *folds, last = told
    for sources, others in zip(folds, asked, strict=True):
        assert torch.equal(sources ^ others, labels >= 0)
        assert torch.bincount(labels[sources]).tolist() == [2, 2, 2]
    assert torch.equal(last, labels >= 0)
    assert len({tuple(each.tolist()) for each in folds}) > 1


def test_an_only_label_is_always_a_source(monkeypatch):
    data, asked = overlapping(), []
    learn = label_propagation._learn

    def ask(model, labels, folds, lr):
        folds = list(folds)
        asked.extend(labels[fold.held_out] for fold in folds)
        learn(model, labels, folds, lr)

    monkeypatch.setattr(label_propagation, "_learn", ask)
    labels = some_labels(data.y, 4)
    labels[(labels == 2).nonzero().flatten()[1:]] = UNKNOWN
    result = propagate_labels(data, labels, steps=3, folds=3)
    assert [torch.bincount(each).tolist() for each in asked] == [[2, 2]] * 3
    assert (result.probabilities.argmax(-1) == 2).any()


def test_labels_of_the_data_are_not_looked_at_and_nothing_is_changed():
    data = overlapping()
    labels = some_labels(data.y)
    before, state = data.clone(), torch.random.get_rng_state()
    found = propagate_labels(data, labels)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert data.keys() == before.keys()
    assert all(torch.equal(data[key], before[key]) for key in data.keys())  # noqa: SIM118
    data.y = data.y.flip(0)
    again = propagate_labels(data, labels.int())
    assert all(
        torch.equal(torch.as_tensor(a), torch.as_tensor(b))
        for a, b in zip(found, again, strict=True)
    )
    assert propagate_labels(data, labels, seed=1).t != found.t
    t = select_time(data).t  # is what it starts from
    assert torch.equal(propagate_labels(data, labels, t=t).probabilities, found.probabilities)


def test_gradients_of_the_caller_neither_matter_nor_change():
    data = two_clusters()
    labels = some_labels(data.y)
    expected = propagate_labels(data, labels, steps=3)
    data.x.requires_grad_()
    data.edge_weight.requires_grad_()
    with torch.no_grad():
        found = propagate_labels(data, labels, steps=3)
    assert torch.equal(found.probabilities, expected.probabilities)
    propagate_labels(data, labels, steps=3)
    assert data.x.grad is None
    assert data.edge_weight.grad is None
    assert not any(each.requires_grad for each in found[:2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_learns_in_single(dtype):
    data = two_clusters()
    labels = some_labels(data.y)
    data.x, data.edge_weight = data.x.to(dtype), data.edge_weight.to(dtype)
    found = propagate_labels(data, labels, steps=3)
    data.x, data.edge_weight = data.x.float(), data.edge_weight.float()
    assert torch.equal(found.probabilities, propagate_labels(data, labels, steps=3).probabilities)


def test_order_of_edges_does_not_matter():
    data = overlapping()
    labels = some_labels(data.y)
    first = propagate_labels(data, labels, steps=6)
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(0))
    data.edge_index, data.edge_weight = data.edge_index[:, order], data.edge_weight[order]
    second = propagate_labels(data, labels, steps=6)
    torch.testing.assert_close(second.conductance, first.conductance[order], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(second.probabilities, first.probabilities, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MLPConductance(3),
        lambda: EndpointConductance(8, 4),
        lambda: nn.Sequential(nn.Dropout(), nn.Linear(3, 1), nn.Sigmoid()),
    ],
)
def test_a_module_of_the_users_own_is_trained_in_place(make):
    torch.manual_seed(0)
    conductance = make()
    before = [each.detach().clone() for each in conductance.parameters()]
    data = overlapping()
    h = propagate_labels(data, some_labels(data.y), conductance=conductance, steps=4).conductance
    assert not conductance.training  # its dropout is over
    moved = [bool((a != b).any()) for a, b in zip(before, conductance.parameters(), strict=True)]
    assert any(moved)
    assert float(h.std()) > 0


def test_a_node_without_edges_may_be_of_any_class():
    data = overlapping()
    data.x, data.y = torch.cat([data.x, data.x[:1]]), torch.cat([data.y, data.y[:1]])
    labels = some_labels(data.y[:-1])
    labels = torch.cat([labels, torch.tensor([UNKNOWN])])
    p = propagate_labels(data, labels, steps=4).probabilities
    torch.testing.assert_close(p[-1], torch.full((3,), 1 / 3))
    assert torch.isfinite(p).all()


def test_self_training_goes_along_the_edges():
    """As the docstring says."""
    data = overlapping(1)
    labels = some_labels(data.y, 5)
    data.edge_weight = data.edge_weight * propagate_labels(data, labels).conductance
    model = fit(DiffusionClassifier(8, 3), data, labels=labels).model
    p = model(data.x, data.edge_index, data.edge_weight)
    assert (p.argmax(-1) == data.y).float().mean() > 0.8


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 1, 0], {}, "'labels' to have"),
        ([0, 0] + [UNKNOWN] * 22, {}, r"'labels' to name at least two classes \(got 1\)"),
        ([UNKNOWN] * 24, {}, "'labels' to name a node of a class"),
        ([0, 1] + [UNKNOWN] * 22, {}, "'labels' to name two nodes of a class"),
        ([0, 0, 1, 1] + [-2] * 20, {}, r"'labels' to hold classes .* and -1 where .*got -2"),
        ([0, 0, 2] + [UNKNOWN] * 21, {}, r"a node of each class 0 to 2 \(got \[0, 2\]\)"),
        ([0, 0, 2**40] + [UNKNOWN] * 21, {}, "a node of each class 0 to 1099511627776"),
    ],
)
def test_errors(labels, options, message):
    with pytest.raises(ValueError, match=message):
        propagate_labels(two_clusters(), torch.tensor(labels), **options)


def test_without_features_classes_are_as_probable_as_they_are_frequent():
    model = SimpleNamespace(lin=Linear(3, 2))
    x, is_known = torch.zeros(8, 3), torch.arange(8) < 5
    fit_classifier(model, x, is_known, torch.tensor([0, 0, 0, 0, 1, 1, 1, 1]))
    expected = torch.tensor([0.8, 0.2])
    torch.testing.assert_close(model.lin(x)[0].softmax(0), expected, atol=1e-4, rtol=0)
