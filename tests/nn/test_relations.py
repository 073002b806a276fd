"""Conductances of relations: layers with `edge_type`, and the layer of heterogeneous graphs."""

import pytest
import torch
from dense import exact_heat_diffusion
from laws import random_graph
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.transforms import ToUndirected

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import (
    AnisotropicChebConv,
    AnisotropicDiffusion,
    HeteroDiffusion,
    SigmoidConductance,
)
from jsem_pyg.training import fit

THETA = torch.tensor([-2.0, 0.0, 1.0])


def make_graph(dtype=torch.float64):
    """A graph of 20 nodes, two of them isolated, whose edges have three kinds; also repeated."""
    edge_index, weight = random_graph(20, 0.3, 2, seed=0, dtype=dtype)
    low, high = edge_index.min(0).values, edge_index.max(0).values
    return torch.randn(20, 4, dtype=dtype), edge_index, weight, (7 * low + high) % 3


def bent(layer):
    h = layer.relation_conductance
    h.theta.data = THETA.to(h.theta) / h.rate
    return layer


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("normalization", ["sym", "rw", None])
def test_a_layer_diffuses_by_weights_times_conductances(dtype, normalization):
    x, edge_index, weight, edge_type = make_graph(dtype)
    layer = AnisotropicDiffusion(0, 3.0, num_relations=3, normalization=normalization).to(dtype)
    out = bent(layer)(x, edge_index, weight, edge_type=edge_type)
    h = bent(AnisotropicDiffusion(0, num_relations=3)).relation_conductance
    exact = exact_heat_diffusion(
        x, edge_index, weight * h(edge_type).detach(), 3.0, normalization=normalization
    )
    tol = 1e-5 if dtype == torch.float32 else 1e-6
    torch.testing.assert_close(out, exact.to(dtype), rtol=tol, atol=tol)


def test_gradients_of_relations():
    x, edge_index, weight, edge_type = make_graph()
    layer = bent(AnisotropicDiffusion(0, 2.0, num_relations=3, tol=1e-10).double())
    theta = layer.relation_conductance.theta

    def run(value):
        named = {"relation_conductance.theta": value}
        return torch.func.functional_call(
            layer, named, (x, edge_index, weight), {"edge_type": edge_type}
        )

    assert torch.autograd.gradcheck(run, (theta.detach().clone().requires_grad_(),))


def test_a_new_layer_is_isotropic():
    x, edge_index, weight, edge_type = make_graph()
    layer = AnisotropicDiffusion(0, 2.0, num_relations=3, tol=1e-10).double()
    out = layer(x, edge_index, weight, edge_type=edge_type)
    expected = heat_diffusion(x, edge_index, weight, 2.0, tol=1e-10)
    torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-7)


def test_relations_multiply_the_conductance_of_edge_features():
    x, edge_index, weight, edge_type = make_graph()
    attr = edge_type[:, None].double() - 1
    layer = bent(AnisotropicDiffusion(1, 2.0, num_relations=3).double())
    layer.conductance.slope.data.fill_(0.7)
    features = SigmoidConductance(1).double()
    features.slope.data.fill_(0.7)
    other = bent(AnisotropicDiffusion(0, num_relations=3).double()).relation_conductance
    out = layer(x, edge_index, weight, attr, edge_type=edge_type)
    both = weight * features(attr) * other(edge_type)
    torch.testing.assert_close(out, heat_diffusion(x, edge_index, both, 2.0), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [AnisotropicDiffusion, AnisotropicChebConv])
def test_all_paths_give_the_same_numbers(kind):
    torch.manual_seed(0)
    channels = (4, 3) if kind is AnisotropicChebConv else ()
    x, edge_index, weight, edge_type = make_graph(torch.float32)
    layer = bent(kind(*channels, edge_dim=0, num_relations=3))
    given = {"edge_weight": weight, "edge_type": edge_type}
    out = layer(x, edge_index, **given)
    compiled = torch.compile(layer, fullgraph=True)
    torch.testing.assert_close(compiled(x, edge_index, **given), out)
    layer.fuse = False
    torch.testing.assert_close(layer(x, edge_index, **given), out, rtol=1e-5, atol=1e-5)


def test_relations_print_as_a_table():
    layer = bent(AnisotropicDiffusion(0, num_relations=3))
    assert list(layer.relations()) == ["0", "1", "2"]
    assert layer.relations()["1"] == pytest.approx(0.5, abs=1e-4)
    assert len(repr(layer.relations()).splitlines()) == 4


def test_what_does_not_fit_is_refused():
    x, edge_index, weight, edge_type = make_graph(torch.float32)
    layer = AnisotropicDiffusion(0, num_relations=3)
    with pytest.raises(TypeError, match="edge_type="):
        layer(x, edge_index, edge_type)
    with pytest.raises(ValueError, match="Expected 'edge_type' for a layer"):
        layer(x, edge_index, weight)
    with pytest.raises(ValueError, match=r"\[0, 3\)"):
        layer(x, edge_index, edge_type=edge_type + 1)
    with pytest.raises(ValueError, match="'edge_type' to have shape"):
        layer(x, edge_index, edge_type=edge_type[1:])
    with pytest.raises(ValueError, match="make the layer with num_relations="):
        AnisotropicDiffusion(0)(x, edge_index, edge_type=edge_type)
    with pytest.raises(TypeError, match="edge_type=, to a layer with num_relations="):
        AnisotropicDiffusion()(x, edge_index, edge_attr=edge_type)
    with pytest.raises(ValueError, match="num_relations"):
        AnisotropicDiffusion().relations()


def test_fit_hands_relations_to_the_model():
    x, edge_index, weight, edge_type = make_graph(torch.float32)
    data = Data(x, edge_index, edge_weight=weight, edge_type=edge_type)
    layer = AnisotropicDiffusion(0, 2.0, num_relations=3)
    fit(layer, data, epochs=2)
    assert len(set(layer.relations().values())) == 3
    with pytest.raises(ValueError, match="num_relations="):
        fit(AnisotropicDiffusion(0), data, epochs=1)


def make_hetero():
    generator = torch.Generator().manual_seed(0)
    data = HeteroData()
    for name, count in (("author", 8), ("paper", 12), ("venue", 2)):
        data[name].x = torch.randn(count, 3, generator=generator)
    for a, name, b in (
        ("paper", "by", "author"),
        ("paper", "in", "venue"),
        ("paper", "to", "paper"),
    ):
        counts = data[a].num_nodes, data[b].num_nodes
        ends = [torch.randint(count, (15,), generator=generator) for count in counts]
        edges = torch.stack(ends)
        data[a, name, b].edge_index = edges[:, edges[0] != edges[1]] if a == b else edges
    return data


def union(data):
    """Every edge once, in both directions, with the number of its relation."""
    first, edges = {"author": 0, "paper": 8, "venue": 20}, set()
    for relation, (a, name, b) in enumerate(data.edge_types):
        for i, j in data[a, name, b].edge_index.T.tolist():
            i, j = i + first[a], j + first[b]
            edges |= {(relation, i, j), (relation, j, i)}
    return torch.tensor(sorted(edges)).T


def hetero_layer(data):
    layer = HeteroDiffusion(data.metadata(), t=2.0)
    bent(layer.diffusion)
    return layer


def test_a_heterogeneous_graph_is_one_graph_with_relations():
    data = make_hetero()
    for name in data.edge_types:  # each edge once: repeats would count
        data[name].edge_index = data[name].edge_index.unique(dim=1)
    edge_type, row, col = union(data)
    out = hetero_layer(data)(data.x_dict, data.edge_index_dict)
    layer = bent(AnisotropicDiffusion(0, 2.0, num_relations=3))
    x = torch.cat(list(data.x_dict.values()))
    expected = layer(x, torch.stack([row, col]), edge_type=edge_type)
    torch.testing.assert_close(torch.cat(list(out.values())), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("merge", [True, False])
def test_reverse_types_change_nothing(merge):
    data = make_hetero()
    cites = data["paper", "to", "paper"].edge_index  # one direction of every edge, once
    once = torch.stack([cites.min(0).values, cites.max(0).values]).unique(dim=1)
    data["paper", "to", "paper"].edge_index = once
    both = ToUndirected(merge=merge)(data.clone())
    out = hetero_layer(data)(data.x_dict, data.edge_index_dict)
    layer = hetero_layer(both)
    assert list(layer.relations()) == ["paper by author", "paper in venue", "paper to paper"]
    again = layer(both.x_dict, both.edge_index_dict)
    assert all(torch.allclose(out[name], again[name], atol=1e-5) for name in out)


@pytest.mark.sparse
def test_weights_and_batches_of_a_loader():
    data = make_hetero()
    for name in data.edge_types:
        data[name].edge_weight = torch.rand(data[name].num_edges) + 0.1
    data = ToUndirected()(data)
    layer = hetero_layer(data)
    layer(data.x_dict, data.edge_index_dict, data.edge_weight_dict)["author"].sum().backward()
    assert layer.diffusion.relation_conductance.theta.grad.abs().min() > 0
    for batch in NeighborLoader(data, [3, 3], batch_size=4, input_nodes="author"):
        out = layer(batch.x_dict, batch.edge_index_dict)
        assert out["author"].shape == batch["author"].x.shape
        assert all(bool(each.isfinite().all()) for each in out.values())


def test_heterogeneous_input_that_does_not_fit_is_refused():
    data = make_hetero()
    layer = hetero_layer(data)
    with pytest.raises(ValueError, match="zeros for nodes without features"):
        layer({"author": torch.ones(8, 3)}, data.edge_index_dict)
    with pytest.raises(TypeError, match="'x_dict' to be of one type"):
        layer({**data.x_dict, "venue": torch.ones(2, 3).double()}, data.edge_index_dict)
    both = ToUndirected()(data.clone())
    with pytest.raises(ValueError, match=r"rev_by.*build the layer from the metadata\(\)"):
        layer(both.x_dict, both.edge_index_dict)
    with pytest.raises(ValueError, match="edge types of the metadata"):
        layer(data.x_dict, {("author", "knows", "author"): torch.zeros(2, 0, dtype=torch.long)})
    with pytest.raises(ValueError, match="'metadata'"):
        HeteroDiffusion((["author"], [("author", "writes", "paper")]))
