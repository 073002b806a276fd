"""The base of the data sets: points with labels, checked, perhaps read from a file of arrays."""

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, InMemoryDataset

from .._checks import check_finite, check_labels, check_points, tensor_of
from .._files import as_path

# Labels without names are taken for class indices only up to here: ids are no classes.
_MAX_UNNAMED_CLASSES = 100_000


class LabelledPoints(NamedTuple):
    """Points, and their labels if they have some."""

    x: Tensor  # [N, D] float32
    y: Tensor | None  # [N] int64, indices into classes
    classes: list[str]  # the name of each class; empty without labels


class PointsDataset(InMemoryDataset):
    """Holds points with labels.

    Args:
        root: folder of the data set.
        points: what it holds.
        transform: applied to the data at every access.
        pre_transform: applied once, when the data set is made; the result is not kept in `root`.

    Attributes:
        classes: the name of each class, by label; empty if there are no labels.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        points: LabelledPoints,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
    ) -> None:
        super().__init__(str(as_path("root", root)), transform, pre_transform)
        data = Data(x=points.x) if points.y is None else Data(x=points.x, y=points.y)
        self.data = data if pre_transform is None else pre_transform(data)
        self.classes = points.classes


class DigitsDataset(PointsDataset):
    """Loads 1,797 handwritten digits of 8 x 8 pixels: x [1797, 64] in [0, 1], y [1797], 10 classes.

    They come with scikit-learn, so nothing is downloaded (test set of the UCI repository's
    "Optical Recognition of Handwritten Digits", Alpaydin and Kaynak 1998).

    Args:
        root: a folder, as PyG's data sets have one; nothing is written to it.
        transform: applied to the data at every access.
        pre_transform: applied once, when the data set is made.

    Example:
        >>> DigitsDataset("digits")[0]
        Data(x=[1797, 64], y=[1797])
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
    ) -> None:
        # Imported here: scikit-learn takes as long as all of this package.
        from sklearn.datasets import load_digits

        digits = load_digits()  # of 17 grey levels
        points = labelled_points(digits.data / 16, digits.target, digits.target_names.astype(str))
        super().__init__(root, points, transform, pre_transform)


def labelled_points(
    x: np.ndarray | Tensor,
    labels: np.ndarray | None = None,
    names: Sequence[str] | np.ndarray | None = None,
) -> LabelledPoints:
    """Check points and labels and bring them to float32 and int64.

    Args:
        x: [N, D] floating-point array.
        labels: [N] class indices, kept as they are, or class names, numbered alphabetically.
        names: the name of each class, if labels are indices; "0", "1", ... by default.
    """
    points = x if isinstance(x, Tensor) else tensor_of("x", x)
    check_points("x", points)
    points = points.float()
    check_finite("x", points)  # again: the cast of a float64 may overflow
    if labels is None:
        return LabelledPoints(points, None, [])
    labels = np.asarray(labels)
    if labels.dtype.kind == "U" and names is not None:
        raise ValueError("Expected names of classes with labels that are indices only (got text).")
    if labels.dtype.kind == "U":
        names, labels = np.unique(labels, return_inverse=True)
    elif labels.dtype.kind not in "iu":
        raise TypeError(f"Expected 'y' to hold integers or text (got {labels.dtype}).")
    y = torch.from_numpy(labels.astype(np.int64))
    check_labels("y", y, points.size(0))
    return LabelledPoints(points, y, _class_names(y, names))


def _class_names(y: Tensor, names: Sequence[str] | np.ndarray | None) -> list[str]:
    low, high = int(y.min()), int(y.max())
    limit = _MAX_UNNAMED_CLASSES if names is None else len(names)
    if low < 0 or high >= limit:
        raise ValueError(f"Expected 'y' to be class indices in [0, {limit}) (got {low} to {high}).")
    return [str(name) for name in (range(high + 1) if names is None else names)]
