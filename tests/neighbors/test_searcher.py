import logging

import pytest
import torch

from jsem_pyg.neighbors import faiss_search, knn_graph, knn_search
from jsem_pyg.neighbors import searcher as module
from jsem_pyg.neighbors.points import prepare_points
from jsem_pyg.neighbors.searcher import Searcher, SearchOptions, choose_index


def clustered(n=3000, dim=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    center = 4 * torch.randn(20, dim, generator=generator)
    label = torch.randint(20, (n,), generator=generator)
    return center[label] + torch.randn(n, dim, generator=generator)


@pytest.mark.parametrize("k", [1, 9, 200])
@pytest.mark.parametrize("num_queries", [1, 7, 300])  # Faiss has ways of its own for few
def test_faiss_finds_the_nearest(k, num_queries):
    base, query = clustered(200), clustered(num_queries, seed=1)
    distance = (query[:, None] - base[None]).norm(dim=2)
    expected = distance.topk(k, largest=False).values
    squared, found = faiss_search.faiss_nearest(query, base, k)
    torch.testing.assert_close(distance.gather(1, found), expected)
    torch.testing.assert_close(squared.sqrt(), expected, rtol=1e-3, atol=1e-3)


def share_found(x, k, neighbor, metric):
    """The share of neighbours that are no farther than the true k-th."""
    points = prepare_points(x, metric)
    last = knn_search(x, k, metric, "flat")[1][:, -1:]
    everyone = torch.arange(x.size(0)).repeat_interleave(neighbor.size(1))
    found = points.distance(everyone, neighbor.flatten()).view_as(neighbor)
    return float((found <= last).double().mean())


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("index", ["hnsw", "ivf"])
def test_approximate_neighbors_reach_the_target(index, metric, caplog):
    x = clustered()
    with caplog.at_level(logging.INFO, logger="jsem_pyg"):
        neighbor, distance = knn_search(x, 10, metric, index, recall_target=0.9)
    assert f"Recall of index={index!r} on a sample of 1000 points" in caplog.text
    assert "WARNING" not in caplog.text
    assert share_found(x, 10, neighbor, metric) >= 0.9
    assert (distance.diff(dim=1) >= 0).all()
    assert not (neighbor == torch.arange(3000)[:, None]).any()
    assert all(row.unique().numel() == 10 for row in neighbor)


def test_a_higher_target_takes_more_effort():
    x = torch.randn(3000, 16, generator=torch.Generator().manual_seed(0))
    points = prepare_points(x, "l2")
    effort = [
        Searcher(points, 10, SearchOptions("ivf", target, progress=False)).index.effort
        for target in (0.2, 0.95, 1.0)
    ]
    assert effort[0] < effort[1] < effort[2]


def test_a_target_of_one_is_the_exact_search():
    x = clustered(1000)
    neighbor, distance = knn_search(x, 5, "l2", "ivf", recall_target=1.0)
    assert share_found(x, 5, neighbor, "l2") == 1
    assert torch.equal(distance, knn_search(x, 5, "l2")[1])


def test_a_missed_target_is_a_warning(caplog, monkeypatch):
    monkeypatch.setattr("jsem_pyg.neighbors.faiss_search._MOST_CANDIDATES", 32)
    monkeypatch.setattr("jsem_pyg.neighbors.faiss_search._HNSW_LINKS", 2)
    monkeypatch.setattr("jsem_pyg.neighbors.faiss_search._HNSW_BREADTH", 4)
    x = clustered()
    with caplog.at_level(logging.INFO, logger="jsem_pyg"):
        neighbor, _ = knn_search(x, 10, "l2", "hnsw")
    (record,) = [each for each in caplog.records if "Recall" in each.message]
    assert record.levelname == "WARNING"
    assert "missed; to fix this, use index='ivf' or 'flat'" in record.message
    assert neighbor.shape == (3000, 10)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("index", ["hnsw", "ivf"])
def test_many_duplicates_leave_no_gap(index, metric):
    x = clustered(900)
    x[100:600] = x[100].clone()
    neighbor, distance = knn_search(x, 12, metric, index)
    assert not (neighbor == torch.arange(900)[:, None]).any()
    assert all(row.unique().numel() == 12 for row in neighbor)
    assert ((neighbor >= 0) & (neighbor < 900)).all()
    assert distance.isfinite().all()
    assert (distance[100:600] == 0).all()
    edge_index, edge_weight = knn_graph(x, 12, metric, index)
    assert ((edge_weight > 0) & (edge_weight <= 1)).all()
    assert edge_index[0].bincount(minlength=900).min() >= 12


def test_points_that_are_all_equal_have_neighbors():
    for index in ("hnsw", "ivf"):
        neighbor, distance = knn_search(torch.ones(300, 4), 20, "l2", index)
        assert all(row.unique().numel() == 20 for row in neighbor)
        assert (distance == 0).all()


def test_the_same_seed_gives_the_same_neighbors():
    x = clustered()
    first, again, other = (
        knn_search(x, 8, index="ivf", recall_target=0.5, seed=seed)[0] for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_auto_is_exact_up_to_the_limit(monkeypatch):
    points = prepare_points(clustered(500), "l2")
    assert choose_index(points, "auto") == "flat"
    monkeypatch.setattr(module, "EXACT_LIMIT", 499)
    assert choose_index(points, "auto") == "ivf"
    assert choose_index(points, "flat") == "flat"
    small = prepare_points(clustered(100), "l2")
    assert choose_index(small, "hnsw") == "flat"


def test_gpus_of_faiss_are_used(monkeypatch):
    """What is asked of a Faiss with GPUs, which this machine need not have."""
    import faiss

    asked = []

    def to_gpu(index, ngpu):
        asked.append("index")
        return index

    def knn_gpu(resources, query, base, k):
        asked.append("knn")
        return faiss.knn(query, base, k)

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1)
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_all_gpus", to_gpu, raising=False)
    monkeypatch.setattr(faiss, "knn_gpu", knn_gpu, raising=False)
    x = clustered(500)
    gpu = knn_search(x, 5, "l2", "ivf")[0]
    assert set(asked) == {"index", "knn"}
    monkeypatch.undo()
    faiss_search._gpu_resources.cache_clear()
    assert torch.equal(gpu, knn_search(x, 5, "l2", "ivf")[0])
