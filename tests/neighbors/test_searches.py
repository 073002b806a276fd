"""Every search of the table against comparing all pairs in float64, and how one is chosen."""

import logging

import pytest
import torch

from jsem_pyg.neighbors import flat_search, hnsw_search, knn_graph, knn_search
from jsem_pyg.neighbors.points import prepare_points
from jsem_pyg.neighbors.searcher import choose_search
from jsem_pyg.neighbors.searches import SEARCHES

APPROXIMATE = [word for word, search in SEARCHES.items() if not search.is_exact]


def clustered(n=900, dim=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    center = 4 * torch.randn(20, dim, generator=generator)
    label = torch.randint(20, (n,), generator=generator)
    return center[label] + torch.randn(n, dim, generator=generator)


def all_distances(x, metric):
    x = x.double()
    if metric == "cosine":
        x = x / x.norm(dim=1, keepdim=True)
    apart = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").fill_diagonal_(torch.inf)
    return apart.square() / 2 if metric == "cosine" else apart


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("index", SEARCHES)
def test_finds_the_nearest_and_their_true_distances(index, dtype, metric):
    x = clustered(dim=5).to(dtype) + 1
    x[100:140] = x[:40]  # duplicates
    neighbor, distance = knn_search(x, 7, metric, index)
    true = all_distances(x, metric)
    near = {"rtol": 1e-5 if metric == "l2" else 1e-3, "atol": 1e-6}
    torch.testing.assert_close(distance, true.gather(1, neighbor).to(dtype), **near)
    assert (distance.diff(dim=1) >= 0).all()
    assert all(row.unique().numel() == 7 for row in neighbor)
    nearest = true.sort(dim=1).values[:, :7]
    if SEARCHES[index].is_exact:
        torch.testing.assert_close(distance.double(), nearest, **near)
    else:
        assert float((distance <= nearest[:, -1:] + 1e-6).double().mean()) >= 0.95


@pytest.mark.parametrize("index", SEARCHES)
def test_many_duplicates_leave_no_gap(index):
    x = clustered()
    x[100:600] = x[100].clone()
    neighbor, distance = knn_search(x, 12, "l2", index)
    assert not (neighbor == torch.arange(900)[:, None]).any()
    assert all(row.unique().numel() == 12 for row in neighbor)
    assert ((neighbor >= 0) & (neighbor < 900)).all()
    assert (distance[100:600] == 0).all()
    assert (distance[600:] > 0).all()
    edge_index, edge_weight = knn_graph(x, 12, "l2", index)
    assert ((edge_weight > 0) & (edge_weight <= 1)).all()
    assert edge_index[0].bincount(minlength=900).min() >= 12


@pytest.mark.parametrize("index", ["tree", "flat", "ivf"])
def test_points_far_from_the_origin(index):
    """Of so many columns that Faiss expands the squares of distances."""
    x = torch.randn(900, 150, generator=torch.Generator().manual_seed(0)).double() + 1e6
    _, distance = knn_search(x, 7, "l2", index, recall_target=1.0)
    nearest = all_distances(x, "l2").sort(dim=1).values[:, :7]
    torch.testing.assert_close(distance, nearest)


def test_what_an_approximate_search_misses_is_searched_for():
    x = clustered()
    neighbor, distance = knn_search(x, 300, "l2", "ivf", recall_target=0.01)  # in four small cells
    assert all(row.unique().numel() == 300 for row in neighbor)
    true = all_distances(x, "l2").gather(1, neighbor).float()
    torch.testing.assert_close(distance, true, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("index", SEARCHES)
def test_points_that_are_all_equal_have_neighbors(index):
    neighbor, distance = knn_search(torch.ones(300, 4), 20, "l2", index)
    assert all(row.unique().numel() == 20 for row in neighbor)
    assert (distance == 0).all()


@pytest.mark.parametrize("index", APPROXIMATE)
def test_the_recall_that_was_reached_is_logged(index, caplog):
    with caplog.at_level(logging.INFO, logger="jsem_pyg"):
        knn_search(clustered(), 10, "l2", index, recall_target=0.9)
    assert f"Recall of index={index!r} on a sample of 900 points" in caplog.text
    assert "WARNING" not in caplog.text


def test_a_missed_target_is_a_warning(caplog, monkeypatch):
    for name, value in {"_MOST_CANDIDATES": 32, "_LINKS": 2, "_BREADTH": 4}.items():
        monkeypatch.setattr(hnsw_search, name, value)
    neighbor, _ = knn_search(clustered(), 10, "l2", "hnsw")
    (record,) = [each for each in caplog.records if "Recall" in each.message]
    assert record.levelname == "WARNING"
    assert neighbor.shape == (900, 10)


def test_a_higher_target_finds_more():
    x = torch.randn(2000, 16, generator=torch.Generator().manual_seed(0))
    longest = all_distances(x, "l2").sort(dim=1).values[:, 9:10] * (1 + 1e-6)
    recall = [
        (knn_search(x, 10, "l2", "ivf", recall_target=target)[1] <= longest).double().mean()
        for target in (0.2, 0.95, 1.0)
    ]
    assert recall[0] < recall[1] < recall[2] == 1


def test_the_seed_decides():
    x = torch.randn(900, 16, generator=torch.Generator().manual_seed(0))
    first, again, other = (
        knn_search(x, 8, index="ivf", recall_target=0.2, seed=seed)[0] for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_what_auto_takes(monkeypatch):
    points = prepare_points(clustered(500), "l2")
    assert choose_search(points, "auto") == "flat"
    assert choose_search(points, "hnsw") == "hnsw"
    assert choose_search(prepare_points(clustered(2500, 6), "l2"), "auto") == "tree"
    assert choose_search(prepare_points(clustered(2500, 7), "l2"), "auto") == "flat"
    assert choose_search(prepare_points(clustered(2500, 6).numpy(), "l2"), "auto") == "flat"
    assert choose_search(prepare_points(clustered(100), "l2"), "hnsw") == "flat"
    monkeypatch.setattr(flat_search, "EXACT_LIMIT", 499)
    assert choose_search(points, "auto") == "ivf"
