import pytest
import torch

from jsem_pyg.datasets import DigitsDataset
from jsem_pyg.datasets.base import PointsDataset
from jsem_pyg.datasets.points import LabelledPoints

POINTS = LabelledPoints(torch.ones(2, 3), torch.tensor([0, 1]), ["rød", "blå"])


def double(data):
    data = data.clone()
    data.x = 2 * data.x
    return data


def test_pre_transform_is_applied_once_and_transform_at_every_access(tmp_path):
    dataset = PointsDataset(tmp_path, POINTS, transform=double, pre_transform=double)
    assert (dataset[0].x == 4).all()
    assert (dataset[0].x == 4).all()
    assert dataset.classes == ["rød", "blå"]
    assert dataset.num_classes == 2
    assert (POINTS.x == 1).all()


def test_nothing_is_written(tmp_path):
    DigitsDataset(tmp_path / "root")
    assert not (tmp_path / "root").exists()
    with pytest.raises(TypeError, match="'root' to be a path"):
        DigitsDataset(None)
