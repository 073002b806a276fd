import os

import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.hypergraph_data import HyperGraphData

from jsem_pyg.datasets.base import PointsDataset
from jsem_pyg.datasets.points import LabelledPoints
from jsem_pyg.neighbors import knn_hyperedges
from jsem_pyg.transforms import EdgeGeometry, FaissKNNGraph, FormanCurvature


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


# ---------------------------------------------------------------- what is in the cache


class Everything(T.BaseTransform):
    """Adds what a PyG transform may add."""

    def forward(self, data):
        data = T.RandomNodeSplit(num_val=1, num_test=0)(data.clone())
        data.edge_index = torch.tensor([[0, 1], [1, 0]])
        data.edge_weight = torch.tensor([0.5, 0.5], dtype=torch.float64)
        data.edge_attr = torch.ones(2, 3, dtype=torch.bfloat16)
        data.num_nodes, data.name, data.scores, data.extra = 2, "two", [0.5, None], {"k": (1, 2)}
        return data


def test_whatever_a_transform_adds_comes_back(tmp_path):
    expected = Everything()(Data(x=torch.ones(2, 3), y=torch.tensor([0, 1]))).to_dict()
    for _ in range(2):
        data = Counted(tmp_path, 1, pre_transform=Everything())[0].to_dict()
        assert data.keys() == expected.keys()
        for name, value in expected.items():
            if isinstance(value, torch.Tensor) and "mask" not in name:  # masks are drawn at random
                assert torch.equal(data[name], value), name
                assert data[name].dtype == value.dtype
            elif "mask" not in name:
                assert data[name] == value
    assert Counted.reads == 1


def as_hypergraph(data):
    return HyperGraphData(x=data.x, edge_index=knn_hyperedges(data.pos, 1, "l2"))


TRANSFORMS = [
    FaissKNNGraph(k=1),
    T.Compose([FaissKNNGraph(k=1), FormanCurvature(), EdgeGeometry()]),
    as_hypergraph,
    T.Compose([FaissKNNGraph(k=1), T.LocalDegreeProfile()]),
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_are_stored_once_also_if_they_remember(tmp_path, transform):
    def positioned(data):
        data.pos = torch.tensor([[0.0], [1.0]])
        return data

    chain = T.Compose([positioned, transform])
    datasets = [Counted(tmp_path, 1, pre_transform=chain) for _ in range(3)]
    assert Counted.reads == 1
    assert len({repr(dataset[0]) for dataset in datasets}) == 1
    assert datasets[0][0].edge_index.dtype == torch.int64


def test_another_pre_transform_is_another_cache(tmp_path):
    def times(k):
        return lambda data: Data(x=k * data.x)

    def halved(data):
        return Data(x=data.x / 2)

    for transform, value in ((times(2), 2), (times(3), 3), (halved, 0.5), (None, 1), (times(2), 2)):
        assert (Counted(tmp_path, 1, pre_transform=transform)[0].x == value).all()
    assert Counted.reads == 4
    # Whose repr does not tell them apart.
    Counted(tmp_path, 1, pre_transform=T.NormalizeFeatures(["x"]))
    Counted(tmp_path, 1, pre_transform=T.NormalizeFeatures(["pos"]))
    assert Counted.reads == 6


def test_a_fitted_pre_transform_is_known_by_what_it_was_fitted_on(tmp_path):
    def graph(weights):
        edges = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
        weight = torch.tensor(weights).repeat(2)
        return Data(
            edge_index=torch.cat([edges, edges.flip(0)], 1), edge_weight=weight, num_nodes=6
        )

    def placed(data):
        return graph([1.0, 2.0, 4.0, 9.0, 3.0])

    scales = [graph([1.0, 1.5, 2.0, 3.0, 1.0]), graph([1.0, 15.0, 2.0, 30.0, 1.0])]
    seen = []
    for scale in scales:
        chain = T.Compose([placed, FormanCurvature("1d").fit(scale)])
        dataset = Counted(tmp_path, 1, pre_transform=chain)
        torch.testing.assert_close(dataset[0].edge_attr, chain(Data()).edge_attr)
        seen.append(dataset[0].edge_attr)
    assert not torch.allclose(*seen)


def test_data_in_the_place_of_others_are_made_anew(tmp_path, caplog):
    Counted(tmp_path, 1)
    Counted(tmp_path, 2)
    one, two = (tmp_path / "processed").rglob("data.safetensors")
    one.write_bytes(two.read_bytes())
    for value in (1, 2):
        assert (Counted(tmp_path, value)[0].x == value).all()
    assert caplog.text.count("Making it anew") == 1


def sparse(data):
    data.adj = torch.eye(2).to_sparse()
    return data


def numpy(data):
    data.mean = data.x.numpy().mean(0)
    return data


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (sparse, "'data.adj' to be a dense tensor .*pass it as 'transform'"),
        (numpy, "'data.mean' to be a tensor.*got ndarray.*torch.from_numpy"),
        (lambda data: None, "'pre_transform' to return a Data or HyperGraphData .*got NoneType"),
        (lambda data: HeteroData(), "got HeteroData"),
    ],
)
def test_what_cannot_be_stored_is_refused(tmp_path, transform, message):
    with pytest.raises(TypeError, match=message):
        Counted(tmp_path, 1, pre_transform=transform)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


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


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"root": None}, TypeError, "'root' to be a path"),
        ({"root": 3}, TypeError, "'root' to be a path"),
        ({"root": ""}, ValueError, "'root' to be a path .*empty"),
        ({"root": "file"}, NotADirectoryError, "'root' to be a folder .got the file"),
        ({"transform": 3}, TypeError, "'transform' to be a function of a Data"),
        ({"pre_transform": "norm"}, TypeError, "'pre_transform' to be a function of a Data"),
        ({"force_reload": "yes"}, TypeError, "'force_reload' to be True or False"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, monkeypatch, arguments, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(error, match=message):
        Counted(**{"root": tmp_path, "value": 1, **arguments})
    assert Counted.reads == 0


def test_a_dataset_says_what_it_depends_on_and_what_it_holds(tmp_path):
    for name in ("fingerprint", "read"):
        lacking = type("Lacking", (Counted,), {name: getattr(PointsDataset, name)})
        with pytest.raises(NotImplementedError):
            lacking(tmp_path, 1)
