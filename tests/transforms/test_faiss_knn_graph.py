import pytest
import torch
from torch.utils.data import IterDataPipe
from torch_geometric.data import Batch, Data, HeteroData

from jsem_pyg.graph import knn_graph
from jsem_pyg.transforms import FaissKNNGraph


def points(n, seed=0):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))


def test_repr_and_functional_name():
    transform = FaissKNNGraph(k=4, kernel=None)
    assert repr(transform) == (
        "FaissKNNGraph(k=4, metric='cosine', index='auto', kernel=None, symmetrize='max', "
        "connect=True)"
    )
    assert "faiss_knn_graph" in IterDataPipe.functions


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


def test_pos_where_there_is_no_x():
    from_pos = FaissKNNGraph(k=3)(Data(pos=points(9)))
    from_x = FaissKNNGraph(k=3)(Data(x=points(9), pos=points(9, seed=1)))
    assert torch.equal(from_pos.edge_index, from_x.edge_index)


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


def test_interleaved_graphs_of_a_batch():
    data = Data(x=points(12), batch=torch.arange(12) % 2)
    result = FaissKNNGraph(k=2)(data)
    row, col = result.edge_index
    assert ((row - col) % 2 == 0).all()
    assert ((row * 12 + col).diff() > 0).all()


def test_a_batch_without_nodes():
    result = FaissKNNGraph(k=2)(Data(x=points(0), batch=torch.empty(0, dtype=torch.int64)))
    assert result.edge_index.shape == (2, 0)
    assert result.edge_weight.shape == (0,)


def test_refuses_at_construction():
    with pytest.raises(ValueError, match="'k' to be a positive integer"):
        FaissKNNGraph(k=0)
    with pytest.raises(ValueError, match="'auto' or 'flat'"):
        FaissKNNGraph(index="hnsw")
    with pytest.raises(ValueError, match="metric='cosine' for kernel='cosine'"):
        FaissKNNGraph(metric="l2", kernel="cosine")


def test_refuses_data():
    with pytest.raises(ValueError, match=r"points in 'x' or 'pos' \(got neither\)"):
        FaissKNNGraph()(Data(num_nodes=3))
    with pytest.raises(TypeError, match=r"Data with one kind .* \(got HeteroData\)"):
        FaissKNNGraph()(HeteroData())
    batch = Batch.from_data_list([Data(x=points(5)), Data(x=points(3))])
    with pytest.raises(ValueError, match=r"In graph 1 of the batch: .* \(got k=4 for 3 points"):
        FaissKNNGraph(k=4)(batch)
