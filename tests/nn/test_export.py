"""`torch.export` takes the layers whole, and the program runs on other values and other graphs."""

import io

import pytest
import torch
from layer_cases import CHANNELS, bend, make_data
from night import night

from jsem_pyg.diffusion import filters
from jsem_pyg.nn import (
    AnisotropicChebConv,
    AnisotropicDiffusion,
    HeteroDiffusion,
    HypergraphDiffusion,
    RelationalChebConv,
    SimplicialDiffusion,
)


class Stack(torch.nn.Module):
    """Two layers, one that maps after the diffusion and one that maps first."""

    def __init__(self):
        super().__init__()
        self.first = bend(AnisotropicChebConv(CHANNELS, 9, t=[1.0, 2.0]))
        self.second = bend(AnisotropicChebConv(9, 2))

    def forward(self, *graph):
        x, *edges = graph
        return self.second(self.first(x, *edges).relu(), *edges)


MODELS = {
    "diffusion": lambda: bend(AnisotropicDiffusion(t=[1.0, 2.0], normalization="rw")),
    "stack": Stack,
}


def arguments(data):
    return data.x, data.edge_index, data.edge_weight, data.edge_attr


@pytest.mark.parametrize(
    ("name", "strict"),
    [("diffusion", False), ("stack", True), *night(("diffusion", True), ("stack", False))],
)
def test_other_values_and_another_graph_of_the_same_size(name, strict):
    model, data = MODELS[name]().eval(), make_data()
    program = torch.export.export(model, arguments(data), strict=strict).module()
    torch.testing.assert_close(program(*arguments(data)), model(*arguments(data)))
    data.x, data.edge_weight = data.x.cos(), 2 * data.edge_weight.square()
    data.edge_index = len(data.x) - 1 - data.edge_index
    torch.testing.assert_close(program(*arguments(data)), model(*arguments(data)))
    with pytest.raises(ValueError, match="without self-loops"):
        program(data.x, torch.zeros_like(data.edge_index), data.edge_weight, data.edge_attr)


@pytest.mark.parametrize("strict", [False, *night(True)])
def test_graphs_of_any_size(strict):
    model, data = Stack().eval(), make_data()
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = ({0: nodes}, {1: edges}, {0: edges}, {0: edges})
    program = torch.export.export(
        # Under strict=True each argument has to have a name.
        Named(model), arguments(data), dynamic_shapes=shapes, strict=strict
    ).module()  # fmt: skip
    for other in (make_data(seed=1), make_data(seed=2), triangle()):
        torch.testing.assert_close(program(*arguments(other)), model(*arguments(other)))


class Named(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, edge_index, edge_weight, edge_attr):
        return self.model(x, edge_index, edge_weight, edge_attr)


def triangle():
    data = make_data()
    data.x = data.x[:3]
    data.edge_index = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    data.edge_weight, data.edge_attr = torch.ones(6), torch.ones(6, 1)
    return data


COMBINATORIAL = AnisotropicDiffusion(edge_dim=0, normalization=None)


@pytest.mark.parametrize(
    ("layer", "given"),
    [
        (AnisotropicDiffusion(edge_dim=0, filter=filters.Heat(1.0)), {}),
        (COMBINATORIAL, {"node_mass": torch.ones(len(make_data().x))}),
        (AnisotropicDiffusion(edge_dim=0, fuse=False), {}),
        (HypergraphDiffusion(), {}),
        (SimplicialDiffusion(), {}),
        (HeteroDiffusion((["a"], [("a", "r", "a")])), {}),
    ],
)
def test_what_has_no_op_is_refused(layer, given):
    data = make_data()
    x = torch.zeros(data.num_edges, 2) if isinstance(layer, SimplicialDiffusion) else data.x
    message = r"export of this \w+, for .* without a filter, 'node_mass' and transforms"
    graph = x, data.edge_index
    if isinstance(layer, HeteroDiffusion):
        graph = {"a": x}, {("a", "r", "a"): data.edge_index}
    with pytest.raises(NotImplementedError, match=message):
        torch.export.export(layer, graph, given, strict=False)


def test_a_program_is_saved_and_loaded():
    layer, data, file = AnisotropicDiffusion(edge_dim=0, t=2.0), make_data(), io.BytesIO()
    torch.export.save(torch.export.export(layer, (data.x, data.edge_index)), file)
    file.seek(0)
    program = torch.export.load(file).module()
    torch.testing.assert_close(program(data.x, data.edge_index), layer(data.x, data.edge_index))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace")
@pytest.mark.parametrize("is_sparse", [False, True])
def test_tracing_is_refused(is_sparse):
    layer, data = AnisotropicChebConv(CHANNELS, 2, edge_dim=0), make_data()
    x = data.x.to_sparse() if is_sparse else data.x
    layer(x, data.edge_index)  # a graph that is remembered became a constant
    with pytest.raises(NotImplementedError, match="To fix this, use torch.export"):
        torch.jit.trace(layer, (x, data.edge_index), check_trace=False)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
@pytest.mark.parametrize(
    "layer", [AnisotropicChebConv(CHANNELS, 2), RelationalChebConv(CHANNELS, 2, 1)]
)
def test_scripting_is_refused(layer):
    with pytest.raises(NotImplementedError, match="To fix this, use torch.export"):
        torch.jit.script(layer)
