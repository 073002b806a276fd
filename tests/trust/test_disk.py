"""Disks that fill, read-only folders, clocks that go back: an OSError, and nothing is lost."""

from importlib import import_module

import numpy as np
import pytest
import torch
from training.training_cases import SmoothingStub, two_clusters

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.partition import diffuse_file
from jsem_pyg.training import fit

pytest.importorskip("resource", reason="POSIX only")
from trust.disk_cases import file_size_limit, read_only, small_disk


def names(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def train(path, epochs=6, callbacks=()):
    return fit(
        SmoothingStub(dropout=0.3),
        two_clusters(),
        epochs=epochs,
        batch_size=64,
        checkpoint=path,
        checkpoint_every=1,
        resume=True,
        callbacks=callbacks,
        progress=False,
    )


@pytest.mark.parametrize("limit", [0, 500, 1000])
def test_a_run_whose_disk_fills_goes_on_when_there_is_room(tmp_path, limit):
    path, whole, ran = tmp_path / "run.st", train(tmp_path / "whole.st"), []
    train(path, epochs=2)
    before = path.read_bytes()
    with file_size_limit(limit), pytest.raises(OSError, match="too large|No space"):
        train(path)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["run.st", "whole.st"]
    resumed = train(path, callbacks=[lambda end: ran.append(end.row.epoch)])
    assert ran == [3, 4, 5, 6]
    assert torch.equal(resumed.model.weight, whole.model.weight)


@pytest.fixture
def diffusion(tmp_path, monkeypatch):
    """Diffuse an array of 512 KB, in panels of 128 KB; and what comes out."""
    module = import_module("jsem_pyg.partition.files.diffuse_file")
    monkeypatch.setattr(module, "choose_width", lambda *_: 16)
    monkeypatch.setattr(module, "STRIP", 100 * 64 * 4)
    x = np.random.default_rng(0).random((2000, 64), np.float32)
    edges = torch.arange(1999).repeat(2, 1) + torch.tensor([[0], [1]])
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    np.save(tmp_path / "x.npy", x)

    def run(folder):
        return diffuse_file(tmp_path / "x.npy", edges, folder / "y.npy", 2.0, backend="torch")

    return run, heat_diffusion(torch.from_numpy(x), edges, t=2.0, backend="torch").numpy()


@pytest.mark.parametrize("limit", [0, 3000, 130_000, 400_000, 512_000])
def test_a_diffusion_whose_disk_fills_goes_on_when_there_is_room(tmp_path, diffusion, limit):
    run, expected = diffusion
    with file_size_limit(limit), pytest.raises(OSError, match="too large|No space"):
        run(tmp_path / "made")
    assert not (tmp_path / "made/y.npy").exists()
    begun = (tmp_path / "made/y.npy.partial/journal.safetensors").exists()
    assert begun == (limit > 128_000)  # once the source is sorted
    np.testing.assert_allclose(np.load(run(tmp_path / "made")), expected, rtol=1e-5, atol=1e-5)
    assert names(tmp_path) == ["x.npy", "y.npy"]


def test_a_diffusion_on_a_small_disk_goes_on_on_a_larger_one(tmp_path, diffusion):
    run, expected = diffusion
    made = tmp_path / "made"
    made.mkdir()
    with small_disk(made, "1000k") as disk:
        with pytest.raises(OSError, match="No space left"):
            run(disk)
        assert not (disk / "y.npy").exists()
    with small_disk(made, "1200k") as disk:
        np.testing.assert_allclose(np.load(run(disk)), expected, rtol=1e-5, atol=1e-5)
    match = "'target' to be in a folder that can be written to"
    with read_only(made) as folder, pytest.raises(OSError, match=match):
        run(folder)


def test_a_read_only_folder_is_noticed_before_the_first_epoch(tmp_path):
    ran, match = [], "'checkpoint' to be in a folder that can be written to"
    with read_only(tmp_path) as folder, pytest.raises(OSError, match=match):
        train(folder / "run.st", callbacks=[ran.append])
    assert not ran
