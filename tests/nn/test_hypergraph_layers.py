"""HypergraphDiffusion and HypergraphChebConv: what both owe to the operator, and each to itself."""

import pytest
import torch
from hypergraph_cases import CASES, exact, hypergraph_diffusion, random_hypergraph
from torch_geometric.data import Batch
from torch_geometric.data.hypergraph_data import HyperGraphData

from jsem_pyg.graph import HypergraphStructure
from jsem_pyg.nn import HypergraphChebConv, HypergraphDiffusion

NUM_NODES, NUM_HYPEREDGES, CHANNELS = 9, 5, 4
INDEX = CASES["random"][0]
SCALES = [1.5, [0.5, 3.0], torch.linspace(0.5, 4.0, CHANNELS).unsqueeze(0)]


def bend(layer):
    """Leave the start, where all hyperedges weigh the same."""
    with torch.no_grad():
        layer.weight.raw.add_(torch.linspace(-0.5, 1.5, layer.weight.raw.numel()))
    return layer


def make_layers(**kwargs):
    """A layer of each kind, with everything that may be learned of hyperedges."""
    options = {"num_hyperedges": NUM_HYPEREDGES, **kwargs}
    layers = HypergraphDiffusion(**options), HypergraphChebConv(CHANNELS, 3, **options)
    return [bend(layer) for layer in layers]


def make_inputs(*batch, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(*batch, NUM_NODES, CHANNELS, generator=generator, dtype=dtype)
    weight = 0.1 + torch.rand(NUM_HYPEREDGES, generator=generator, dtype=dtype)
    return x, INDEX, weight


def results(layer, out, x):
    """The output and all gradients."""
    layer.zero_grad()
    direction = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).sin().reshape(out.shape)
    (grad_x,) = torch.autograd.grad(out, x, direction, retain_graph=True)
    out.backward(direction, inputs=list(layer.parameters()))
    return [out, grad_x, *(parameter.grad for parameter in layer.parameters())]


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_diffuses_with_the_product_of_all_weights(normalization):
    x, index, weight = make_inputs(3)
    layer = make_layers(t=2.0, normalization=normalization)[0]
    total = weight * layer.weight()
    expected = exact(x.double(), index, total.double(), 2.0, normalization).float()
    torch.testing.assert_close(layer(x, index, weight), expected)
    plain = hypergraph_diffusion(x, index, t=2.0, normalization=normalization)
    assert not torch.allclose(expected, plain, atol=1e-2)


@pytest.mark.parametrize("t", SCALES, ids=["one", "scales", "channels"])
def test_a_batch_is_the_loop_over_its_signals(t):
    shape = (2, 3)
    for layer in make_layers(t=t, tol=1e-12):
        layer.double()
        x, *hypergraph = make_inputs(*shape, dtype=torch.float64)
        x.requires_grad_()
        loop = torch.stack([layer(each, *hypergraph) for each in x.flatten(0, -3)])
        expected = results(layer, loop.unflatten(0, shape), x)
        expected = [each.clone() for each in expected]
        actual = results(layer, layer(x, *hypergraph), x)
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", ["diffusion", "conv"])
def test_a_batch_of_hypergraphs_gives_what_they_give_apart(kind):
    layer = HypergraphDiffusion() if kind == "diffusion" else HypergraphChebConv(CHANNELS, 3)
    graphs = []
    for seed, (num_nodes, count) in enumerate([(5, 7), (9, 3), (6, 4)]):
        index = random_hypergraph(num_nodes, count, 0.6, seed=seed)
        assert index.amax(1).tolist() == [num_nodes - 1, count - 1]  # PyG counts these rightly
        graphs.append(
            HyperGraphData(
                x=torch.randn(num_nodes, CHANNELS), edge_index=index, edge_weight=torch.rand(count)
            )
        )
    apart = [layer(graph.x, graph.edge_index, graph.edge_weight) for graph in graphs]
    batch = Batch.from_data_list(graphs)
    together = layer(batch.x, batch.edge_index, batch.edge_weight)
    torch.testing.assert_close(together, torch.cat(apart), rtol=1e-5, atol=1e-5)


def test_the_last_hypergraph_is_remembered_and_a_change_is_seen():
    x, index, weight = make_inputs()
    layer, index = HypergraphDiffusion(), index.clone()
    structure = HypergraphStructure(index, NUM_NODES, NUM_HYPEREDGES)
    expected = layer(x, structure, weight)
    for _ in range(2):
        assert torch.equal(layer(x, index, weight), expected)
    index[0, 0] = (index[0, 0] + 1) % NUM_NODES
    assert not torch.allclose(layer(x, index, weight), expected)


def test_bad_calls_are_refused():
    x, index, weight = make_inputs()
    full, plain = make_layers()[0], HypergraphDiffusion()
    structure = HypergraphStructure(index, NUM_NODES)
    for call, message in [
        (lambda: full(x, HypergraphStructure(index, NUM_NODES, 6)), "hypergraph of 5 hyperedges"),
        (lambda: plain(x[:3], index), "node numbers"),
        (lambda: plain(x[:3], structure), "'x' to have 9 nodes"),
        (lambda: plain(x, index, weight[1:]), "hyperedge numbers"),
        (lambda: plain(x, structure, weight[1:]), "'hyperedge_weight' to have shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
