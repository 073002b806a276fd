"""Read the posts of 20 Newsgroups, embedded."""

import os
from collections.abc import Callable
from typing import Any, Literal

from .._checks import check_choice
from .._files import as_path
from .base import PointsDataset
from .documents import embed, file_fingerprint
from .points import LabelledPoints, labelled_points, read_arrays
from .text import check_model, model_fingerprint

_SUBSETS = ("train", "test", "all")


class TwentyNewsgroups(PointsDataset):
    """Reads posts of 20 newsgroups (Lang 1995, "bydate" split): x [N, D], y [N], 20 classes.

    The texts are those of scikit-learn's `fetch_20newsgroups` without headers, footers and quotes,
    in its order; posts that are empty then are kept. They are embedded once, which takes minutes on
    a CPU, unless there are ready embeddings.

    **scikit-learn keeps the texts in a pickle** (``20news-bydate_py3.pkz``), and reading a pickle
    executes whatever it holds: take no such file from anyone, let it be downloaded, or do without
    it. Nothing of a pickle is read with ready `embeddings`, nor by :class:`EmbeddingDataset` from a
    ``.csv`` of posts.

    Args:
        root: folder where the points are kept.
        subset: "train" (N = 11,314), "test" (7,532) or "all".
        model: name or folder of a sentence-transformers model; all-MiniLM-L6-v2 by default, see
            `embed_texts`.
        embeddings: ready embeddings in place of a model: an ``.npz`` file of x [N, D], y [N] and
            target_names, or a folder that holds it as ``20newsgroups_{subset}_minilm.npz``.
        data_home: folder with scikit-learn's copy of the texts, a pickle, which is downloaded to
            there if it is missing; ``root/raw`` by default.
        transform: applied to the data at every access; the place for a graph one experiments with,
            since it leaves the embeddings alone.
        pre_transform: applied once, when the data set is made.
        force_reload: read the posts again, even if their points are kept.

    Raises:
        FileNotFoundError: if `embeddings` is given and not there.
        ValueError: if the file does not hold the subset with its labels.
        OSError: if the texts can neither be found nor downloaded.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        subset: Literal["train", "test", "all"] = "train",
        model: str | os.PathLike[str] | None = None,
        *,
        embeddings: str | os.PathLike[str] | None = None,
        data_home: str | os.PathLike[str] | None = None,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        check_choice("subset", subset, _SUBSETS)
        check_model(model)
        if model is not None and embeddings is not None:
            raise ValueError("Expected 'model' or 'embeddings', not both: either makes the points.")
        self.subset, self.model = subset, model
        raw = as_path("root", root) / "raw"
        self.data_home = raw if data_home is None else as_path("data_home", data_home)
        self.embeddings = None if embeddings is None else as_path("embeddings", embeddings)
        if self.embeddings is not None and self.embeddings.is_dir():
            self.embeddings /= f"20newsgroups_{subset}_minilm.npz"
        if self.embeddings is not None and not self.embeddings.is_file():
            raise FileNotFoundError(
                f"Expected 'embeddings' to be an existing file (got '{self.embeddings}')."
            )
        super().__init__(root, transform, pre_transform, force_reload)

    def fingerprint(self) -> dict[str, Any]:
        """Return what the points depend on: the file or the model, and the subset."""
        if self.embeddings is not None:
            return {"subset": self.subset, **file_fingerprint(self.embeddings, False, None)}
        return {"subset": self.subset, "model": model_fingerprint(self.model)}

    def read(self) -> LabelledPoints:
        """Read the embeddings, or embed the texts."""
        if self.embeddings is None:
            return self._read_texts()
        points = labelled_points(*read_arrays(self.embeddings))
        if points.y is None:
            raise ValueError(f"Expected '{self.embeddings}' to hold the labels y (got none).")
        return points

    def _read_texts(self) -> LabelledPoints:
        """Embed the posts of scikit-learn's copy, which is downloaded if it is missing."""
        from sklearn.datasets import fetch_20newsgroups

        try:
            posts = fetch_20newsgroups(
                data_home=self.data_home,
                subset=self.subset,
                remove=("headers", "footers", "quotes"),
            )
        except OSError as error:
            raise OSError(
                f"Could not download 20 Newsgroups to '{self.data_home}' ({error}). To work "
                "offline, pass a 'data_home' that holds scikit-learn's copy, or ready 'embeddings'."
            ) from error
        x = embed(posts.data, self.model)
        return labelled_points(x, posts.target, posts.target_names)
