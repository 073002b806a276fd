"""RelationalChebConv and HeteroChebConv beside their formula, with dense exponentials."""

import copy

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import RGCNConv
from torch_geometric.transforms import ToSparseTensor, ToUndirected

from jsem_pyg.graph.relations import say_of_self_loops
from jsem_pyg.nn import HeteroChebConv, HeteroDiffusion, RelationalChebConv, relational_features
from jsem_pyg.training import propagate_labels

NODES = {"author": 5, "paper": 7, "venue": 1, "term": 3}
WRITES, PRINTS, CITES, HAS = EDGE_TYPES = [
    ("author", "writes", "paper"),
    ("venue", "prints", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "has", "term"),  # no paper has one
]
METADATA = list(NODES), EDGE_TYPES


def make_edges():
    """Repeated edges, an author and papers without any, one venue, and a relation without edges."""
    return {
        WRITES: torch.tensor([[0, 0, 1, 2, 2, 3], [0, 1, 1, 2, 2, 4]]),
        PRINTS: torch.tensor([[0, 0, 0], [1, 3, 5]]),
        CITES: torch.tensor([[0, 1, 4, 5, 4], [1, 0, 5, 6, 6]]),
        HAS: torch.empty(2, 0, dtype=torch.int64),
    }


def make_features(dtype=torch.float64, width=4):
    return {name: torch.randn(count, width, dtype=dtype) for name, count in NODES.items()}


def offsets():
    first = [0, *torch.tensor(list(NODES.values())).cumsum(0).tolist()]
    return dict(zip(NODES, first, strict=False))


def dense_adjacency(num_nodes, source, target, weight=None):
    """Repeated edges add up; a pair given in both directions has the mean of both."""
    weight = torch.ones(len(source), dtype=torch.float64) if weight is None else weight.double()
    given = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    given.index_put_((source, target), weight, accumulate=True)
    known = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    known.index_put_((source, target), torch.ones_like(weight))
    count = (known + known.T).clamp(min=1)
    return (given + given.T) / count


def dense_heat(adjacency, t, options):
    return torch.matrix_exp(-t.double() * dense_laplacian(adjacency, options))


def dense_laplacian(adjacency, options):
    degree = adjacency.sum(1)
    laplacian = torch.diag(degree) - adjacency
    degree = torch.where(degree > 0, degree, 1)
    if options.normalization == "sym":
        laplacian = degree.rsqrt()[:, None] * laplacian * degree.rsqrt()
    elif options.normalization == "rw":
        laplacian = laplacian / degree[:, None]
    return laplacian


def matrices(conv):
    """Theta [R, in, out] and the maps of the nodes themselves [T, in, out], by the definition."""
    roots = [lin.weight.double().T for lin in getattr(conv, "roots", [])]
    conv = getattr(conv, "conv", conv)
    maps = conv.lin.weight.double().view(-1, conv.out_channels, conv.lin.in_channels).mT
    theta, roots = maps[: conv.num_matrices], [*maps[conv.num_matrices :], *roots]
    if conv.mixture is not None:
        theta = (conv.mixture.double()[:, :, None, None] * theta).sum(1)
    return theta, roots


def by_definition(conv, x_dict, edges, weights=None):
    """The sum over relations, each on the nodes of its types."""
    (theta, roots), conv, relations = matrices(conv), conv.conv, conv.relations
    first = offsets()
    x = torch.cat(list(x_dict.values())).double()
    out = torch.zeros(len(x), conv.out_channels, dtype=torch.float64)
    for r, name in enumerate(relations):
        source, target = edges[name]
        source, target = source + first[name[0]], target + first[name[2]]
        weight = None if weights is None else weights.get(name)
        adjacency = dense_adjacency(len(x), source, target, weight)
        heat = dense_heat(adjacency, conv.t[r], conv.options)
        types = {name[0], name[2]}
        belongs = torch.cat([torch.full((n,), a in types) for a, n in NODES.items()])
        if conv.from_neighbors:
            heat = heat - dense_laplacian(adjacency, conv.options) @ heat
        out = out + belongs[:, None] * (heat @ x @ theta[r])
    for a, root in zip(NODES, roots, strict=True) if len(roots) else ():
        rows = slice(first[a], first[a] + NODES[a])
        out[rows] = out[rows] + x[rows] @ root
    out = out if conv.bias is None else out + conv.bias.double()
    return dict(zip(NODES, out.split(list(NODES.values())), strict=True))


def bent(conv):
    """The layer, with different times and a bias."""
    whole, conv = conv, getattr(conv, "conv", conv)
    with torch.no_grad():
        conv.time.raw.copy_(torch.linspace(-1, 1, conv.num_relations))
        if conv.bias is not None:
            conv.bias.normal_()
    return whole


def assert_same(actual, expected, **tolerance):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name].double(), value.double(), **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_bases": 2},
        {"root_weight": True, "bias": False},
        {"from_neighbors": True, "num_bases": 3},
        {"from_neighbors": True, "normalization": "sym"},
        {"normalization": "sym", "root_weight": True},
        {"normalization": None},
        {"backend": "reference"},
        {"backend": "torch"},
        {"t": [0.5, 2.0, 1.0, 9.0], "learn_t": False},
    ],
    ids=str,
)
def test_equals_the_sum_of_dense_exponentials(options, dtype):
    torch.manual_seed(0)
    conv = bent(HeteroChebConv(4, 3, METADATA, tol=1e-9, **options)).to(dtype)
    x_dict, edges = make_features(dtype), make_edges()
    out, expected = conv(x_dict, edges), by_definition(conv, x_dict, edges)
    assert all(each.dtype == dtype for each in out.values())
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {}
    assert_same(out, expected, **close)
    grad = {name: torch.randn_like(each) for name, each in expected.items()}
    learned = [each for each in conv.parameters() if each.requires_grad]
    loss = sum((out[name].double() * grad[name]).sum() for name in out)
    reference = sum((expected[name] * grad[name]).sum() for name in out)
    for actual, value in zip(
        torch.autograd.grad(loss, learned), torch.autograd.grad(reference, learned), strict=True
    ):
        torch.testing.assert_close(actual, value, **close)


def test_gradients():
    torch.manual_seed(0)
    conv = bent(HeteroChebConv(2, 3, METADATA, num_bases=2, tol=1e-12)).double()
    x, edges = [each.requires_grad_() for each in make_features(width=2).values()], make_edges()
    names = [name for name, _ in conv.named_parameters()]

    def call(*given):
        x_dict = dict(zip(NODES, given, strict=False))
        parameters = dict(zip(names, given[len(NODES) :], strict=True))
        out = torch.func.functional_call(conv, parameters, (x_dict, edges))
        return torch.cat(list(out.values()))

    assert torch.autograd.gradcheck(call, (*x, *conv.parameters()))
    out = call(*x, *conv.parameters()).square().sum()
    (grad,) = torch.autograd.grad(out, x[0], create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.sum().backward()


def test_both_calls_agree_on_nodes_of_one_type():
    torch.manual_seed(0)
    names = [("node", each, "node") for each in "abc"]
    of_types = HeteroChebConv(4, 3, (["node"], names))
    of_numbers = RelationalChebConv(4, 3, num_relations=3)
    of_numbers.load_state_dict(of_types.conv.state_dict())
    x, edge_index = torch.randn(9, 4), torch.tensor([[0, 1, 2, 3, 4], [5, 6, 7, 8, 0]])
    edge_type = torch.tensor([0, 1, 1, 2, 0])
    edges = {name: edge_index[:, edge_type == r] for r, name in enumerate(names)}
    out = of_types({"node": x}, edges)["node"]
    torch.testing.assert_close(of_numbers(x, edge_index, edge_type), out)


def make_data():
    torch.manual_seed(0)
    data = HeteroData()
    for name, x in make_features(torch.float32).items():
        data[name].x = x
    for name, edge_index in make_edges().items():
        data[name].edge_index = edge_index
    return data


def test_reverse_types_and_second_directions_belong_to_their_relation():
    data = make_data()
    both = ToUndirected()(copy.copy(data))
    assert any(name[1].startswith("rev_") for name in both.edge_types)
    torch.manual_seed(0)
    conv = HeteroChebConv(4, 3, data.metadata())
    torch.manual_seed(0)
    other = HeteroChebConv(4, 3, both.metadata())
    assert conv.relations == other.relations
    # `ToUndirected` drops the repeated edge.
    data[WRITES].edge_index = data[WRITES].edge_index.unique(dim=1)
    out, expected = (
        other(both.x_dict, both.edge_index_dict),
        conv(data.x_dict, data.edge_index_dict),
    )
    assert_same(out, {name: each.double() for name, each in expected.items()}, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_the_tolerance_bounds_the_error_in_the_norm_of_degrees(tol):
    torch.manual_seed(0)
    edge_index, x = torch.randint(60, (2, 200)), torch.randn(60, 5, dtype=torch.float64)
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]
    conv = RelationalChebConv(5, 4, 1, t=4.0, tol=tol, bias=False).double()
    precise = RelationalChebConv(5, 4, 1, t=4.0, tol=1e-12, bias=False).double()
    precise.load_state_dict(conv.state_dict())
    edge_type = torch.zeros_like(edge_index[0])
    degree = edge_index.flatten().bincount(minlength=60)
    root = degree.double().sqrt()[:, None]
    error = conv(x, edge_index, edge_type) - precise(x, edge_index, edge_type)
    mapped = x @ conv.lin.weight.T
    assert 0 < (root * error).norm() <= tol * (root * mapped).norm()


def test_takes_to_homogeneous():
    data = make_data()
    flat = data.to_homogeneous()
    conv = HeteroChebConv(4, 3, data.metadata())
    other = RelationalChebConv(4, 3, len(data.edge_types))
    other.load_state_dict(conv.conv.state_dict())
    out = other(flat.x, flat.edge_index, flat.edge_type)
    # Here nodes keep their features in the relations of other types as well.
    expected, theta = conv(data.x_dict, data.edge_index_dict), matrices(conv)[0]
    for (name, x), actual in zip(data.x_dict.items(), out.split(list(NODES.values())), strict=True):
        others = [r for r, (a, _, b) in enumerate(conv.relations) if name not in (a, b)]
        total = expected[name] + (x.double() @ theta[others].sum(0)).float()
        torch.testing.assert_close(actual, total)


def test_weights_of_types():
    conv = bent(HeteroChebConv(4, 3, METADATA, tol=1e-9)).double()
    x_dict, edges = make_features(), make_edges()
    weights = {WRITES: torch.rand(6, dtype=torch.float64), CITES: torch.rand(5).double()}
    weights[WRITES][0] = 0  # leaves paper 0 alone
    expected = by_definition(conv, x_dict, edges, weights)
    assert_same(conv(x_dict, edges, weights), expected)
    with pytest.raises(ValueError, match="not learned"):
        conv(x_dict, edges, {PRINTS: torch.ones(3, requires_grad=True)})
    learned = weights[WRITES].requires_grad_()
    conv(x_dict, edges, {WRITES: learned.detach()})
    with pytest.raises(ValueError, match="not learned"):  # though its numbers are remembered
        conv(x_dict, edges, {WRITES: learned})


@pytest.mark.parametrize("in_channels", [-1, {"author": 2, "paper": 4, "venue": 3, "term": 1}])
def test_widths_that_differ_are_mapped_first(in_channels):
    widths = {"author": 2, "paper": 4, "venue": 3, "term": 1}
    x_dict = {name: torch.randn(NODES[name], width) for name, width in widths.items()}
    conv = HeteroChebConv(in_channels, 6, METADATA, tol=1e-7)
    out = conv(x_dict, make_edges())
    mapped = {name: lin(x_dict[name]) for name, lin in zip(NODES, conv.lins, strict=True)}
    expected = by_definition(conv, mapped, make_edges())
    assert_same(out, expected, rtol=1e-4, atol=1e-5)


def test_a_number_of_relations_takes_lazy_channels():
    conv = RelationalChebConv(-1, 3, num_relations=2)
    x, edge_index, edge_type = torch.randn(3, 5), torch.tensor([[0], [1]]), torch.tensor([1])
    out = conv(x, edge_index, edge_type)
    other = RelationalChebConv(5, 3, num_relations=2)
    other.load_state_dict(conv.state_dict())
    torch.testing.assert_close(other(x, edge_index, edge_type), out)


def test_nothing_to_diffuse():
    conv = RelationalChebConv(2, 3, num_relations=2)
    empty = torch.empty(2, 0, dtype=torch.int64)
    theta, _ = matrices(conv)
    for x in (torch.randn(4, 2, requires_grad=True), torch.randn(1, 2, requires_grad=True)):
        out = conv(x, empty, empty[0])
        torch.testing.assert_close(out.double(), x.double() @ theta.sum(0))
        out.sum().backward()
        assert not conv.time.raw.grad.any()
    assert conv(torch.empty(0, 2), empty, empty[0]).shape == (0, 3)


def test_fixed_times_have_no_gradient_and_learned_ones_move():
    x_dict, edges = make_features(torch.float32), make_edges()
    for learn_t in (False, True):
        conv = HeteroChebConv(4, 3, METADATA, learn_t=learn_t)
        sum(each.square().sum() for each in conv(x_dict, edges).values()).backward()
        grad = conv.conv.time.raw.grad
        assert (grad is not None) == learn_t
    assert grad[:3].all()
    assert grad[3] == 0  # a relation without edges


def test_a_graph_is_prepared_anew_only_when_it_changes():
    conv, edges = HeteroChebConv(4, 3, METADATA, tol=1e-7), make_edges()
    x_dict = make_features(torch.float32)
    before = conv(x_dict, edges)["venue"]
    assert torch.equal(conv(x_dict, edges)["venue"], before)
    edges[PRINTS][1, 0] = 6
    assert not torch.equal(conv(x_dict, edges)["venue"], before)
    assert_same(conv(x_dict, edges), by_definition(conv, x_dict, edges), rtol=1e-4, atol=1e-5)


@pytest.mark.sparse
@pytest.mark.filterwarnings("ignore:Using '.*' without a 'pyg-lib' installation")
def test_takes_the_batches_of_a_loader():
    data = ToUndirected()(make_data())
    conv = HeteroChebConv(4, 3, data.metadata())
    loader = NeighborLoader(data, [3, 2], batch_size=2, input_nodes="paper")
    for batch in loader:
        out = conv(batch.x_dict, batch.edge_index_dict)
        assert out["paper"].shape == (batch["paper"].num_nodes, 3)
        assert all(each.isfinite().all() for each in out.values())


@pytest.mark.filterwarnings("ignore")
def test_compiled_code_calls_the_layer_as_it_is():
    conv, edges = HeteroChebConv(4, 3, METADATA), make_edges()
    x_dict = make_features(torch.float32)
    compiled = torch.compile(lambda x: conv(x, edges)["paper"] * 2, backend="eager")
    torch.testing.assert_close(compiled(x_dict), 2 * conv(x_dict, edges)["paper"])


def test_autocast_diffuses_in_full_precision():
    conv, edges = HeteroChebConv(4, 3, METADATA), make_edges()
    x_dict = make_features(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = conv(x_dict, edges)
    assert_same(out, by_definition(conv, x_dict, edges), rtol=0.02, atol=0.02)
    sum(each.sum() for each in out.values()).backward()


def call(conv=None, x=None, edges=None, weights=None):
    conv = HeteroChebConv(4, 3, METADATA) if conv is None else conv
    return conv(make_features(torch.float32) if x is None else x, edges or make_edges(), weights)


def number(x=None, edge_index=None, edge_type=None):
    """Call a layer of two relations, of nodes without types."""
    x = torch.zeros(3, 4) if x is None else x
    edge_index = LOOP[:, 1:] if edge_index is None else edge_index
    edge_type = edge_index[0] if edge_type is None else edge_type
    return RelationalChebConv(4, 3, 2)(x, edge_index, edge_type)


def lazy():
    """A layer that has taken its widths from features of four columns."""
    conv = HeteroChebConv(-1, 3, METADATA)
    call(conv)
    return conv


LOOP = torch.tensor([[0, 1], [0, 2]])  # and an edge


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RelationalChebConv({"a": 3}, 3, 2), "in_channels"),
        (lambda: HeteroChebConv({"author": 3}, 3, METADATA), "in_channels"),
        (lambda: RelationalChebConv(4, 3, 2, num_bases=0), "num_bases"),
        (lambda: RelationalChebConv(4, 3, 2, t=[1.0, 2.0, 3.0]), "'t'"),
        (lambda: call(x={"author": torch.zeros(5, 4)}), "x_dict"),
        (lambda: call(edges={("author", "knows", "author"): LOOP}), "metadata"),
        (lambda: RelationalChebConv(4, 3, METADATA), r"HeteroChebConv\(in_channels"),
        (lambda: call(edges={CITES: LOOP + 9}), "cites"),
        (lambda: call(weights={CITES: torch.ones(2)}), "edge_weight_dict"),
        (lambda: call(lazy(), make_features(torch.float32, width=5)), r"x_dict\['author'\]"),
        (lambda: call(lazy(), make_features()), "'x_dict' to be torch.float32"),
        (lambda: number(edge_type=LOOP[1, 1:]), "edge_type"),
        (lambda: number(x=torch.zeros(3, 5)), "'x'"),
        (lambda: number(x=torch.zeros(3, 3, 4)), "'x'"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


@pytest.mark.parametrize("normalization", ["rw", "sym", None])
def test_self_loops_count_as_in_means_and_are_said_once(normalization, caplog):
    """One is given twice, one with both its types, one alone in its relation."""
    say_of_self_loops.cache_clear()
    edges = make_edges()
    edges[CITES] = torch.cat([edges[CITES], torch.tensor([[0, 0, 5, 2], [0, 0, 5, 2]])], 1)
    weights = {CITES: torch.rand(edges[CITES].size(1)).double() + 0.1}
    options = {"normalization": normalization, "tol": 1e-9}
    conv = bent(HeteroChebConv(4, 3, METADATA, **options)).double()
    x_dict = make_features()
    for _ in range(2):
        out = conv(x_dict, edges, weights)
    assert_same(out, by_definition(conv, x_dict, edges, weights))
    flat = HeteroData({"node": {"x": x_dict["paper"]}})
    one = bent(RelationalChebConv(4, 3, 1, bias=False, **options)).double()
    edge_type = torch.zeros_like(edges[CITES][0])
    theta, adjacency = matrices(one)[0][0], dense_adjacency(7, *edges[CITES], weights[CITES])
    expected = dense_heat(adjacency, one.t[0], one.options) @ x_dict["paper"] @ theta
    found = one(flat["node"].x, edges[CITES], edge_type, weights[CITES])
    torch.testing.assert_close(found, expected)
    assert len([record for record in caplog.records if "Self-loops" in record.message]) == 1


def test_at_short_times_neighbours_and_self_loops_have_the_means_of_rgcn():
    torch.manual_seed(0)
    edge_index = torch.randint(9, (2, 12)).unique(dim=1)
    edge_index = edge_index[:, edge_index[0] <= edge_index[1]]  # with loops, each edge once
    loops = edge_index[0] == edge_index[1]
    assert loops.any()
    both = torch.cat([edge_index, edge_index[:, ~loops].flip(0)], 1)
    conv = RelationalChebConv(4, 3, 1, t=1e-6, from_neighbors=True, bias=False, tol=1e-9).double()
    peer = RGCNConv(4, 3, 1, root_weight=False, bias=False).double()
    peer.weight.data = matrices(conv)[0]
    x, has_edges = torch.randn(9, 4).double(), both[1].unique()
    expected = peer(x, both, torch.zeros_like(both[0]))[has_edges]
    found = conv(x, edge_index, torch.zeros_like(edge_index[0]))[has_edges]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


# What a `HeteroData` takes: dots, names of attributes of modules and dictionaries, other signs.
NAMES = ["people.person", "type", "items", "a#b", "<type>", "x", "node type", "rev_r", "\u00e4"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("relation", ["r", "rdf.type", "type", "rev_"])
def test_all_names_of_types(name, relation):
    torch.manual_seed(0)
    data, plain = HeteroData(), {"a": torch.randn(4, 3), "b": torch.randn(5, 2)}
    data[name].x, data["b"].x = plain["a"], plain["b"]
    edges = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 4]])
    data[name, relation, "b"].edge_index = edges
    metadata = ["a", "b"], [("a", "r", "b")]
    conv, same = HeteroChebConv(-1, 4, data.metadata()), HeteroChebConv(-1, 4, metadata)
    conv(data.x_dict, data.edge_index_dict), same(plain, {("a", "r", "b"): edges})
    conv.load_state_dict(same.state_dict())
    out = conv(data.x_dict, data.edge_index_dict)
    assert torch.equal(out[name], same(plain, {("a", "r", "b"): edges})["a"])
    out = relational_features(data.x_dict, data.edge_index_dict, dim=4, hops=1)
    assert torch.equal(
        out[name], relational_features(plain, {("a", "r", "b"): edges}, dim=4, hops=1)["a"]
    )
    layer = HeteroDiffusion(data.metadata(), t=1.0)
    x_dict = {key: x[:, :2] for key, x in data.x_dict.items()}
    assert layer(x_dict, data.edge_index_dict)[name].shape == (4, 2)
    labels = torch.tensor([0, 0, 1, 1])
    assert propagate_labels(data, labels, name, steps=1).of_types[name].shape == (4, 2)


@pytest.mark.parametrize(
    "form", ["csr", "coo", pytest.param("SparseTensor", marks=pytest.mark.sparse)]
)
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("has_weight", [False, True])
def test_transposed_adjacency_matrices(form, has_weight):
    """As `ToSparseTensor` makes them, also of two node types; their values are weights."""
    data = make_data()
    for name in data.edge_types:
        data[name].edge_index = data[name].edge_index.unique(dim=1)
        if has_weight:
            data[name].edge_weight = torch.rand(data[name].num_edges) + 0.1
    layout = None if form == "SparseTensor" else getattr(torch, f"sparse_{form}")
    adj = ToSparseTensor(layout=layout)(copy.copy(data))
    weights = data.edge_weight_dict if has_weight else None
    for layer in (HeteroChebConv(4, 3, data.metadata()), HeteroDiffusion(data.metadata())):
        expected = layer(data.x_dict, data.edge_index_dict, weights)
        for _ in range(2):
            assert_same(layer(adj.x_dict, adj.adj_t_dict), expected)
    with pytest.raises(
        ValueError, match=r"'edge_index_dict\[\('author', 'writes', 'paper'\)\]' of shape"
    ):
        layer(adj.x_dict, {WRITES: adj[WRITES].adj_t.to_dense().T.to_sparse_csr()})
