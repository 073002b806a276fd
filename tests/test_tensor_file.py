import json
import pickle
from collections import OrderedDict
from contextlib import suppress

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import nn

from jsem_pyg._tensor_file import load_tree, save_tree

NUMBERS = torch.arange(6.0).view(2, 3)
DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool"
TREE = {
    "dtypes": [NUMBERS.to(getattr(torch, name)) for name in DTYPES.split(" ")],
    "shapes": (torch.tensor(3), torch.zeros(0, 2), NUMBERS.T, NUMBERS[:, 1]),
    "shared": [NUMBERS, NUMBERS, NUMBERS[0]],
    "plain": [None, True, 1, 2**80, 0.1, float("inf"), -0.0, "ø\n", "", [], {}, ()],
    3: {"tensor": 1, "dict": 2, "a.b": NUMBERS, "a": {"b": NUMBERS + 1}},
    "best": OrderedDict(weight=nn.Parameter(NUMBERS)),
}


def saved(path, tree, kind="test"):
    save_tree(path, kind, "state", tree)
    return load_tree(path, "test")


def assert_same(a, b):
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert_same(list(a.values()), list(b.values()))
    elif isinstance(a, list | tuple):
        assert isinstance(b, list)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert (type(a), repr(a)) == (type(b), repr(b))


def test_a_tree_comes_back_as_it_was(tmp_path):
    assert_same(TREE, saved(tmp_path / "a.st", TREE))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), r"'state.a\[0\]' to be .*got object"),
        (1j, "got complex"),
        (torch.eye(2).to_sparse(), "dense tensor .*got Tensor"),
        (torch.zeros(2, dtype=torch.complex64), "real numbers .*got Tensor"),
        ({1.5: 0}, r"'state.a\[0\]' to be .*got dict"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(tmp_path, value, message):
    tree = {"a": [value]}
    with pytest.raises(TypeError, match=message):
        save_tree(tmp_path / "a.st", "test", "state", tree)
    assert list(tmp_path.iterdir()) == []


def test_other_kinds_versions_and_files_are_refused(tmp_path):
    path = tmp_path / "a.st"
    save_tree(path, "checkpoint", "state", TREE)
    others = [path.read_bytes(), save({"a": NUMBERS})]
    header = json.dumps({"kind": "test", "version": 99, "hash": ""})
    others.append(save({"a": NUMBERS}, {"jsem_pyg": header}))
    for content in others:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.st' to be a test of .*of another kind"):
            load_tree(path, "test")
    with pytest.raises(FileNotFoundError):
        load_tree(tmp_path / "none.st", "test")


def test_damage_anywhere_is_seen(tmp_path):
    path = tmp_path / "a.st"
    save_tree(path, "test", "state", {"a": torch.arange(20), "b": [1.5, "text"]})
    whole = path.read_bytes()
    silent = []
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with suppress(ValueError):  # the one error that may come
            silent.append(load_tree(path, "test"))
    # White space that pads the header may differ; what is read may not.
    for tree in silent:
        assert_same(tree, {"a": torch.arange(20), "b": [1.5, "text"]})
    assert len(silent) < 8
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=rf"got a file of {length} bytes that is damaged"):
            load_tree(path, "test")


def test_nothing_is_executed(tmp_path):
    path, trace = tmp_path / "a.st", tmp_path / "executed"

    class Malice:
        def __reduce__(self):
            return (open, (str(trace), "w"))

    torch.save(Malice(), path)
    for content in (path.read_bytes(), pickle.dumps(Malice())):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.st"):
            load_tree(path, "test")
    assert not trace.exists()


def test_numbers_and_arrays_of_numpy_come_back(tmp_path):
    save_tree(tmp_path / "a.st", "test", "state", [np.int64(3), np.bool_(True), np.eye(2)])
    *loaded, array = load_tree(tmp_path / "a.st", "test")
    assert loaded == [3, True]
    assert [type(each) for each in loaded] == [int, bool]
    np.testing.assert_array_equal(array, np.eye(2))
