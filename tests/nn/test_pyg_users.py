"""What users of PyG hand to the layers: other types, `EdgeIndex`, samples; and PyG's tools."""

import copy

import pytest
import torch
from layer_cases import CHANNELS, NUM_NODES, bend, call, make_data
from torch_geometric import EdgeIndex
from torch_geometric.data import HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import HeteroConv, summary, to_hetero
from torch_geometric.transforms import ToUndirected
from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

from jsem_pyg.diffusion import heat_diffusion, heat_kernel_columns
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, HypergraphChebConv


class Softmin(torch.nn.Module):
    """A conductance of the user's, which does not convert anything."""

    def forward(self, edge_attr):
        return torch.sigmoid(edge_attr @ torch.ones(1))


# Edge features that are not floating-point numbers.

DTYPES = [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool, torch.float16]


@pytest.mark.parametrize("conductance", ["sigmoid", "mlp", "module"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_and_truth_values_are_numbers(dtype, conductance):
    data = make_data()
    attr = (2 * data.edge_attr).round().clamp(min=0).to(dtype)
    layer = AnisotropicDiffusion(conductance=Softmin() if conductance == "module" else conductance)
    torch.manual_seed(0)
    for parameter in layer.conductance.parameters():
        torch.nn.init.uniform_(parameter, -1, 0.5)
    isotropic = layer(data.x, data.edge_index, data.edge_weight)
    for shape in ((-1, 1), (-1,)):
        out = layer(data.x, data.edge_index, data.edge_weight, attr.reshape(shape))
        expected = layer(data.x, data.edge_index, data.edge_weight, attr.reshape(shape).float())
        assert torch.equal(out, expected)
        assert not torch.allclose(out, isotropic, atol=1e-3)


def test_other_features_are_refused_by_name():
    data, layer = make_data(), AnisotropicDiffusion()
    for bad in (data.edge_attr * 1j, data.edge_attr.tolist(), data.edge_attr.numpy()):
        with pytest.raises(TypeError, match="'edge_attr' to be a tensor of real numbers"):
            layer(data.x, data.edge_index, data.edge_weight, bad)


# EdgeIndex.

EDGE_INDICES = {
    "unsorted": {},
    "by row": {"sort_order": "row"},
    "by column": {"sort_order": "col"},
    "undirected": {"is_undirected": True},
    "undirected by row": {"sort_order": "row", "is_undirected": True},
    "undirected by column": {"sort_order": "col", "is_undirected": True},
}


def with_edge_index(name):
    """The same graph, its edges in the order that an `EdgeIndex` says it has."""
    data, options = make_data(), EDGE_INDICES[name]
    row, col = data.edge_index
    key = {
        None: torch.randperm(len(row)),
        "row": row * NUM_NODES + col,
        "col": col * NUM_NODES + row,
    }
    order = key[options.get("sort_order")].argsort()
    size = (NUM_NODES, NUM_NODES)
    data.edge_index = EdgeIndex(data.edge_index[:, order], sparse_size=size, **options).validate()
    data.edge_weight, data.edge_attr = data.edge_weight[order], data.edge_attr[order]
    return data


@pytest.mark.parametrize("name", EDGE_INDICES)
def test_edge_index(name):
    plain, data = make_data(), with_edge_index(name)
    layers = [
        bend(AnisotropicDiffusion(t=[1.0, 2.0])),
        bend(AnisotropicDiffusion(fuse=False)),
        bend(AnisotropicChebConv(CHANNELS, 1)),
    ]
    for layer in layers:
        torch.testing.assert_close(call(layer, data), call(layer, plain))
    x, weight = data.x, data.edge_weight
    expected = heat_diffusion(x, plain.edge_index, plain.edge_weight)
    torch.testing.assert_close(heat_diffusion(x, data.edge_index, weight), expected)
    structure = GraphStructure(data.edge_index, NUM_NODES)
    torch.testing.assert_close(heat_diffusion(x, structure, weight), expected)
    compiled = torch.compile(heat_diffusion, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, data.edge_index, weight), expected)


def test_edge_index_is_remembered(monkeypatch):
    data, layer = with_edge_index("by row"), AnisotropicDiffusion()
    made, build = [], GraphStructure._build
    monkeypatch.setattr(GraphStructure, "_build", lambda *args: made.append(1) or build(*args))
    for _ in range(3):
        call(layer, data)
    assert len(made) == 1


def test_edge_index_knows_of_isolated_nodes_at_the_end():
    edge_index = EdgeIndex([[0, 1], [1, 0]], sparse_size=(4, 4))
    columns = heat_kernel_columns(edge_index, torch.tensor([0]))
    assert columns.shape == (4, 1)
    # A size that it does not know, or that says less than the nodes, does not count.
    unknown = EdgeIndex([[0, 1], [1, 0]])
    assert heat_kernel_columns(unknown, torch.tensor([2])).shape == (3, 1)


# Samples.


@pytest.mark.skipif(not (WITH_PYG_LIB or WITH_TORCH_SPARSE), reason="needs pyg-lib or torch-sparse")
def test_directed_samples_become_graphs_by_a_transform():
    torch.manual_seed(0)
    data, layer = make_data(), bend(AnisotropicDiffusion())
    data.node = torch.arange(NUM_NODES)
    position = torch.full((NUM_NODES, NUM_NODES), -1)
    position[tuple(data.edge_index)] = torch.arange(data.num_edges)
    one_way = 0
    for reverse in (None, ToUndirected(reduce="max")):
        for batch in NeighborLoader(data, [2, 1], batch_size=3, transform=reverse):
            one_way += not batch.is_undirected()
            if reverse is not None:  # the weights of the graph, not their sums
                edge = position[tuple(batch.node[batch.edge_index])]
                assert torch.equal(batch.edge_weight, data.edge_weight[edge])
                assert torch.equal(batch.edge_attr, data.edge_attr[edge])
                assert call(layer, batch).shape == batch.x.shape
        assert one_way  # of those without the transform


# PyG's tools.


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.diffusion = AnisotropicDiffusion(edge_dim=0, t=1.0)
        self.first = AnisotropicChebConv(-1, 8, edge_dim=0, t=[1.0, 2.0])
        self.second = AnisotropicChebConv(8, 3, edge_dim=0, t=[0.5, 1.0, 2.0])

    def forward(self, x, edge_index):
        x = self.first(self.diffusion(x, edge_index), edge_index).relu()
        return self.second(x, edge_index)


def test_summary():
    pytest.importorskip("tabulate")  # of which PyG makes the table
    data, model = make_data(), Net()
    model(data.x, data.edge_index)
    table = summary(model, data.x, data.edge_index)
    for name in ("AnisotropicDiffusion", "AnisotropicChebConv", f"[{NUM_NODES}, 3]"):
        assert name in table
    hypergraph = HypergraphChebConv(CHANNELS, 2)
    assert "HypergraphChebConv" in summary(hypergraph, data.x, torch.tensor([[0, 1], [0, 0]]))


def test_an_explainer_finds_the_edges_that_matter():
    # Two parts that do not touch: what explains a node lies in its own part.
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    ring = torch.cat([ring, ring.flip(0)], dim=1)
    edge_index = torch.cat([ring, ring + 3], dim=1)
    model = Net()
    x = torch.randn(6, CHANNELS)
    before = model(x, edge_index)
    explainer = Explainer(
        model,
        GNNExplainer(epochs=20),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "node", "return_type": "raw"},
    )
    explanation = explainer(x, edge_index, index=1)
    assert explanation.edge_mask[:6].min() > 0
    assert explanation.edge_mask[6:].max() == 0
    assert explanation.node_mask[3:].max() == 0
    torch.testing.assert_close(model(x, edge_index), before)  # and leaves the model as it was


def test_to_hetero_and_hetero_conv_on_relations_within_a_type():
    graph, data = make_data(), HeteroData()
    other = NUM_NODES - 1 - graph.edge_index
    data["paper"].x = graph.x
    data["paper", "cites", "paper"].edge_index = graph.edge_index
    data["paper", "resembles", "paper"].edge_index = other
    conv = AnisotropicChebConv(CHANNELS, 3, edge_dim=0)
    expected = conv(graph.x, graph.edge_index) + conv(graph.x, other)

    class One(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = copy.deepcopy(conv)

        def forward(self, x, edge_index):
            return self.conv(x, edge_index)

    model = to_hetero(One(), data.metadata(), aggr="sum")
    for each in model.modules():
        if isinstance(each, AnisotropicChebConv):
            each.load_state_dict(conv.state_dict())
    out = model(data.x_dict, data.edge_index_dict)
    torch.testing.assert_close(out["paper"], expected)
    stacked = HeteroConv({kind: copy.deepcopy(conv) for kind in data.edge_types}, aggr="sum")
    torch.testing.assert_close(stacked(data.x_dict, data.edge_index_dict)["paper"], expected)
