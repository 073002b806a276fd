import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.hypergraph_data import HyperGraphData

from jsem_pyg.diffusion import hypergraph_diffusion
from jsem_pyg.graph import clique_hyperedges, knn_hyperedges
from jsem_pyg.nn import HypergraphDiffusion
from jsem_pyg.testing import random_graph
from jsem_pyg.transforms import (
    CliqueHyperedges,
    ClusterHyperedges,
    DualHypergraph,
    KNNHyperedges,
)

ALL = [KNNHyperedges(k=3), CliqueHyperedges(), ClusterHyperedges(3), DualHypergraph()]


def make_data(num_nodes=12, seed=0):
    edge_index, weight = random_graph(num_nodes, 0.4, seed=seed, dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(num_nodes, 4, generator=generator),
        y=torch.arange(num_nodes),
        edge_index=edge_index,
        edge_weight=weight,
        edge_attr=torch.randn(edge_index.size(1), 2, generator=generator),
    )


def test_positions_are_compared_by_their_distance():
    pos = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(KNNHyperedges(3)(Data(pos=pos)).edge_index, knn_hyperedges(pos, 3, "l2"))
    assert torch.equal(KNNHyperedges(3)(Data(x=pos)).edge_index, knn_hyperedges(pos, 3, "cosine"))


@pytest.mark.parametrize("transform", ALL[:3], ids=repr)
def test_nodes_stay_and_edges_are_replaced(transform):
    data = make_data()
    out = transform(data)
    assert isinstance(out, HyperGraphData)
    assert set(out.keys()) == {"x", "y", "edge_index", "num_hyperedges"}
    assert torch.equal(out.x, data.x)
    assert out.num_hyperedges == int(out.edge_index[1].max()) + 1
    assert data.edge_attr is not None  # the input is left alone


def test_they_are_thin_wrappers():
    data = make_data()
    expected = knn_hyperedges(data.x, 3, "l2")
    assert torch.equal(KNNHyperedges(k=3, metric="l2")(data).edge_index, expected)
    expected = clique_hyperedges(data.edge_index, 12, 4)
    assert torch.equal(CliqueHyperedges(4)(data).edge_index, expected)


def test_clusters_are_those_of_k_means():
    x = torch.cat([torch.zeros(3, 2), 9 * torch.ones(4, 2)]) + 0.1 * torch.randn(7, 2)
    hyperedge = ClusterHyperedges(2)(Data(x=x)).edge_index[1]
    assert hyperedge.tolist() in ([0] * 3 + [1] * 4, [1] * 3 + [0] * 4)


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_the_layer_reads_what_they_write_alone_and_in_a_batch(transform):
    layer = HypergraphDiffusion(t=2.0)
    graphs = [transform(make_data(seed=seed)) for seed in range(3)]
    apart = torch.cat([layer(graph.x, graph) for graph in graphs])
    batch = Batch.from_data_list(graphs)
    torch.testing.assert_close(layer(batch.x, batch), apart)


def test_the_dual_of_a_graph_diffuses_edge_features_like_single_edges():
    data = make_data()
    dual = DualHypergraph()(data)
    assert torch.equal(dual.x, data.edge_attr)
    assert torch.equal(dual.edge_attr, data.x)
    once = data.edge_index[0] < data.edge_index[1]
    low = data.edge_index.min(0).values * 12 + data.edge_index.max(0).values
    by_key = {int(k): row for k, row in zip(low[once], data.edge_attr[once], strict=True)}
    symmetric = torch.stack([by_key[int(k)] for k in low])
    both = hypergraph_diffusion(symmetric, dual)
    single = Data(x=data.x, edge_index=data.edge_index[:, once], edge_attr=data.edge_attr[once])
    single_dual = DualHypergraph()(single)
    expected = hypergraph_diffusion(single_dual.x, single_dual)
    torch.testing.assert_close(both[once], expected)


def test_the_dual_of_a_hypergraph_is_an_involution_and_keeps_empty_hyperedges():
    index = torch.tensor([[0, 1, 2, 2], [0, 0, 0, 1]])
    data = HyperGraphData(x=torch.randn(5, 2), edge_index=index, edge_attr=torch.randn(4, 3))
    dual = DualHypergraph()(data)
    assert dual.num_hyperedges == 5
    assert hypergraph_diffusion(dual.x, dual).shape == (4, 3)
    again = DualHypergraph()(dual)
    for key in ("x", "edge_index", "edge_attr"):
        assert torch.equal(again[key], data[key])


def test_the_dual_without_features():
    dual = DualHypergraph()(Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3))
    assert (dual.num_nodes, dual.num_hyperedges) == (2, 3)
    dual = DualHypergraph()(
        Data(edge_index=torch.tensor([[0], [1]]), edge_attr=torch.ones(1), num_nodes=2)
    )
    assert dual.x.shape == (1, 1)


@pytest.mark.parametrize("transform", ALL, ids=repr)
def test_bad_data_are_refused(transform):
    with pytest.raises(TypeError, match="'data' to be a torch_geometric.data.Data"):
        transform(HeteroData())
    with pytest.raises(ValueError, match="single graph .got a mini-batch.*To fix this"):
        transform(Batch.from_data_list([make_data()]))


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="'k' to be a positive"):
        KNNHyperedges(0)
    with pytest.raises(ValueError, match="'metric' to be one of"):
        KNNHyperedges(metric="l1")
    with pytest.raises(ValueError, match="'num_clusters' to be a positive"):
        ClusterHyperedges(0)
    with pytest.raises(ValueError, match="'num_clusters' to be at most"):
        ClusterHyperedges(13)(make_data())
    with pytest.raises(ValueError, match="'size' to be at least 2"):
        CliqueHyperedges(1)(make_data())
    for transform in (CliqueHyperedges(), DualHypergraph()):
        with pytest.raises(ValueError, match="to have an 'edge_index'"):
            transform(Data(x=torch.ones(3, 1)))
    with pytest.raises(ValueError, match="points in 'x' or 'pos'"):
        KNNHyperedges()(Data(num_nodes=3))


def test_repr():
    assert [repr(each) for each in ALL] == [
        "KNNHyperedges(k=3, metric='auto')",
        "CliqueHyperedges(size=3)",
        "ClusterHyperedges(num_clusters=3, seed=0)",
        "DualHypergraph()",
    ]


def test_the_dual_of_as_many_hyperedges_as_nodes():
    # PyG counts the members alone there, so that a node in no hyperedge is lost.
    data = HyperGraphData(x=torch.zeros(3, 2), edge_index=torch.tensor([[0, 1, 1], [0, 1, 2]]))
    assert DualHypergraph()(data).edge_index.tolist() == [[0, 1, 2], [0, 1, 1]]
    again = DualHypergraph()(KNNHyperedges(3)(Data(x=torch.rand(20, 3))))
    assert again.edge_index[0].max() == 19
