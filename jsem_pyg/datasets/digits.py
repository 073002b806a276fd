"""Load the handwritten digits that scikit-learn brings."""

from typing import Any

from .base import PointsDataset
from .points import LabelledPoints, labelled_points


class DigitsDataset(PointsDataset):
    """Loads 1,797 handwritten digits of 8 x 8 pixels: x [1797, 64] in [0, 1], y [1797], 10 classes.

    They come with scikit-learn, so nothing is downloaded (test set of the UCI repository's
    "Optical Recognition of Handwritten Digits", Alpaydin and Kaynak 1998).

    Args:
        root: folder where the points are kept.
        transform: applied to the data at every access.
        pre_transform: applied once, when the data set is made.
        force_reload: read the digits again.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     DigitsDataset(root)[0]
        Data(x=[1797, 64], y=[1797])
    """

    def fingerprint(self) -> dict[str, Any]:
        """Return nothing: there is but one version of the digits."""
        return {}

    def read(self) -> LabelledPoints:
        """Load the digits and scale their 17 grey levels to [0, 1]."""
        # Imported here: scikit-learn takes as long as all of this package.
        from sklearn.datasets import load_digits

        digits = load_digits()
        return labelled_points(digits.data / 16, digits.target, digits.target_names.astype(str))
