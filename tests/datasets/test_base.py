import os

import pytest
import torch

from jsem_pyg.datasets.base import PointsDataset
from jsem_pyg.datasets.points import LabelledPoints


class Counted(PointsDataset):
    """Points that depend on one argument, and a count of the times they were read."""

    reads = 0

    def __init__(self, root, value, **kwargs):
        self.value = value
        super().__init__(root, **kwargs)

    def fingerprint(self):
        return {"value": self.value}

    def read(self):
        type(self).reads += 1
        x = torch.full((2, 3), float(self.value))
        return LabelledPoints(x, torch.tensor([0, 1]), ["rød", "blå"])


@pytest.fixture(autouse=True)
def _reset():
    Counted.reads = 0


def test_is_read_once_and_then_taken_from_root(tmp_path):
    for root in (tmp_path, str(tmp_path)):
        dataset = Counted(root, 1)
        assert dataset.classes == ["rød", "blå"]
        assert (dataset[0].x == 1).all()
    assert Counted.reads == 1
    assert list((tmp_path / "processed").rglob("data.pt"))


def test_another_fingerprint_is_another_cache(tmp_path):
    for value in (1, 2, 1):
        assert (Counted(tmp_path, value)[0].x == value).all()
    assert Counted.reads == 2


def test_force_reload_reads_again(tmp_path):
    Counted(tmp_path, 1)
    Counted(tmp_path, 1, force_reload=True)
    assert Counted.reads == 2


def test_pre_transform_is_stored_and_transform_is_not(tmp_path):
    def double(data):
        data = data.clone()
        data.x = 2 * data.x
        return data

    assert (Counted(tmp_path, 1, pre_transform=double)[0].x == 2).all()
    dataset = Counted(tmp_path, 1, pre_transform=double, transform=double)
    assert (dataset[0].x == 4).all()
    assert (dataset[0].x == 4).all()


def test_an_interrupted_write_leaves_no_data_behind(tmp_path, monkeypatch):
    def fail(source, target):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises(KeyboardInterrupt):
            Counted(tmp_path, 1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert (Counted(tmp_path, 1)[0].x == 1).all()


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    Counted("~/data", 1)
    assert (tmp_path / "data" / "processed").is_dir()
