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
    assert list((tmp_path / "processed").rglob("data.safetensors"))
    Counted(tmp_path, 1, force_reload=True)
    assert Counted.reads == 2


def test_another_fingerprint_is_another_cache(tmp_path):
    for value in (1, 2, 1):
        assert (Counted(tmp_path, value)[0].x == value).all()
    assert Counted.reads == 2


def test_pre_transform_is_applied_once_and_transform_at_every_access(tmp_path):
    def double(data):
        data = data.clone()
        data.x = 2 * data.x
        return data

    assert (Counted(tmp_path, 1, pre_transform=double)[0].x == 2).all()
    dataset = Counted(tmp_path, 1, pre_transform=double, transform=double)
    assert (dataset[0].x == 4).all()
    assert (dataset[0].x == 4).all()
    assert (Counted(tmp_path, 1)[0].x == 1).all()
    assert Counted.reads == 1


def test_data_in_the_place_of_others_are_made_anew(tmp_path, caplog):
    Counted(tmp_path, 1)
    Counted(tmp_path, 2)
    one, two = (tmp_path / "processed").rglob("data.safetensors")
    one.write_bytes(two.read_bytes())
    for value in (1, 2):
        assert (Counted(tmp_path, value)[0].x == value).all()
    assert caplog.text.count("Making it anew") == 1


class Malice:
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return (open, (str(self.trace), "w"))


def test_nothing_in_a_cache_is_executed(tmp_path):
    trace = tmp_path / "executed"
    Counted(tmp_path, 1)
    [cached] = tmp_path.rglob("*.safetensors")
    for name in ("data.safetensors", "data.pt", "pre_transform.pt", "pre_filter.pt"):
        torch.save(Malice(trace), cached.with_name(name))
    assert (Counted(tmp_path, 1)[0].x == 1).all()
    assert not trace.exists()


@pytest.mark.parametrize("damage", ["empty", "cut", "flip", "other"])
def test_a_damaged_cache_is_logged_and_made_anew(tmp_path, caplog, damage):
    Counted(tmp_path, 1)
    [cached] = tmp_path.rglob("*.safetensors")
    content = cached.read_bytes()
    damaged = {
        "empty": b"",
        "cut": content[:-5],
        "flip": content[:-3] + b"?" + content[-2:],
        "other": b"something else",
    }
    cached.write_bytes(damaged[damage])
    dataset = Counted(tmp_path, 1)
    assert (dataset[0].x == 1).all()
    assert dataset.classes == ["rød", "blå"]
    assert Counted.reads == 2
    assert str(cached) in caplog.text
    assert "Making it anew" in caplog.text
    assert cached.read_bytes() == content


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"root": None}, TypeError, "'root' to be a path"),
        ({"root": "file"}, NotADirectoryError, "'root' to be a folder .got the file"),
        ({"transform": 3}, TypeError, "'transform' to be a function of a Data"),
        ({"force_reload": "yes"}, TypeError, "'force_reload' to be True or False"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, monkeypatch, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(error, match=message):
        Counted(**{"root": tmp_path, "value": 1, **arguments})
    assert Counted.reads == 0
