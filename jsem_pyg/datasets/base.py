"""The base of the data sets: points with labels as a PyG data set of one `Data`."""

import os
from collections.abc import Callable

from torch_geometric.data import Data, InMemoryDataset

from .._files import as_path
from .points import LabelledPoints


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
