import pickle

import numpy as np
import pytest
import safetensors.torch
import torch

from jsem_pyg import _files
from jsem_pyg.training.checkpoint import load_checkpoint, save_checkpoint

STATE = {"w": torch.arange(3.0), "rows": [{"epoch": 1, "t": None}], "lr": 0.1}


def test_what_is_saved_is_loaded(tmp_path):
    path = tmp_path / "runs" / "a.pt"  # the folder is made
    save_checkpoint(path, STATE)
    loaded = load_checkpoint(str(path))
    assert torch.equal(loaded.pop("w"), STATE["w"])
    assert loaded == {"rows": [{"epoch": 1, "t": None}], "lr": 0.1}
    assert [file.name for file in path.parent.iterdir()] == ["a.pt"]


def test_the_same_state_is_the_same_file(tmp_path):
    contents = []
    for name in ("a.pt", "b.pt"):
        save_checkpoint(tmp_path / name, STATE)
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.parametrize("step", ["save", "fsync", "replace"])
def test_a_failed_write_leaves_the_old_checkpoint_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "a.pt"
    save_checkpoint(path, STATE)

    def fail(*args, **kwargs):
        raise OSError("disk full")

    owner = safetensors.torch if step == "save" else _files.os
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, fail)
        with pytest.raises(OSError, match="disk full"):
            save_checkpoint(path, {"w": torch.zeros(3)})
    assert torch.equal(load_checkpoint(path)["w"], STATE["w"])
    assert [file.name for file in tmp_path.iterdir()] == ["a.pt"]


def test_a_checkpoint_never_executes_code(tmp_path):
    path, trace = tmp_path / "a.pt", tmp_path / "executed"

    class Malice:
        def __reduce__(self):
            return (open, (str(trace), "w"))

    torch.save({"format": "jsem_pyg.training", "version": 1, "state": Malice()}, path)
    with pytest.raises(ValueError, match="got a file of torch.save, which is not read"):
        load_checkpoint(path)
    path.write_bytes(pickle.dumps(Malice()))
    with pytest.raises(ValueError, match="damaged or holds something else"):
        load_checkpoint(path)
    assert not trace.exists()


@pytest.mark.parametrize("value", [np.float32(1), {1, 2}, object(), np.ones(2)])
def test_what_could_not_be_loaded_is_refused_when_it_is_saved(tmp_path, value):
    path = tmp_path / "a.pt"
    save_checkpoint(path, STATE)
    with pytest.raises(TypeError, match="Expected 'state.best.loss' to be a tensor, a number"):
        save_checkpoint(path, {"best": {"loss": value}})
    assert load_checkpoint(path)["lr"] == 0.1


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 not a zip"])
def test_a_file_of_something_else_is_refused(tmp_path, content):
    path = tmp_path / "a.pt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.pt"):
        load_checkpoint(path)


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_checkpoint_is_refused(tmp_path, damage):
    path = tmp_path / "a.pt"
    save_checkpoint(path, {"w": torch.full((1000,), 3.0)})
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    else:
        middle = content.index(torch.full((100,), 3.0).numpy().tobytes()) + 200
        content[middle] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        load_checkpoint(path)


def test_a_missing_checkpoint_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "none.pt")


@pytest.mark.parametrize("path", [None, 3, b"a.pt"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(TypeError, match="'path' to be a path"):
        save_checkpoint(path, STATE)
    with pytest.raises(TypeError, match="'path' to be a path"):
        load_checkpoint(path)


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    save_checkpoint("~/a.pt", STATE)
    assert (tmp_path / "a.pt").is_file()
    assert load_checkpoint("~/a.pt")["lr"] == 0.1
