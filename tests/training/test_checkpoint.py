"""What checkpoints share with other files is tested in test_files.py and test_tensor_file.py."""

import pytest
import torch

from jsem_pyg import _files
from jsem_pyg.training.checkpoint import load_checkpoint, save_checkpoint

STATE = {"w": torch.arange(3.0), "rows": [{"epoch": 1, "t": None}], "lr": 0.1}


def test_what_is_saved_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "runs" / "a.pt"  # the folder is made
    save_checkpoint("~/runs/a.pt", STATE)
    loaded = load_checkpoint(str(path))
    assert torch.equal(loaded.pop("w"), STATE["w"])
    assert loaded == {"rows": [{"epoch": 1, "t": None}], "lr": 0.1}
    assert [file.name for file in path.parent.iterdir()] == ["a.pt"]
    save_checkpoint(tmp_path / "b.pt", STATE)  # the same state is the same file
    assert (tmp_path / "b.pt").read_bytes() == path.read_bytes()


def test_a_failed_write_leaves_the_old_checkpoint_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.pt"
    save_checkpoint(path, STATE)

    def fail(*args, **kwargs):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(_files.os, "fsync", fail)
        with pytest.raises(OSError, match="disk full"):
            save_checkpoint(path, {"w": torch.zeros(3)})
    with pytest.raises(TypeError, match="Expected 'state.best' to be a tensor, a number"):
        save_checkpoint(path, {"best": {1, 2}})
    assert torch.equal(load_checkpoint(path)["w"], STATE["w"])
    assert [file.name for file in tmp_path.iterdir()] == ["a.pt"]


def test_other_files_are_refused_and_nothing_is_executed(tmp_path):
    path, trace = tmp_path / "a.pt", tmp_path / "executed"

    class Malice:
        def __reduce__(self):
            return (open, (str(trace), "w"))

    torch.save({"format": "jsem_pyg.training", "version": 1, "state": Malice()}, path)
    with pytest.raises(ValueError, match="got a file of torch.save, which is not read"):
        load_checkpoint(path)
    assert not trace.exists()
    save_checkpoint(path, STATE)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match="damaged"):
        load_checkpoint(path)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "none.pt")


@pytest.mark.parametrize("path", [None, 3, b"a.pt"])
def test_what_is_no_path_is_refused(path):
    for call in (lambda: save_checkpoint(path, STATE), lambda: load_checkpoint(path)):
        with pytest.raises(TypeError, match="'path' to be a path"):
            call()
