"""Load the handwritten digits that scikit-learn brings."""

import os
from collections.abc import Callable

from .points import PointsDataset, labelled_points


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
