import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transforms import FaissKNNGraph


def points(n, seed=0):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_writes_the_edges_of_knn_graph_and_leaves_its_input_alone(dtype):
    data = Data(
        x=points(20).to(dtype), edge_index=torch.tensor([[0], [1]]), edge_attr=torch.ones(1)
    )
    options = {"k": 3, "metric": "l2", "kernel": "self_tuning", "symmetrize": "mean"}
    result = FaissKNNGraph(**options, connect=False)(data)
    edge_index, edge_weight = knn_graph(data.x, **options, connect=False)
    assert torch.equal(result.edge_index, edge_index)
    assert torch.equal(result.edge_weight, edge_weight)
    assert result.edge_weight.dtype == dtype
    assert result.edge_attr is None
    assert data.edge_index.tolist() == [[0], [1]]
    assert data.edge_attr.tolist() == [1.0]
    assert "edge_weight" not in data


def true_neighbor_share(pos, edge_index, k):
    """The share of edges that join one of their ends to one of its k nearest points."""
    distance = torch.cdist(pos, pos).fill_diagonal_(torch.inf)
    nearest = torch.zeros_like(distance).scatter(1, distance.topk(k, largest=False).indices, 1)
    return float(torch.maximum(nearest, nearest.T)[tuple(edge_index)].mean())


def test_positions_are_compared_by_their_distance():
    pos = torch.rand(300, 3, generator=torch.Generator().manual_seed(0))
    of_pos = FaissKNNGraph(k=5, connect=False)(Data(pos=pos))
    assert true_neighbor_share(pos, of_pos.edge_index, 5) == 1
    assert torch.equal(of_pos.edge_index, knn_graph(pos, 5, "l2", connect=False)[0])
    chosen = FaissKNNGraph(k=5, metric="cosine", connect=False)(Data(pos=pos))
    assert true_neighbor_share(pos, chosen.edge_index, 5) < 0.5
    of_x = FaissKNNGraph(k=5, connect=False)(Data(x=pos))  # which may be positions as well
    assert torch.equal(of_x.edge_index, of_pos.edge_index)
    kernel = FaissKNNGraph(k=5, kernel="cosine", connect=False)(Data(pos=pos))
    assert torch.equal(kernel.edge_index, chosen.edge_index)


def test_a_batch_gives_what_its_graphs_give():
    graphs = [Data(x=points(n, seed=n), edge_index=torch.tensor([[0], [1]])) for n in (5, 9, 7)]
    batch = Batch.from_data_list(graphs)
    result = FaissKNNGraph(k=3)(batch)
    assert torch.equal(result.batch[result.edge_index[0]], result.batch[result.edge_index[1]])
    for got, graph in zip(result.to_data_list(), graphs, strict=True):
        expected = FaissKNNGraph(k=3)(graph)
        assert torch.equal(got.edge_index, expected.edge_index)
        assert torch.equal(got.edge_weight, expected.edge_weight)
    for got, graph in zip(batch.to_data_list(), graphs, strict=True):
        assert torch.equal(got.edge_index, graph.edge_index)
    starts = result._slice_dict["edge_index"].tolist()  # as PyG keeps them
    widths = [each.num_edges for each in result.to_data_list()]
    assert starts == torch.tensor([0, *widths]).cumsum(0).tolist()


def test_refuses_data():
    with pytest.raises(ValueError, match=r"points in 'x' or 'pos' \(got neither\)"):
        FaissKNNGraph()(Data(num_nodes=3))
    with pytest.raises(
        TypeError, match=r"'data' to be a torch_geometric.data.Data \(got HeteroData\)"
    ):
        FaissKNNGraph()(HeteroData())
