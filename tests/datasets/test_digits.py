import pytest
import torch
from sklearn.datasets import load_digits
from torch_geometric.data import InMemoryDataset

from jsem_pyg.datasets import DigitsDataset


def test_points_labels_and_classes(tmp_path):
    dataset = DigitsDataset(tmp_path)
    data = dataset[0]
    assert isinstance(dataset, InMemoryDataset)
    assert len(dataset) == 1
    assert data.x.dtype == torch.float32
    assert data.y.dtype == torch.int64
    assert data.x.shape == (1797, 64)
    assert (data.x.min(), data.x.max()) == (0, 1)
    assert data.y.tolist() == load_digits().target.tolist()
    torch.testing.assert_close(16 * data.x, torch.tensor(load_digits().data).float())
    assert dataset.classes == list("0123456789")
    assert (dataset.num_classes, dataset.num_features) == (10, 64)
    assert repr(dataset) == "DigitsDataset()"


def test_transforms_are_applied_once_and_at_every_access_and_nothing_is_written(tmp_path):
    def double(data):
        data = data.clone()
        data.x = 2 * data.x
        return data

    dataset = DigitsDataset(tmp_path / "root", transform=double, pre_transform=double)
    assert dataset[0].x.max() == dataset[0].x.max() == 4
    assert not (tmp_path / "root").exists()
    with pytest.raises(TypeError, match="'root' to be a path"):
        DigitsDataset(None)
