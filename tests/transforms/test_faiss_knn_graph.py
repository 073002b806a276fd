import pytest
import torch
from torch.utils.data import IterDataPipe
from torch_geometric.data import Batch, Data, HeteroData

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature


def points(n, seed=0):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))


def test_repr_and_functional_name():
    transform = FaissKNNGraph(k=4, kernel=None)
    assert repr(transform) == (
        "FaissKNNGraph(k=4, metric='auto', index='auto', kernel=None, symmetrize='max', "
        "connect=True, recall_target=0.95)"
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
    kernel = FaissKNNGraph(k=5, kernel="cosine", connect=False)(Data(pos=pos))
    assert torch.equal(kernel.edge_index, chosen.edge_index)


def test_features_are_compared_by_their_cosine_and_go_before_positions():
    data = FaissKNNGraph(k=3)(Data(x=points(9), pos=points(9, seed=1)))
    assert torch.equal(data.edge_index, knn_graph(points(9), 3, "cosine")[0])


def test_says_once_what_was_taken(caplog):
    caplog.set_level("INFO")
    transform = FaissKNNGraph(k=3)
    for _ in range(2):
        transform(Data(pos=points(9)))
        transform(Data(x=points(9)))
    said = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    taken = [("pos", "l2"), ("x", "cosine")]
    assert said == [f"Neighbours of data.{name}, metric={metric!r}." for name, metric in taken]


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


@pytest.mark.parametrize("symmetrize", ["max", "mean", "mutual"])
@pytest.mark.parametrize("kernel", ["gaussian", "self_tuning", "cosine", None])
def test_small_graphs_of_a_batch_are_complete(kernel, symmetrize, caplog):
    graphs = [Data(x=points(n, seed=n)) for n in (1, 9, 2, 3, 1)]
    transform = FaissKNNGraph(k=4, kernel=kernel, symmetrize=symmetrize)
    result = transform(Batch.from_data_list(graphs))
    assert "4 of 5 graphs" in caplog.text
    assert [graph.num_edges for graph in result.to_data_list()[::2]] == [0, 2, 0]
    for got, graph in zip(result.to_data_list(), graphs, strict=True):
        expected = transform(graph)
        assert torch.equal(got.edge_index, expected.edge_index)
        assert torch.equal(got.edge_weight, expected.edge_weight)
        assert got.is_undirected()


def test_fitting_few_points():
    transform = FaissKNNGraph(k=4).fit(Data(x=points(3)))
    assert transform.graph.num_edges == 6
    assert transform.extend(points(2, seed=1)).num_edges == 6 + 2 * 2 * 3


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
    with pytest.raises(ValueError, match=r"'recall_target' to be in \(0, 1\]"):
        FaissKNNGraph(recall_target=1.5)
    with pytest.raises(ValueError, match="metric='cosine' for kernel='cosine'"):
        FaissKNNGraph(metric="l2", kernel="cosine")


def test_refuses_data():
    with pytest.raises(ValueError, match=r"points in 'x' or 'pos' \(got neither\)"):
        FaissKNNGraph()(Data(num_nodes=3))
    with pytest.raises(TypeError, match=r"Data with one kind .* \(got HeteroData\)"):
        FaissKNNGraph()(HeteroData())


def fitted(**options):
    data = Data(
        x=points(30),
        y=torch.arange(30) % 3,
        train_mask=torch.arange(30) < 5,
        edge_attr=torch.ones(4, 1),
        name="old",
    )
    return FaissKNNGraph(k=4, **options).fit(data), data


def test_fitting_remembers_the_graph_and_changes_nothing():
    transform, data = fitted()
    expected = FaissKNNGraph(k=4)(data)
    assert torch.equal(transform.graph.edge_index, expected.edge_index)
    assert torch.equal(transform.graph.edge_weight, expected.edge_weight)
    assert transform.graph.edge_attr is None
    assert "edge_index" not in data
    other = transform(Data(x=points(9)))  # a transform all the same, and a stateless one
    assert torch.equal(other.edge_index, knn_graph(points(9), 4)[0])
    assert transform.graph.num_nodes == 30


@pytest.mark.parametrize("kernel", ["gaussian", "self_tuning", "cosine", None])
def test_extending_keeps_the_old_graph_and_marks_the_new_nodes(kernel):
    transform, _ = fitted(kernel=kernel)
    new = Data(x=points(7, seed=1), y=torch.ones(7, dtype=torch.int64), name="new")
    data = transform.extend(new)
    assert data.num_nodes == 37
    assert data.is_new.nonzero()[:, 0].tolist() == list(range(30, 37))
    old = (data.edge_index < 30).all(dim=0)
    assert torch.equal(data.edge_index[:, old], transform.graph.edge_index)
    assert torch.equal(data.edge_weight[old], transform.graph.edge_weight)
    assert torch.equal(data.x, torch.cat([points(30), new.x]))
    assert torch.equal(data.y, torch.cat([torch.arange(30) % 3, new.y]))
    assert "train_mask" not in data  # unknown of the new nodes
    assert data.name == "old"
    assert data.edge_index[0].bincount()[30:].tolist() == [4] * 7
    assert transform.graph.num_nodes == 30
    assert FormanCurvature()(data).edge_attr.isfinite().all()


def test_what_was_fitted_stays_whatever_becomes_of_the_data():
    transform, data = fitted()
    known = transform.extend(points(7, seed=1))
    for tensor in (data.x, transform.graph.x, transform.graph.edge_weight):
        tensor.mul_(-2)
    transform.graph.edge_index.zero_()
    again = transform.extend(points(7, seed=1))
    for name in ("x", "edge_index", "edge_weight"):
        assert torch.equal(again[name], known[name])


def test_what_only_one_side_has_as_a_tensor_is_left_out():
    transform = FaissKNNGraph(k=4).fit(Data(x=points(30), title=["old"] * 30, note=torch.ones(30)))
    new = Data(x=points(7, seed=1), title=torch.ones(7), note=["new"] * 7)
    assert sorted(transform.extend(new).keys()) == ["edge_index", "edge_weight", "is_new", "x"]


def test_extending_by_points_alone():
    transform, _ = fitted()
    data = transform.extend(points(7, seed=1))
    assert sorted(data.keys()) == ["edge_index", "edge_weight", "is_new", "name", "x"]
    neighbor, _ = transform.query(points(7, seed=1))
    assert neighbor.shape == (7, 4)
    new = data.edge_index[0] >= 30
    assert torch.equal(data.edge_index[1, new], neighbor.sort(dim=1).values.flatten())


def test_pos_is_extended_by_pos():
    transform = FaissKNNGraph(k=3).fit(Data(pos=points(20), num_nodes=20))
    data = transform.extend(Data(pos=points(2, seed=1)))
    assert data.pos.shape == (22, 3)
    assert data.num_nodes == 22
    with pytest.raises(ValueError, match="'new' to have points in 'pos'"):
        transform.extend(Data(x=points(2)))


def test_refuses_what_does_not_extend():
    transform, _ = fitted()
    batch = Batch.from_data_list([Data(x=points(9))])
    for method in ("query", "extend"):
        with pytest.raises(RuntimeError, match=r"to be fitted. To fix this, call fit\(data\)"):
            getattr(FaissKNNGraph(), method)(points(3))
    with pytest.raises(RuntimeError, match="to be fitted"):
        _ = FaissKNNGraph().graph
    with pytest.raises(ValueError, match="single graph .got a 'batch' vector"):
        FaissKNNGraph(k=3).fit(batch)
    with pytest.raises(ValueError, match="single graph .got a 'batch' vector"):
        transform.extend(batch)
    with pytest.raises(ValueError, match="columns of the fitted points"):
        transform.extend(torch.ones(2, 5))
    with pytest.raises(ValueError, match="finite"):
        transform.extend(torch.full((2, 3), torch.nan))
    with pytest.raises(TypeError, match="as the fitted points"):
        transform.extend(points(2).double())
    with pytest.raises(ValueError, match=r"'y' of the new nodes .*int64 of shape \[2\].*float32"):
        transform.extend(Data(x=points(2), y=torch.ones(2)))
    with pytest.raises(TypeError, match="got HeteroData"):
        transform.fit(HeteroData())


@pytest.mark.parametrize(("columns", "metric", "warns"), [(2, "auto", True), (4, "auto", False)])
def test_two_or_three_columns_under_the_cosine_are_warned_of(columns, metric, warns, caplog):
    x = torch.randn(20, columns, generator=torch.Generator().manual_seed(0))
    with caplog.at_level("WARNING"):
        FaissKNNGraph(3, metric=metric)(Data(x=x))
    assert ("pass metric='l2'" in caplog.text) == warns
    caplog.clear()
    FaissKNNGraph(3, metric="l2")(Data(x=x))
    assert not caplog.text
