"""What checkpoints share with other files is tested in test_files.py and test_tensor_file.py."""

import torch

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
