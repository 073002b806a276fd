import pytest
import torch
from scipy.linalg import expm
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import ToUndirected
from torch_geometric.utils import stochastic_blockmodel_graph
from training.training_cases import two_clusters

from jsem_pyg.nn import DiffusionClassifier, MLPConductance
from jsem_pyg.training import fit, label_graph, label_heat, label_propagation, propagate_labels

UNKNOWN = -1


def some_labels(y, each=3):
    """The first few of every class."""
    labels = torch.full_like(y, UNKNOWN)
    for label in y.unique():
        labels[(y == label).nonzero().flatten()[:each]] = label
    return labels


def planted(seed=0):
    """A partition of whose edges every third joins two classes, and a noisy hint on each edge."""
    torch.manual_seed(seed)
    y = torch.arange(3).repeat_interleave(40)
    chances = torch.full((3, 3), 0.06).fill_diagonal_(0.22)
    edge_index = stochastic_blockmodel_graph([40] * 3, chances)
    same = y[edge_index[0]] == y[edge_index[1]]
    noise = 0.5 * torch.randn(120, 120)
    hint = same + (noise + noise.T)[edge_index[0], edge_index[1]] - 0.5
    return Data(edge_index=edge_index, edge_attr=hint[:, None], y=y, num_nodes=120), same


@pytest.mark.parametrize("form", ["sigmoid", "mlp", MLPConductance])
def test_edges_learn_which_classes_they_join(form):
    data, same = planted()
    labels = some_labels(data.y, 5)
    bare = Data(edge_index=data.edge_index, num_nodes=120)
    flat = propagate_labels(bare, labels, steps=30)
    found = propagate_labels(
        data, labels, conductance=form if isinstance(form, str) else form(1), steps=30
    )
    assert torch.equal(flat.conductance, torch.ones(data.num_edges))
    assert found.conductance[same].mean() > 1.3 * found.conductance[~same].mean()
    right = [int((each.probabilities.argmax(-1) == data.y).sum()) for each in (flat, found)]
    assert right[1] >= right[0] + 2


@pytest.mark.parametrize("has_types", [False, True])
def test_self_loops_change_nothing(has_types):
    data, _ = planted()
    if has_types:
        data.edge_type = (data.edge_attr.flatten() > 0).long()
    data.edge_weight, labels = torch.full((data.num_edges,), 0.5), some_labels(data.y)
    expected = propagate_labels(data, labels, steps=2)
    data.edge_index = torch.cat([torch.tensor([[3, 3], [3, 3]]), data.edge_index], 1)
    for key in ("edge_weight", "edge_attr", "edge_type")[: 2 + has_types]:
        data[key] = torch.cat([data[key][:2], data[key]])
    found = propagate_labels(data, labels, steps=2)
    torch.testing.assert_close(found.probabilities, expected.probabilities)
    torch.testing.assert_close(found.conductance[2:], expected.conductance)
    assert found.conductance[:2].tolist() == [1, 1]


def trained(data, labels, conductance="sigmoid", t=5.0, steps=5):
    """The model of `propagate_labels` after some steps, whether or not a rival is better."""
    graph = label_graph.read_graph(data, None)
    form = label_graph.read_conductance(graph, conductance)
    model = label_heat.LabelHeat(graph, labels, form, t)
    halves = torch.stack([label_propagation._draw_half(labels, torch.Generator())] * 2)
    with torch.random.fork_rng():
        model.learn(halves, 0.1, steps)
    return model


@pytest.mark.parametrize("has_weight", [False, True])
def test_is_heat_of_the_sources(has_weight):
    """Against dense algebra, with the time, sharpness and balance that were learned."""
    data = two_clusters()
    data.edge_weight = data.edge_weight.double() if has_weight else torch.ones(98).double()
    data.edge_attr = data.edge_attr.double()
    labels = some_labels(data.y)
    model = trained(data, labels, Half())
    assert torch.equal(model.conducting(data.edge_weight), data.edge_weight / 2)
    w = torch.zeros(24, 24, dtype=torch.float64)
    w[data.edge_index[1], data.edge_index[0]] = data.edge_weight * 0.5
    scale = w.sum(1).rsqrt()
    laplacian = torch.eye(24) - scale[:, None] * w * scale
    sources = nn.functional.one_hot(labels.clamp(min=0)).double() * (labels >= 0)[:, None]
    number = torch.bincount(data.edge_index[0], minlength=24).double()
    sources = sources / number[:, None]
    t, sharpness, balance = (
        float(each) for each in (model.time(), bounded(model.log_sharpness), model.balance)
    )
    assert t != 5
    heat = torch.from_numpy(expm(-t * laplacian.numpy())) @ (sources / sources.sum(0))
    expected = sharpness * (heat / heat.sum(0) ** balance + 1e-6).log()
    found = model(labels[None] >= 0)[0]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def bounded(logarithm):
    return (3 * (logarithm / 3).tanh()).exp()


def test_what_is_learned_stays_in_its_domain():
    data, _ = planted()
    data.edge_attr = None
    model = trained(data, some_labels(data.y, 5), steps=60)
    for number in (model.log_t, model.log_sharpness):
        with torch.no_grad():
            number.fill_(1e9)
    assert float(model.time()) == pytest.approx(5 * bounded(torch.tensor(1e9)).item())
    assert 0 <= float(model.balance) <= 1
    assert float(model.balance) != 0.5


def blocks(sizes, seed):
    """A block model, eight edges of a node inside its class, and four to others at most."""
    torch.manual_seed(seed)
    chance = torch.tensor([[8 / sizes[0], 4 / max(sizes)], [4 / max(sizes), 8 / sizes[1]]])
    edge_index = stochastic_blockmodel_graph(list(sizes), chance.clamp(max=1))
    return edge_index, torch.arange(2).repeat_interleave(torch.tensor(sizes))


@pytest.mark.parametrize(
    ("sizes", "given"),
    [((200, 200), (10, 10)), ((30, 400), (15, 3)), ((400, 40), (20, 2)), ((200, 20), (5, 5))],
)
@pytest.mark.filterwarnings("ignore:Labels that are held out")
def test_neither_class_swallows_the_other(sizes, given):
    edge_index, y = blocks(sizes, 1)
    labels = torch.full_like(y, UNKNOWN)
    for label, count in enumerate(given):
        members = (y == label).nonzero().flatten()
        labels[members[:count]] = label
    p = propagate_labels(Data(edge_index=edge_index, num_nodes=len(y)), labels).probabilities
    recall = [float((p.argmax(-1) == c)[(y == c) & (labels < 0)].float().mean()) for c in (0, 1)]
    assert min(recall) > 0.5
    assert sum(recall) / 2 > 0.6


def test_class_sizes_are_those_of_the_labelled_type():
    data, _, labels = heterogeneous()
    data["item", "in", "shop"].edge_index[1, 90:] = torch.randint(9, (90,))
    sizes = [3, 2, 1]
    found = propagate_labels(data, labels, "item", steps=2, class_sizes=sizes)
    mean = found.probabilities.mean(0)
    torch.testing.assert_close(mean, torch.tensor(sizes) / 6, rtol=0, atol=0.1)
    free = propagate_labels(data, labels, "item", steps=2).probabilities.mean(0)
    torch.testing.assert_close(free, torch.ones(3) / 3, rtol=0, atol=0.1)


def test_the_unit_of_edge_features_does_not_matter():
    data, _ = planted()
    labels = some_labels(data.y, 5)
    given = data.edge_attr.double()
    expected = propagate_labels(data, labels)
    assert expected.conductance.std() > 0.01
    for other in (given + 1000, given / 1000):
        data.edge_attr = other
        found = propagate_labels(data, labels)
        torch.testing.assert_close(found.conductance, expected.conductance, rtol=0, atol=1e-2)
    noise = 100 * torch.rand(120, 120, generator=torch.Generator().manual_seed(0))
    beside = (noise + noise.T)[data.edge_index[0], data.edge_index[1]]
    data.edge_attr = torch.stack([given[:, 0], beside.double()], 1)
    right = [
        int((each.probabilities.argmax(-1) == data.y).sum())
        for each in (propagate_labels(data, labels), expected)
    ]
    assert right[0] >= right[1] - 3


def test_a_result_without_evidence_says_so():
    edge_index, y = blocks((200, 200), 0)
    labels = some_labels(y[torch.randperm(400, generator=torch.Generator().manual_seed(0))], 10)
    with pytest.warns(UserWarning, match="not predicted better than by chance"):
        propagate_labels(Data(edge_index=edge_index, num_nodes=400), labels)


class Half(nn.Module):
    """Every edge conducts the same half."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(()))

    def forward(self, edge_attr):
        return torch.full_like(edge_attr[:, 0], 0.5) + 0 * self.unused


def test_known_labels_stay_and_probabilities_are_such():
    data, _ = planted()
    labels = some_labels(data.y)
    p = propagate_labels(data, labels, steps=6).probabilities
    torch.testing.assert_close(p.sum(-1), torch.ones(120))
    assert torch.equal(p[labels >= 0], nn.functional.one_hot(labels[labels >= 0]).float())


def test_a_label_that_is_held_out_is_no_source(monkeypatch):
    """Nothing that teaches is there at time zero; a class's only label always is."""
    data, seen = two_clusters(), []
    labels = some_labels(data.y, 5)
    labels[(labels == 1).nonzero().flatten()[1:]] = UNKNOWN
    real = nn.functional.cross_entropy

    def watch(logits, target, *weight, **kwargs):
        seen.append(target)
        return real(logits, target, *weight, **kwargs)

    monkeypatch.setattr("torch.nn.functional.cross_entropy", watch)
    propagate_labels(data, labels, steps=4, folds=2)
    # Four steps, and the loss.
    assert [each.tolist() for each in seen[:5]] == [[0, 0, 0] * 2] * 5
    assert {label for each in seen for label in each.tolist()} == {0}


def test_labels_of_the_data_are_not_looked_at_and_nothing_is_changed():
    data, _ = planted()
    data.x = torch.rand(120, 4)
    labels = some_labels(data.y)
    before, state = data.clone(), torch.random.get_rng_state()
    found = propagate_labels(data, labels, steps=6)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert data.keys() == before.keys()
    assert all(torch.equal(data[key], before[key]) for key in ("edge_index", "edge_attr", "x", "y"))
    data.x, data.y = None, data.y.flip(0)
    again = propagate_labels(data, labels.int(), steps=6)
    assert torch.equal(found.probabilities, again.probabilities)
    assert torch.equal(found.conductance, again.conductance)
    assert propagate_labels(data, labels, steps=6, seed=1).t != found.t


def test_gradients_of_the_caller_neither_matter_nor_change():
    data = two_clusters()
    labels = some_labels(data.y)
    expected = propagate_labels(data, labels, steps=3)
    data.edge_attr.requires_grad_()
    data.edge_weight.requires_grad_()
    with torch.no_grad():
        found = propagate_labels(data, labels, steps=3)
    assert torch.equal(found.probabilities, expected.probabilities)
    propagate_labels(data, labels, steps=3)
    assert data.edge_attr.grad is None
    assert data.edge_weight.grad is None
    assert not any(each.requires_grad for each in found[:2])


def test_half_precision_learns_in_single():
    data, dtype = two_clusters(), torch.float16
    labels = some_labels(data.y)
    data.edge_attr, data.edge_weight = data.edge_attr.to(dtype), data.edge_weight.to(dtype)
    found = propagate_labels(data, labels, steps=3)
    data.edge_attr, data.edge_weight = data.edge_attr.float(), data.edge_weight.float()
    assert torch.equal(found.probabilities, propagate_labels(data, labels, steps=3).probabilities)


def test_order_of_edges_does_not_matter():
    data, _ = planted()
    labels = some_labels(data.y)
    first = propagate_labels(data, labels, steps=6)
    order = torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(0))
    data.edge_index, data.edge_attr = data.edge_index[:, order], data.edge_attr[order]
    second = propagate_labels(data, labels, steps=6)
    torch.testing.assert_close(second.conductance, first.conductance[order], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(second.probabilities, first.probabilities, rtol=1e-3, atol=1e-3)


def test_a_module_of_the_users_own_is_trained_in_place():
    """Also where walks along all edges alike are better in the end."""
    conductance = nn.Sequential(nn.Dropout(), nn.Linear(1, 1), nn.Sigmoid(), nn.Flatten(0))
    before = conductance[1].weight.detach().clone()
    data, _ = planted()
    propagate_labels(data, some_labels(data.y), conductance=conductance, steps=4)
    assert not conductance.training  # its dropout is over
    assert not torch.equal(conductance[1].weight, before)


def test_a_node_without_edges_may_be_of_any_class():
    data, _ = planted()
    data.num_nodes = 121
    labels = torch.cat([some_labels(data.y), torch.tensor([UNKNOWN])])
    p = propagate_labels(data, labels, steps=4).probabilities
    torch.testing.assert_close(p[-1], torch.full((3,), 1 / 3))
    assert torch.isfinite(p).all()


def test_self_training_goes_along_the_edges():
    """As the docstring says."""
    data = two_clusters()
    labels = some_labels(data.y, 5)
    h = propagate_labels(data, labels, steps=10).conductance
    data.edge_weight, data.edge_attr = data.edge_weight * h, None
    model = fit(DiffusionClassifier(6, 2), data, labels=labels).model
    p = model(data.x, data.edge_index, data.edge_weight)
    assert (p.argmax(-1) == data.y).float().mean() > 0.8


def heterogeneous(seed=0):
    """Items with shops of their class, and as many edges to tags of any class."""
    torch.manual_seed(seed)
    data, y = HeteroData(), torch.arange(90) % 3
    data["item"].num_nodes, data["shop"].num_nodes, data["tag"].num_nodes = 90, 9, 30
    item = torch.arange(90).repeat(2)
    data["item", "in", "shop"].edge_index = torch.stack(
        [item, y[item] + 3 * torch.randint(3, (180,))]
    )
    data["item", "has", "tag"].edge_index = torch.stack([item, torch.randint(30, (180,))])
    data["item", "in", "shop"].edge_index[:, 90:] = data["item", "in", "shop"].edge_index[:, :90]
    return data, y, some_labels(y, 6)


def test_finds_the_relations_that_conduct():
    data, y, labels = heterogeneous()
    found = propagate_labels(data, labels, "item")
    assert found.relations["item in shop"] == 1
    assert found.relations["item has tag"] < 0.2
    assert set(found.relations.error) == set(found.relations)
    assert 0 <= found.relations.error["item has tag"] < 0.2
    assert (found.probabilities.argmax(-1) == y).float().mean() > 0.95
    assert torch.equal(found.of_types["item"], found.probabilities)
    assert torch.equal(found.of_types["shop"].argmax(-1), torch.arange(9) % 3)
    expected = torch.tensor(list(found.relations.values())).repeat_interleave(180)
    torch.testing.assert_close(found.conductance, expected)


@pytest.mark.parametrize("seed", [0, 1])
def test_relations_of_noise_are_closed_and_the_rest_is_learned_without_them(seed):
    data, _, labels = heterogeneous(seed)
    expected = propagate_labels(data, labels, "item", seed=seed)
    for name in ("one", "other"):
        data[name].num_nodes = 40
        item = torch.arange(90).repeat(4)
        data["item", "to", name].edge_index = torch.stack([item, torch.randint(40, (360,))])
    found = propagate_labels(data, labels, "item", seed=seed)
    noise = found.relations["item to one"], found.relations["item to other"]
    assert min(noise) == 0
    assert max(noise) < 0.02
    torch.testing.assert_close(found.probabilities, expected.probabilities, rtol=0, atol=0.02)


def test_a_relation_without_edges_has_no_conductance():
    data, _, labels = heterogeneous()
    expected = propagate_labels(data, labels, "item", steps=2)
    data["item", "likes", "tag"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    found = propagate_labels(data, labels, "item", steps=2)
    assert found.relations == expected.relations


@pytest.mark.parametrize("way", ["one direction", "rev_ types", "one graph"])
def test_the_same_graph_in_other_forms_gives_the_same_labels(way):
    data, _, labels = heterogeneous()
    expected = propagate_labels(data, labels, "item", steps=5)
    if way == "one graph":
        whole = data.to_homogeneous(add_node_type=False)
        edges, kind = whole.edge_index, whole.edge_type
        graph = Data(edge_index=torch.cat([edges, edges.flip(0)], 1), num_nodes=129)
        graph.edge_type = kind.repeat(2)
        everywhere = torch.full((129,), UNKNOWN)
        everywhere[:90] = labels
        found = propagate_labels(graph, everywhere, steps=5)
        assert list(found.relations) == ["0", "1"]
        torch.testing.assert_close(found.conductance[:360], expected.conductance)
        p = found.probabilities[:90]
    else:
        data = ToUndirected()(data) if way == "rev_ types" else data
        found = propagate_labels(data, labels, "item", steps=5)
        assert list(found.relations) == list(expected.relations)
        p = found.probabilities
    torch.testing.assert_close(p, expected.probabilities, rtol=1e-3, atol=1e-4)
    values = [torch.tensor(list(each.relations.values())) for each in (found, expected)]
    torch.testing.assert_close(*values, rtol=1e-3, atol=1e-4)


def test_relations_and_features_are_multiplied():
    data, _ = planted()
    data.edge_type = torch.zeros(data.num_edges, dtype=torch.int64)  # a single relation: no change
    labels = some_labels(data.y)
    found = propagate_labels(data, labels, steps=5)
    assert found.relations == {"0": 1.0}
    assert found.relations.error == {"0": 0.0}
    data.edge_type = None
    expected = propagate_labels(data, labels, steps=5)
    torch.testing.assert_close(found.conductance, expected.conductance, rtol=1e-3, atol=1e-4)


def test_the_best_of_several_starts_is_kept():
    data, _ = planted()
    labels = some_labels(data.y, 5)
    one, other, both = (propagate_labels(data, labels, t=t) for t in (0.01, 5.0, [0.01, 5.0]))
    torch.testing.assert_close(both.conductance, other.conductance)
    assert not torch.allclose(both.conductance, one.conductance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": None}, r"'target' to name the node type .*got None"),
        ({"target": "author"}, r"'target' to name .*'item', 'shop', 'tag'.*got 'author'"),
        ({"labels": torch.zeros(129, dtype=torch.int64)}, "'labels' to have"),
        ({"folds": 1}, "'folds' to be at least 2"),
        ({"conductance": nn.Identity()}, "'data' to have 'edge_attr'"),
        ({"conductance": "relu"}, "'conductance' to be 'sigmoid', 'mlp'"),
        ({"conductance": "agreement"}, "since there are no features of nodes"),
        ({"t": [1.0, -1.0]}, "'t' to be"),
    ],
)
def test_a_heterogeneous_graph_that_cannot_be_read_is_refused(change, message):
    data, _, labels = heterogeneous()
    with pytest.raises(ValueError, match=message):
        propagate_labels(**{"data": data, "labels": labels, "target": "item", **change})


def test_relations_of_a_graph_are_checked():
    data, _ = planted()
    labels = some_labels(data.y)
    with pytest.raises(ValueError, match="'target' to be None"):
        propagate_labels(data, labels, "item")
    data.edge_type = torch.zeros(3, dtype=torch.int64)
    with pytest.raises(ValueError, match="'edge_type' to have shape"):
        propagate_labels(data, labels)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 0], "'labels' to have"),
        ([0, 0] + [UNKNOWN] * 22, r"'labels' to name at least two classes \(got 1\)"),
        ([UNKNOWN] * 24, "'labels' to name a node of a class"),
        ([0, 1] + [UNKNOWN] * 22, "'labels' to name two nodes of a class"),
        ([0, 0, 1, 1] + [-2] * 20, r"'labels' to hold classes .* and -1 where .*got -2"),
        ([0, 0, 2] + [UNKNOWN] * 21, r"a node of each class 0 to 2 \(got \[0, 2\]\)"),
        ([0, 0, 2**40] + [UNKNOWN] * 21, "a node of each class 0 to 1099511627776"),
    ],
)
def test_labels_that_cannot_spread_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        propagate_labels(two_clusters(), torch.tensor(labels))


@pytest.mark.parametrize("lacks", ["without 'edge_attr'", r"data\['b'\].num_nodes"])
def test_types_that_lack_or_have_too_much_are_refused(lacks):
    data = HeteroData()
    data["a"].num_nodes = 3
    data["a", "to", "b"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]])
    if "attr" in lacks:
        data["b"].num_nodes = 3
        data["a", "to", "b"].edge_attr = torch.ones(3, 1)
    with pytest.raises(ValueError, match=lacks):
        propagate_labels(data, torch.tensor([0, 0, 1]), target="a")
