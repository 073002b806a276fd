"""The recipes of the README: what PyG's loaders give, and dropped edges, are graphs for a layer."""

import pytest
import torch
from layer_cases import bend, call
from torch_geometric.data import Data
from torch_geometric.loader import (
    ClusterData,
    ClusterLoader,
    DataLoader,
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    NeighborLoader,
    RandomNodeLoader,
)
from torch_geometric.transforms import ToUndirected
from torch_geometric.utils import dropout_edge, to_dense_adj

from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature

# PyG itself says that sampling by torch-sparse is on its way out.
pytestmark = pytest.mark.filterwarnings("ignore:Using '.*' without a 'pyg-lib' installation")


def make_data(num_nodes=120, seed=0):
    x = torch.randn(num_nodes, 4, generator=torch.Generator().manual_seed(seed))
    data = Data(x=x, node=torch.arange(num_nodes))
    return FormanCurvature()(FaissKNNGraph(k=4)(data))


def make_layer():
    return bend(AnisotropicDiffusion(t=2.0))


def assert_a_part_diffuses(batch, data):
    """A part has edges of the graph, both ways, with their own values, and a layer takes it."""
    assert batch.num_edges > 0
    assert batch.is_undirected()
    position = torch.full((data.num_nodes, data.num_nodes), -1)
    position[tuple(data.edge_index)] = torch.arange(data.num_edges)
    edge = position[tuple(batch.node[batch.edge_index])]
    assert (edge >= 0).all()
    assert torch.equal(batch.edge_weight, data.edge_weight[edge])
    assert torch.equal(batch.edge_attr, data.edge_attr[edge])
    layer = make_layer()
    call(layer, batch).square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


LOADERS = {
    "neighbours": lambda data: NeighborLoader(
        data, [4, 3], subgraph_type="bidirectional", batch_size=16
    ),
    "neighbours, then both directions": lambda data: NeighborLoader(
        data, [2, 1], batch_size=16, transform=ToUndirected(reduce="max")
    ),
    "clusters": lambda data: ClusterLoader(ClusterData(data, num_parts=6, log=False), batch_size=2),
    "GraphSAINT, nodes": lambda data: GraphSAINTNodeSampler(
        data, batch_size=60, num_steps=3, sample_coverage=0, log=False
    ),
    "GraphSAINT, walks": lambda data: GraphSAINTRandomWalkSampler(
        data, batch_size=20, walk_length=3, num_steps=3, sample_coverage=0, log=False
    ),
    "random nodes": lambda data: RandomNodeLoader(data, num_parts=4, shuffle=True),
}


WITHOUT_TORCH_SPARSE = ["random nodes"]


@pytest.mark.parametrize(
    "name",
    [
        name if name in WITHOUT_TORCH_SPARSE else pytest.param(name, marks=pytest.mark.sparse)
        for name in LOADERS
    ],
)
def test_every_part_that_a_loader_gives_diffuses(name):
    data = make_data()
    try:
        loader = LOADERS[name](data)
    except ImportError as error:  # torch-sparse may be compiled without METIS; PyG names what lacks
        pytest.skip(str(error))
    for batch in loader:
        assert_a_part_diffuses(batch, data)


@pytest.mark.sparse  # PyG samples neighbours by it
def test_all_neighbors_give_what_the_whole_graph_gives():
    data, layer = make_data(), make_layer()
    hops = [-1] * 40  # no node of this graph is farther from another
    loader = NeighborLoader(data, hops, subgraph_type="bidirectional", batch_size=16)
    expected = call(layer, data)
    for batch in loader:
        assert batch.num_nodes == data.num_nodes
        torch.testing.assert_close(call(layer, batch), expected[batch.node])


@pytest.mark.sparse  # PyG samples neighbours by it
def test_edges_of_one_direction_are_refused_with_what_mends_them():
    data = make_data()
    batch = next(iter(NeighborLoader(data, [4, 3], batch_size=16)))
    with pytest.raises(ValueError, match="undirected.*subgraph_type='bidirectional'"):
        call(make_layer(), batch)


def test_batches_of_graphs_diffuse_as_the_graphs_do():
    graphs, layer = [make_data(n, seed=n) for n in (1, 9, 3, 30)], make_layer()
    for batch in DataLoader(graphs, batch_size=4):
        expected = torch.cat([call(layer, graph) for graph in graphs])
        torch.testing.assert_close(call(layer, batch), expected)


def test_dropped_edges():
    data, layer = make_data(), make_layer()
    torch.manual_seed(0)
    edge_index, kept = dropout_edge(data.edge_index, p=0.2, force_undirected=True)
    assert 0 < kept.numel() < data.num_edges
    out = layer(data.x, edge_index, data.edge_weight[kept], data.edge_attr[kept])
    is_open = to_dense_adj(edge_index, max_num_nodes=data.num_nodes)[0][tuple(data.edge_index)]
    closed = is_open * data.edge_weight
    torch.testing.assert_close(out, layer(data.x, data.edge_index, closed, data.edge_attr))
    same, kept = dropout_edge(data.edge_index, p=0.2, force_undirected=True, training=False)
    assert torch.equal(same, data.edge_index)
    assert torch.equal(data.edge_weight[kept], data.edge_weight)
