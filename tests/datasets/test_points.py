import numpy as np
import pytest
import torch

from jsem_pyg._table_files import read_arrays
from jsem_pyg.datasets.points import labelled_points

X = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_points_become_float32(dtype):
    x, y, classes = labelled_points(X.astype(dtype))
    assert x.dtype == torch.float32
    assert x.tolist() == X.tolist()
    assert y is None
    assert classes == []


def test_class_indices_are_kept_and_class_names_are_numbered():
    assert labelled_points(X, np.array([2, 0, 2], dtype=np.uint8)).y.tolist() == [2, 0, 2]
    assert labelled_points(X, np.array([2, 0, 2])).classes == ["0", "1", "2"]
    assert labelled_points(X, np.array([1, 0, 1]), ["a", "b", "c"]).classes == ["a", "b", "c"]
    _, y, classes = labelled_points(X, np.array(["sky", "sea", "sky"]))
    assert y.tolist() == [1, 0, 1]
    assert classes == ["sea", "sky"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.array([[np.nan, 1.0]]),), ValueError, "'x' to be finite"),
        ((np.array([[1e300, 1.0]]),), ValueError, "'x' to be finite"),
        ((np.ones(3),), ValueError, "'x' to have shape"),
        ((np.ones((2, 3), dtype=int),), TypeError, "'x' to be a floating-point"),
        ((np.full((2, 3), "a"),), TypeError, "'x' to hold numbers"),
        ((X, np.array([0, 1])), ValueError, r"'y' to have shape \[3\]"),
        ((X, np.array([0.0, 1.0, 0.0])), TypeError, "'y' to hold integers or text"),
        ((X, np.array([-1, 0, 1])), ValueError, "class indices in"),
        ((X, np.array([0, 1, 2]), ["a", "b"]), ValueError, r"class indices in \[0, 2\)"),
        ((X, np.array([0, 1, 10**9])), ValueError, "class indices in"),
        ((X, np.array(["a", "b", "a"]), ["a", "b"]), ValueError, "indices only"),
    ],
)
def test_bad_arrays_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        labelled_points(*arguments)


@pytest.mark.parametrize("name", ["x", "embeddings", "arr_0"])
def test_npz_under_each_name(tmp_path, name):
    np.savez(tmp_path / "a.npz", **{name: X}, y=[0, 1, 1], target_names=["a", "b"], index=[7, 8, 9])
    x, y, classes = labelled_points(*read_arrays(tmp_path / "a.npz"))
    assert x.tolist() == X.tolist()
    assert y.tolist() == [0, 1, 1]
    assert classes == ["a", "b"]


def test_the_class_of_each_row_is_no_name_of_a_class(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)), y=[1, 0, 1], classes=["sky", "sea", "sky"])
    with pytest.raises(ValueError, match="classes to name each class once"):
        labelled_points(*read_arrays(tmp_path / "a.npz"))


def test_arrays_that_hold_no_points_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", z=X)
    with pytest.raises(ValueError, match=r"a\.npz' to hold one of the arrays x, .*\(got z\)"):
        read_arrays(tmp_path / "a.npz")
