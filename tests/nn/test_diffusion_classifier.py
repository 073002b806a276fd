import copy

import pytest
import torch
from laws import assert_permutation_equivariant
from layer_cases import CHANNELS, NUM_NODES, make_data
from tiny_graphs import ring, two_parts
from torch_geometric.data import Batch

from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import DiffusionClassifier


def make_model(num_classes=3, dtype=torch.float32, **kwargs):
    torch.manual_seed(0)
    return DiffusionClassifier(CHANNELS, num_classes, t=2.0, **kwargs).to(dtype)


def by_the_formula(model, data):
    """Dense, from the docstring alone."""
    x = data.x - data.x.mean(0)
    x = torch.cat([x, (1.5 * x.norm(dim=1).mean()).expand(len(x), 1)], dim=1)
    x = x / x.norm(dim=1, keepdim=True)
    q = (x @ model.lin.weight.T + model.lin.bias).softmax(-1)
    w = torch.zeros(len(x), len(x), dtype=x.dtype)
    w[data.edge_index[1], data.edge_index[0]] = data.edge_weight

    def heat(w, p):
        degree = w.sum(1)
        scale = torch.where(degree > 0, degree.clamp(min=1e-12).rsqrt(), 0.0)
        laplacian = torch.diag((degree > 0).to(w)) - scale[:, None] * w * scale
        return torch.matrix_exp(-model.t * laplacian) @ p

    def balance(p):
        p = p / p.mean(0) ** model.balance
        return p / p.sum(1, keepdim=True)

    p = balance(heat(w, q))
    sharp = p**2 / (p**2).sum(1, keepdim=True)
    agreement = 0.05 + 0.95 * sharp @ sharp.T
    return balance(heat(w * agreement, p)), agreement


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_is_the_formula(balance):
    data, model = make_data(), make_model(balance=balance, dtype=torch.float64)
    data.x, data.edge_weight = data.x.double(), data.edge_weight.double()
    actual = model(data.x, data.edge_index, data.edge_weight)
    expected, agreement = by_the_formula(model, data)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-7)
    h = model.conductances(data.x, data.edge_index, data.edge_weight)
    source, target = data.edge_index
    torch.testing.assert_close(h, agreement[target, source], rtol=1e-5, atol=1e-7)
    assert ((h > 0) & (h <= 1)).all()


def test_rows_are_probabilities_whatever_the_graph():
    model, same = make_model(), torch.ones(6, CHANNELS)  # of which nothing is left once centred
    none = torch.empty(2, 0, dtype=torch.int64)
    for x, edge_index in ((same, two_parts()[0]), (torch.randn(5, CHANNELS), none)):
        p = model(x, edge_index)
        assert (p >= 0).all()
        torch.testing.assert_close(p.sum(-1), torch.ones(len(x)))


def test_nodes_may_come_in_any_order():
    data, model = make_data(num_isolated=2), make_model(dtype=torch.float64)
    assert_permutation_equivariant(
        model, data.x.double(), data.edge_index, data.edge_weight.double()
    )


@pytest.mark.parametrize("balance", [0.0, 0.5])
def test_gradients_are_finite_differences(balance):
    edge_index, num_nodes = ring(5)
    model = make_model(num_classes=2, balance=balance, dtype=torch.float64, tol=1e-12)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, CHANNELS, dtype=torch.float64, generator=generator)
    weight = 0.5 + torch.rand(num_nodes, dtype=torch.float64, generator=generator)
    weight = weight.repeat(2)  # both directions of an edge
    parameters = dict(model.named_parameters())

    def call(x, scale, *values):
        values = dict(zip(parameters, values, strict=True))
        # One factor for both directions, so that the weights stay symmetric.
        return torch.func.functional_call(model, values, (x, edge_index, weight * scale.repeat(2)))

    scale = torch.ones(num_nodes, dtype=torch.float64)
    inputs = [each.detach().requires_grad_() for each in (x, scale, *parameters.values())]
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)


@pytest.mark.parametrize("factor", [1e-12, 1e12])
def test_a_common_factor_of_scores_cancels(factor):
    data, model = make_data(), make_model()
    q = torch.rand(NUM_NODES, 3) * torch.tensor([1.0, 0.3, 0.1])
    expected = model.diffuse(q, data.edge_index, data.edge_weight)
    actual = model.diffuse(factor * q, data.edge_index, data.edge_weight)
    torch.testing.assert_close(actual, expected)


def test_one_time_for_both_diffusions():
    model = make_model()
    model.isotropic.time.set(7.0)
    assert model.t.item() == pytest.approx(7.0)
    assert model.anisotropic.t.item() == pytest.approx(7.0)
    copied = copy.deepcopy(model)
    copied.isotropic.time.set(3.0)
    assert copied.anisotropic.t.item() == pytest.approx(3.0)
    assert model.t.item() == pytest.approx(7.0)
    names = [name for name, _ in model.named_parameters()]
    assert names == ["lin.weight", "lin.bias", "isotropic.time.raw"]
    model.reset_parameters()
    assert model.t.item() == pytest.approx(2.0)


def trained_model(**kwargs):
    """A model that has seen graphs of other means than those that it is to meet."""
    model = make_model(**kwargs)
    with torch.no_grad():
        model.lin.bias.copy_(torch.tensor([1.0, 0.0, -0.5]))
        for seed in (7, 8):
            data = make_data(seed)
            model(data.x + 0.5, data.edge_index, data.edge_weight)
    return model.eval()


def test_what_a_trained_model_says_of_a_node_does_not_depend_on_its_company():
    model, data = trained_model(), make_data()
    torch.testing.assert_close(model.classify(data.x[3:5]), model.classify(data.x)[3:5])
    graphs = [make_data(seed) for seed in (1, 2, 3)]
    graphs[1].x = graphs[1].x + 3
    batch = Batch.from_data_list(graphs)
    for call in (model, model.conductances):
        apart = torch.cat([call(each.x, each.edge_index, each.edge_weight) for each in graphs])
        together = call(batch.x, batch.edge_index, batch.edge_weight)
        torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-6)
    model.train()
    own = torch.cat([model(each.x, each.edge_index, each.edge_weight) for each in graphs])
    together = model(batch.x, batch.edge_index, batch.edge_weight)
    assert not torch.allclose(own, together, atol=1e-2)


def test_evaluation_changes_nothing_and_takes_the_call_where_there_was_no_training():
    data, model = make_data(), make_model()
    graph = data.edge_index, data.edge_weight
    model.eval()
    fresh = model(data.x, *graph)
    assert model.center.num_calls == model.isotropic_mean.num_calls == 0
    torch.testing.assert_close(model.train()(data.x, *graph), fresh)
    torch.testing.assert_close(model.center.mean, data.x.mean(0))
    model.eval()
    torch.testing.assert_close(model(data.x, *graph), fresh)
    assert not torch.allclose(model(data.x + 1, *graph), fresh, atol=1e-3)
    model.reset_parameters()
    torch.testing.assert_close(model.classify(data.x + 1), model.classify(data.x))


def test_a_state_dict_carries_centre_and_class_means():
    data, model, other = make_data(), trained_model(), make_model().eval()
    arguments = (data.x, data.edge_index, data.edge_weight)
    assert not torch.allclose(other(*arguments), model(*arguments), atol=1e-2)
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(*arguments), model(*arguments), rtol=0, atol=0)


def watch_graphs(model):
    """Collect what the two layers are called with."""
    seen = []
    for layer in (model.isotropic, model.anisotropic):
        layer.register_forward_pre_hook(lambda layer, args: seen.append(args[1]))
    return seen


def test_both_diffusions_share_one_prepared_graph_which_is_remembered():
    data, model = make_data(), make_model()
    seen = watch_graphs(model)
    model(data.x, data.edge_index, data.edge_weight)
    model.conductances(data.x, data.edge_index, data.edge_weight)
    model(data.x, data.edge_index)
    assert len(seen) == 5
    assert isinstance(seen[0], GraphStructure)
    assert all(each is seen[0] for each in seen)
    own = GraphStructure(data.edge_index, NUM_NODES)
    model(data.x, own, data.edge_weight)
    assert seen[-1] is seen[-2] is own


def test_the_number_of_classes_may_come_later():
    data, model = make_data(), DiffusionClassifier(CHANNELS, t=2.0).double()
    parameters = list(model.parameters())
    model.set_num_classes(3)
    model.set_num_classes(3)  # says nothing new
    assert repr(model) == "DiffusionClassifier(4, 3, t=2.0, balance=0.5)"
    assert all(one is other for one, other in zip(parameters, model.parameters(), strict=True))
    assert model.lin.weight.unique().numel() == 3 * (CHANNELS + 1)  # drawn
    p = model(data.x.double(), data.edge_index)
    assert p.shape == (NUM_NODES, 3)
    assert p.dtype == torch.float64
    p[:, 0].sum().backward()
    assert model.lin.weight.grad.abs().max() > 0
    with pytest.raises(ValueError, match="'num_classes' to be 3, as the model has it .got 4"):
        model.set_num_classes(4)


def test_weights_bring_the_number_of_classes():
    data, trained = make_data(), make_model()
    trained(data.x, data.edge_index)
    inside = torch.nn.Sequential(DiffusionClassifier(CHANNELS, t=1.0)).eval()
    inside.load_state_dict(torch.nn.Sequential(trained).state_dict())
    expected = trained.eval()(data.x, data.edge_index)
    torch.testing.assert_close(inside[0](data.x, data.edge_index), expected)
    unknown = DiffusionClassifier(CHANNELS)
    unknown.load_state_dict(copy.deepcopy(DiffusionClassifier(CHANNELS)).state_dict())
    assert unknown.num_classes is None
    with pytest.raises(RuntimeError, match="size mismatch for lin.weight"):
        make_model(4).load_state_dict(trained.state_dict())


class OfEdges(torch.nn.Module):
    def forward(self, edge_attr):
        return torch.sigmoid(edge_attr.sum(-1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda data: DiffusionClassifier(4, 2, balance=1.5), r"'balance' to lie in \[0, 1"),
        (lambda data: DiffusionClassifier(4, 2, conductance=OfEdges()), r"takes \(edge_attr, x_i"),
        (lambda data: make_model()(torch.randn(6, 7), two_parts()[0]), "'x' to have 4 channels"),
        (lambda data: make_model().diffuse(data.x, data.edge_index), "'q' to have 3 columns"),
        (lambda data: make_model().conductances(data.x, data.edge_index.t()), "'edge_index'"),
        (lambda data: make_model(None)(data.x, data.edge_index), "number of classes .got None"),
        (lambda data: make_model(None).classify(data.x), "number of classes .got None"),
        (lambda data: make_model(None).diffuse(data.x, data.edge_index), "number of classes"),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(make_data())
