"""Points that stay on the disk have the neighbours that they have in memory."""

import logging

import numpy as np
import pytest
import torch

from jsem_pyg.neighbors import NeighborIndex, knn_graph, knn_search, mapped_rows, searcher


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(mapped_rows, "_BLOCK_NUMBERS", 700)


def points(num_points=600, num_features=9, dtype="float32", clusters=5):
    """Far clusters, so that links have to be found, and duplicates."""
    generator = np.random.default_rng(0)
    center = 40 * generator.normal(size=(clusters, num_features))
    x = center[generator.integers(clusters, size=num_points)]
    x = x + generator.normal(size=x.shape)
    x[10] = x[20] = x[-1]
    return x.astype(dtype)


def mapped(folder, x):
    np.save(folder / "x.npy", x)
    return np.load(folder / "x.npy", mmap_mode="r")


class Watched(np.ndarray):
    """An array that notes how much of it is read at once."""

    def __getitem__(self, index):
        out = super().__getitem__(index)
        if out.ndim == 2:
            Watched.most = max(Watched.most, out.size)
        return out


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_graph_is_that_of_a_tensor(tmp_path, metric, dtype):
    x = points(dtype=dtype)
    expected = knn_graph(torch.from_numpy(x), 4, metric, "flat")
    for source in (mapped(tmp_path, x), x, np.asfortranarray(x)):
        actual = knn_graph(source, 4, metric, "flat")
        assert torch.equal(actual[0], expected[0])
        assert actual[1].dtype == expected[1].dtype
        torch.testing.assert_close(actual[1], expected[1])


@pytest.mark.parametrize("index", ["flat", "ivf", "hnsw"])
@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_neighbours_and_their_distances(tmp_path, index, metric):
    x = points(900, 12)
    neighbor, distance = knn_search(torch.from_numpy(x), 5, metric, "flat")
    found, apart = knn_search(mapped(tmp_path, x), 5, metric, index)
    share = (apart <= distance[:, -1:] * (1 + 1e-6)).double().mean()
    assert share >= (1 if index == "flat" else 0.95)
    if index == "flat":
        torch.testing.assert_close(apart, distance)
        assert torch.equal(found, neighbor)


@pytest.mark.parametrize("index", ["flat", "ivf"])
def test_it_is_never_read_as_a_whole(index, monkeypatch, caplog):
    monkeypatch.setattr(searcher, "_CHUNK_POINTS", 16)
    monkeypatch.setattr("jsem_pyg.neighbors.points._CHUNK_NUMBERS", 500)
    monkeypatch.setattr("jsem_pyg.neighbors.ivf_search._TRAINING_POINTS", 1)
    monkeypatch.setattr(searcher, "_RECALL_SAMPLE", 60)
    monkeypatch.setattr("jsem_pyg.neighbors.component_links._BASE", 64)
    monkeypatch.setattr("jsem_pyg.neighbors.component_links._QUERIES", 64)
    monkeypatch.setattr("jsem_pyg.neighbors.component_links._BUDGET", 10**6)
    Watched.most = 0
    with caplog.at_level(logging.INFO, "jsem_pyg"):
        edges, _ = knn_graph(points(1000).view(Watched), 4, "l2", index)
    assert "Joining" in caplog.text  # of components, for which all is read as well
    assert edges.max() == 999
    assert 0 < Watched.most <= 1000


def test_new_points_find_those_on_the_disk(tmp_path):
    x = points(400)
    new = torch.from_numpy(points(30)) + 0.1
    expected, actual = (
        NeighborIndex(each, 3) for each in (torch.from_numpy(x), mapped(tmp_path, x))
    )
    assert torch.equal(actual.edge_index, expected.edge_index)
    for one, other in zip(actual.query(new), expected.query(new), strict=True):
        torch.testing.assert_close(one, other)
    assert torch.equal(actual.extend(new)[0], expected.extend(new)[0])


@pytest.mark.parametrize("num_points", [0, 1, 3])
def test_a_few_points(num_points):
    x = points(600)[:num_points]
    for one, other in zip(knn_graph(x), knn_graph(torch.from_numpy(x)), strict=True):
        assert torch.equal(one, other)


def test_a_batch_on_the_disk(tmp_path):
    x, batch = points(400), torch.arange(400) % 3
    actual = knn_graph(mapped(tmp_path, x), 3, "l2", batch=batch)
    expected = knn_graph(torch.from_numpy(x), 3, "l2", batch=batch)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_what_an_array_must_be():
    x = points()
    for value, row in ((np.nan, 7), (np.inf, 599)):
        bad = x.copy()
        bad[row, 3] = value
        with pytest.raises(ValueError, match=f"'x' to be finite .got {value} in row {row}"):
            knn_graph(bad)
    with pytest.raises(ValueError, match="'x' to have entries of 1e-15 or more"):
        knn_graph(1e-20 * x.astype("float64"), metric="l2")
    bad = x.copy()
    bad[123] = 0
    with pytest.raises(ValueError, match="'x' without zero vectors.* row 123"):
        knn_graph(bad)
    knn_graph(bad, metric="l2")
    with pytest.raises(TypeError, match="'x' to be one of float16.*int64"):
        knn_graph(np.ones((200, 3), int))
    with pytest.raises(ValueError, match=r"'x' to have shape \[N, F\]"):
        knn_graph(x[0])
