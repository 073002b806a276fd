import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from jsem_pyg import _files
from jsem_pyg._files import check_writable, write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_there_and_nothing_else(tmp_path):
    path = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        write_whole(str(path), lambda file, text=text: file.write(text.encode()))
        assert path.read_text() == text
    assert names(path.parent) == ["a.txt"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*args):
        raise error("disk full")

    def write(file):
        file.write(b"half of the n")
        if step == "write":
            fail()

    with monkeypatch.context() as patch:
        if step != "write":
            patch.setattr(_files.os, step, fail)
        with pytest.raises(error, match="disk full"):
            write_whole(path, write)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_the_bytes_are_on_the_disk_before_the_file_has_its_name(tmp_path, monkeypatch):
    steps, path = [], tmp_path / "a.txt"
    fsync, replace = os.fsync, os.replace

    def record(name, step):
        def call(*args):
            steps.append((name, path.exists()))
            return step(*args)

        return call

    monkeypatch.setattr(_files.os, "fsync", record("fsync", fsync))
    monkeypatch.setattr(_files.os, "replace", record("replace", replace))
    write_whole(path, lambda file: file.write(b"new"))
    assert steps == [("fsync", False), ("replace", False)]


def test_writers_of_one_path_wait_for_each_other(tmp_path):
    path, count = tmp_path / "a.txt", 4
    together = Barrier(count, timeout=30)

    def write(number):
        def fill(file):
            for _ in range(100):
                file.write(10 * str(number).encode())
                file.flush()
            assert Path(file.name).read_text() == 1000 * str(number)

        together.wait()
        write_whole(path, fill)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(write, range(count)))
    assert path.read_text() in [1000 * str(number) for number in range(count)]
    assert names(tmp_path) == ["a.txt"]


def test_what_a_killed_process_left_is_taken(tmp_path):
    (tmp_path / ".a.txt.tmp").write_bytes(b"half of the n")
    write_whole(tmp_path / "a.txt", b"new")
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "new"


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("old")
    (tmp_path / ".a.txt.tmp").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(tmp_path / "a.txt", b"new")
    assert (tmp_path / "precious").read_text() == "old"


@pytest.mark.skipif(_files.fcntl is None, reason="no locks here")
def test_a_file_system_without_locks_is_written_to(tmp_path, monkeypatch):
    def no_locks(file, operation):
        raise OSError("not supported")

    monkeypatch.setattr(_files.fcntl, "flock", no_locks)
    write_whole(tmp_path / "a.txt", b"new")
    assert names(tmp_path) == ["a.txt"]


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="'checkpoint' to be in a folder that can be written to"):
        check_writable("checkpoint", tmp_path / "file" / "run.st")
    check_writable("checkpoint", tmp_path / "new" / "run.st")
    assert names(tmp_path / "new") == []


def test_folders_and_devices_are_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, error in ((tmp_path, IsADirectoryError), (pipe, OSError)):
        with pytest.raises(error, match="'path' to be a file"):
            write_whole(path, lambda file: file.write(b"new"))
        with pytest.raises(error, match="'target' to be a file"):
            check_writable("target", path)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]
