"""Files are written whole or not at all: that of a clusterer, and the target of a diffusion."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch

from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.partition import diffuse_file

X = np.eye(6)[np.arange(40) % 2] + 0.1 * np.random.default_rng(0).normal(size=(40, 6))


@pytest.fixture(scope="module")
def clusterer():
    return DiffusionClusterer(2, n_neighbors=5, t=1.0).fit(X)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def is_whole(path, clusterer):
    return np.array_equal(DiffusionClusterer.load(path).labels_, clusterer.labels_)


def test_the_file_is_there_and_nothing_else(tmp_path, clusterer):
    path = tmp_path / "new" / "a.st"
    for given in (path, str(path)):
        clusterer.save(given)
        assert is_whole(path, clusterer)
    assert names(path.parent) == ["a.st"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, clusterer, step, error
):
    path = tmp_path / "a.st"
    path.write_text("old")

    def fail(*args):
        raise error("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(error, match="disk full"):
            clusterer.save(path)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.st"]


def test_the_bytes_are_on_the_disk_before_the_file_has_its_name(tmp_path, monkeypatch, clusterer):
    steps, path = [], tmp_path / "a.st"
    fsync, replace = os.fsync, os.replace

    def record(name, step):
        def call(*args):
            steps.append((name, path.exists()))
            return step(*args)

        return call

    monkeypatch.setattr(os, "fsync", record("fsync", fsync))
    monkeypatch.setattr(os, "replace", record("replace", replace))
    clusterer.save(path)
    assert steps == [("fsync", False), ("replace", False)]


def test_writers_of_one_path_wait_for_each_other(tmp_path, clusterer):
    path, count = tmp_path / "a.st", 4
    together = Barrier(count, timeout=30)

    def write(_):
        for _ in range(20):
            together.wait()
            clusterer.save(path)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(write, range(count)))
    assert is_whole(path, clusterer)
    assert names(tmp_path) == ["a.st"]


def test_what_a_killed_process_left_is_taken(tmp_path, clusterer):
    (tmp_path / ".a.st.tmp").write_bytes(b"half of the n")
    clusterer.save(tmp_path / "a.st")
    assert names(tmp_path) == ["a.st"]
    assert is_whole(tmp_path / "a.st", clusterer)


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path, clusterer):
    (tmp_path / "precious").write_text("old")
    (tmp_path / ".a.st.tmp").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        clusterer.save(tmp_path / "a.st")
    assert (tmp_path / "precious").read_text() == "old"


def test_a_file_system_without_locks_is_written_to(tmp_path, monkeypatch, clusterer):
    def no_locks(file, operation):
        raise OSError("not supported")

    monkeypatch.setattr(pytest.importorskip("fcntl"), "flock", no_locks)
    clusterer.save(tmp_path / "a.st")
    assert names(tmp_path) == ["a.st"]


def diffuse_to(target):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    return diffuse_file(np.eye(2, dtype=np.float32), edge_index, target, 1.0, memory="16GB")


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="'target' to be in a folder that can be written to"):
        diffuse_to(tmp_path / "file" / "y.npy")
    assert diffuse_to(tmp_path / "new" / "y.npy") == tmp_path / "new" / "y.npy"
    assert names(tmp_path / "new") == ["y.npy"]


def test_folders_and_devices_are_not_replaced(tmp_path, clusterer):
    folder, pipe = tmp_path / "folder.npy", tmp_path / "pipe.npy"
    folder.mkdir()
    os.mkfifo(pipe)
    for path, error in ((folder, IsADirectoryError), (pipe, OSError)):
        with pytest.raises(error, match="'path' to be a file"):
            clusterer.save(path)
        with pytest.raises(error, match="'target' to be a file"):
            diffuse_to(path)
    assert pipe.is_fifo()
    assert names(tmp_path) == ["folder.npy", "pipe.npy"]
