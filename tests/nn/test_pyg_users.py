"""What users of PyG hand to the layers, other types and `EdgeIndex`; and PyG's tools."""

import copy
from pathlib import Path

import pytest
import torch
from layer_cases import CHANNELS, NUM_NODES, bend, call, count_preparations, make_data
from torch_geometric import EdgeIndex
from torch_geometric.data import HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import HeteroConv, to_hetero

from jsem_pyg import nn
from jsem_pyg.diffusion import heat_diffusion, heat_kernel_columns
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, RelationalChebConv

# EdgeIndex.

EDGE_INDICES = {
    "unsorted": {},
    "by column": {"sort_order": "col"},
    "undirected by row": {"sort_order": "row", "is_undirected": True},
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
def test_edge_index(name, monkeypatch):
    plain, data = make_data(), with_edge_index(name)
    for layer in (
        bend(AnisotropicDiffusion(t=[1.0, 2.0])),
        bend(AnisotropicDiffusion(fuse=False)),
        bend(AnisotropicChebConv(CHANNELS, 1)),
    ):
        torch.testing.assert_close(call(layer, plain), call(layer, data))
    structure = GraphStructure(data.edge_index, NUM_NODES)
    out = AnisotropicDiffusion(edge_dim=0)(data.x, structure, data.edge_weight)
    torch.testing.assert_close(
        heat_diffusion(data.x, plain.edge_index, plain.edge_weight, 5.0), out
    )
    made = count_preparations(monkeypatch)
    call(layer, data)
    assert not made  # the last graph is remembered


def test_edge_index_knows_of_isolated_nodes_at_the_end():
    edge_index = EdgeIndex([[0, 1], [1, 0]], sparse_size=(4, 4))
    columns = heat_kernel_columns(edge_index, torch.tensor([0]))
    assert columns.shape == (4, 1)
    # A size that it does not know, or that says less than the nodes, does not count.
    unknown = EdgeIndex([[0, 1], [1, 0]])
    assert heat_kernel_columns(unknown, torch.tensor([2])).shape == (3, 1)


# PyG's tools.


class Model(torch.nn.Module):
    def __init__(self, normalization="sym"):
        super().__init__()
        self.diffusion = bend(AnisotropicDiffusion(t=1.0, normalization=normalization))
        self.conv = bend(AnisotropicChebConv(CHANNELS, 3, normalization=normalization))

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        x = self.diffusion(x, edge_index, edge_weight, edge_attr)
        return self.conv(x.relu(), edge_index, edge_weight, edge_attr)


@pytest.mark.parametrize("normalization", ["sym", "rw", None])
def test_an_open_mask_changes_nothing_and_a_closed_edge_does(normalization):
    data, model = make_data(), Model(normalization)
    arguments = (data.x, data.edge_index, data.edge_weight, data.edge_attr)
    fused = model(*arguments)
    mask = torch.ones(data.num_edges)
    set_masks(model, mask, data.edge_index, apply_sigmoid=False)
    torch.testing.assert_close(model(*arguments), fused, rtol=1e-5, atol=1e-5)
    mask[:10] = 0
    assert not torch.allclose(model(*arguments), fused, atol=1e-3)
    clear_masks(model)
    torch.testing.assert_close(model(*arguments), fused)


def test_a_mask_acts_on_messages_of_its_column():
    edge_index = torch.tensor([[0, 1], [1, 0]])
    layer, x = AnisotropicDiffusion(edge_dim=0, t=1.0), torch.eye(2)
    set_masks(layer, torch.tensor([1.0, 0.0]), edge_index, apply_sigmoid=False)
    out = layer(x, edge_index).detach()
    assert float(out[1, 0]) > 0.1
    assert float(out[0, 1]) == 0


@pytest.mark.parametrize("normalization", ["sym", "rw", None])
def test_a_mask_takes_from_a_repeated_edge_what_it_conducts(normalization):
    edge_index = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]])
    attr = torch.tensor([[0.0], [0.0], [1.0], [1.0]])
    layer, x = bend(AnisotropicDiffusion(t=1.0, normalization=normalization)), torch.eye(2)

    def masked(mask, weight):
        set_masks(layer, torch.tensor(mask), edge_index, apply_sigmoid=False)
        return layer(x, edge_index, torch.tensor(weight), attr).detach()

    heavy, light = masked([1.0, 1, 0, 0], [3.0, 3, 1, 1]), masked([0.0, 0, 1, 1], [3.0, 3, 1, 1])
    first, second = layer.conductance(attr)[[0, 2]].tolist()
    part = 3 * first / (3 * first + second)
    torch.testing.assert_close(heavy, masked([part] * 4, [3.0, 3, 1, 1]))
    torch.testing.assert_close(light, masked([1 - part] * 4, [3.0, 3, 1, 1]))
    # Without weight an edge carries no message; where none has any, they are equal.
    alone = [1.0, 1, 0, 0]
    torch.testing.assert_close(masked([0.0, 0, 1, 1], alone), masked([0.0] * 4, alone))
    torch.testing.assert_close(masked([0.0, 0, 1, 1], [0.0] * 4), x)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.diffusion = AnisotropicDiffusion(edge_dim=0, t=1.0)
        self.first = AnisotropicChebConv(-1, 8, edge_dim=0, t=[1.0, 2.0])
        self.second = AnisotropicChebConv(8, 3, edge_dim=0, t=[0.5, 1.0, 2.0])

    def forward(self, x, edge_index):
        x = self.first(self.diffusion(x, edge_index), edge_index).relu()
        return self.second(x, edge_index)


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


def test_bipartite_edges_are_refused_clearly():
    data, graph = HeteroData(), make_data()
    data["paper"].x, data["author"].x = graph.x, graph.x.clone()
    data["author", "writes", "paper"].edge_index = graph.edge_index
    data["paper", "rev_writes", "author"].edge_index = graph.edge_index
    model = to_hetero(Net(), data.metadata())
    relational = HeteroConv({kind: RelationalChebConv(-1, 4, 1) for kind in data.edge_types})
    for bipartite in (model, relational):
        with pytest.raises(ValueError, match="'x' to belong to one set of nodes.*HeteroChebConv"):
            bipartite(data.x_dict, data.edge_index_dict)


def use(name):
    """Make a layer, and what to call it with."""
    x, metadata = torch.randn(6, 4), (["a"], [("a", "r", "a")])
    path = torch.stack([torch.arange(5), torch.arange(1, 6)])
    edges = torch.cat([path, path.flip(0)], 1)
    made = {
        "AnisotropicDiffusion": lambda: (AnisotropicDiffusion(0), x, edges),
        "AnisotropicChebConv": lambda: (AnisotropicChebConv(4, 2, edge_dim=0), x, edges),
        "DiffusionClassifier": lambda: (nn.DiffusionClassifier(4, 2), x, edges),
        "RelationalChebConv": lambda: (RelationalChebConv(4, 2, 1), x, edges, 0 * edges[0]),
        "HeteroChebConv": lambda: (nn.HeteroChebConv(4, 2, metadata), *dictionaries),
        "HeteroDiffusion": lambda: (nn.HeteroDiffusion(metadata), *dictionaries),
        "HypergraphDiffusion": lambda: (nn.HypergraphDiffusion(), x, edges),
        "HypergraphChebConv": lambda: (nn.HypergraphChebConv(4, 2), x, edges),
        "SimplicialDiffusion": lambda: (nn.SimplicialDiffusion(), x[:5], path),
    }
    dictionaries = {"a": x}, {metadata[1][0]: edges}
    layer, *given = made[name]()
    return layer.eval(), tuple(given)


def explains(layer, given):
    explainer = Explainer(
        layer,
        GNNExplainer(epochs=3),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "node", "return_type": "raw"},
    )
    options = {} if len(given) < 3 else {"edge_type": given[2]}
    assert explainer(*given[:2], **options).edge_mask.max() > 0


TRIALS = {
    "explainers": explains,
    "`torch.compile(fullgraph=True)`": lambda layer, given: torch.compile(
        layer, fullgraph=True, backend="eager"
    )(*given),
    "`torch.export`": lambda layer, given: torch.export.export(layer, given),
}
PAGE = (Path(__file__).parents[2] / "docs/guide/pyg.md").read_text(encoding="utf-8")
TABLE = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.split("## Which layer has what")[1].split("Heat reaches")[0].splitlines()
    if line.startswith("|")
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", TABLE[2:], ids=lambda row: row[0])
def test_the_table_of_layers_holds(row):
    for trial, says in zip(TABLE[0][1:], row[1:], strict=True):
        layer, given = use(row[0].strip("`"))
        torch.compiler.reset()
        try:
            TRIALS[trial](layer, given)
            works = "yes"
        except Exception:
            works = "no"
        assert works == says, trial
    assert {each[0].strip("`") for each in TABLE[2:]} == {
        name for name in nn.__all__ if "Conductance" not in name and name[0].isupper()
    }
