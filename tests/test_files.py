import os
import stat
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from jsem_pyg import _files
from jsem_pyg._files import write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_there_and_nothing_else(tmp_path):
    path = tmp_path / "new" / "a.txt"
    for text in ("one", "two"):
        write_whole(str(path), lambda temporary, text=text: temporary.write_text(text))
        assert path.read_text() == text
    assert names(path.parent) == ["a.txt"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*args):
        raise error("disk full")

    def write(temporary):
        temporary.write_text("half of the n")
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
    write_whole(path, lambda temporary: temporary.write_text("new"))
    assert steps == [("fsync", False), ("replace", False)]


def test_writers_of_one_path_do_not_meet(tmp_path):
    path, count = tmp_path / "a.txt", 4
    together = Barrier(count, timeout=30)

    def write(number):
        def fill(temporary):
            temporary.write_text(1000 * str(number))
            together.wait()  # all have written before any goes on
            assert temporary.read_text() == 1000 * str(number)

        write_whole(path, fill)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(write, range(count)))
    assert path.read_text() in [1000 * str(number) for number in range(count)]
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.skipif(os.name != "posix", reason="no umask here")
def test_others_may_read_the_file_as_they_may_any_other(tmp_path):
    old = os.umask(0o022)
    try:
        write_whole(tmp_path / "a.txt", lambda temporary: temporary.write_text("new"))
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644
