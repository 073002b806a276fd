"""Read the posts of 20 Newsgroups, embedded."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from .._checks import check_choice
from .._files import as_path
from .base import existing_file, folder_path
from .documents import Documents
from .file_dataset import FileDataset
from .points import LabelledPoints

logger = logging.getLogger(__name__)

_SUBSETS = ("train", "test", "all")
_SKLEARN_CACHE = "20news-bydate_py3.pkz"  # as scikit-learn names it


class TwentyNewsgroups(FileDataset):
    """Reads posts of 20 newsgroups (Lang 1995, "bydate" split): x [N, D], y [N], 20 classes.

    The texts are those of scikit-learn's `fetch_20newsgroups` without headers, footers and quotes,
    in its order; posts that are empty then are kept. They are embedded once, which takes minutes on
    a CPU, unless there are ready embeddings.

    **scikit-learn keeps the texts in a pickle** (``20news-bydate_py3.pkz``), and reading a pickle
    executes whatever it holds: take no such file from anyone, let it be downloaded, or do without
    it. Nothing of a pickle is read with ready `embeddings`, which are looked for first, nor by
    :class:`EmbeddingDataset` from a ``.csv`` of posts.

    Args:
        root: folder for the processed data.
        subset: "train" (N = 11,314), "test" (7,532) or "all".
        model: name or folder of a sentence-transformers model; all-MiniLM-L6-v2 by default, see
            `embed_texts`.
        embeddings: ready embeddings in place of a model: an ``.npz`` file of x [N, D], y [N] and
            target_names, or a folder that holds it as ``20newsgroups_{subset}_minilm.npz``. With
            neither `model` nor `embeddings`, a file of that name in `root` or ``root/raw`` is used.
        data_home: folder with scikit-learn's copy of the texts, a pickle, which is downloaded to
            there if it is missing; ``root/raw`` by default.
        batch_size: documents embedded at once.
        transform: applied to the data at every access; the place for a graph one experiments with,
            since it leaves the embeddings alone.
        pre_transform: applied once, before the data are saved.
        force_reload: process again, even if there are processed data.

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
        batch_size: int = 64,
        transform: Callable | None = None,
        pre_transform: Callable | None = None,
        force_reload: bool = False,
    ) -> None:
        check_choice("subset", subset, _SUBSETS)
        if model is not None and embeddings is not None:
            raise ValueError("Expected 'model' or 'embeddings', not both: either makes the points.")
        self.subset = subset
        root = folder_path("root", root)
        home = root / "raw" if data_home is None else folder_path("data_home", data_home)
        path = None if model is not None else self._find_embeddings(root, embeddings)
        path = home / _SKLEARN_CACHE if path is None else path
        super().__init__(root, path, model, batch_size, 0.0, transform, pre_transform, force_reload)

    def _find_embeddings(
        self, root: Path, embeddings: str | os.PathLike[str] | None
    ) -> Path | None:
        name = f"20newsgroups_{self.subset}_minilm.npz"
        if embeddings is not None:
            given = as_path("embeddings", embeddings)
            found = existing_file("embeddings", given / name if given.is_dir() else given)
            if found.suffix.lower() != ".npz":
                raise ValueError(f"Expected 'embeddings' to be an .npz file (got '{found.name}').")
            return found
        for folder in (root, root / "raw"):
            if (folder / name).is_file():
                logger.info("Using the embeddings in %s.", folder / name)
                return folder / name
        return None

    @property
    def raw_dir(self) -> str:
        """Return the folder of the texts or of the ready embeddings."""
        return str(self.path.parent)

    @property
    def raw_file_names(self) -> list[str]:
        """Name the file of the texts or of the ready embeddings."""
        return [self.path.name]

    def download(self) -> None:
        """Download the texts as scikit-learn does."""
        from sklearn.datasets import fetch_20newsgroups

        try:
            fetch_20newsgroups(data_home=self.raw_dir)
        except OSError as error:
            raise OSError(
                f"Could not download 20 Newsgroups to '{self.raw_dir}' ({error}). To work offline, "
                f"pass a 'data_home' that holds {_SKLEARN_CACHE}, or ready 'embeddings'."
            ) from error

    def fingerprint(self) -> dict[str, Any]:
        """Return what the points depend on: the file, the model and the subset."""
        return {**super().fingerprint(), "subset": self.subset}

    def read(self) -> LabelledPoints:
        """Read the embeddings, or embed the texts."""
        points = super().read()
        if points.y is None:
            raise ValueError(f"Expected '{self.path}' to hold the labels y (got none).")
        return points

    def read_documents(self) -> Documents:
        """Read the posts of the subset from scikit-learn's copy."""
        from sklearn.datasets import fetch_20newsgroups

        try:
            posts = fetch_20newsgroups(
                data_home=self.raw_dir,
                subset=self.subset,
                remove=("headers", "footers", "quotes"),
                download_if_missing=False,
            )
        except KeyError as error:
            raise ValueError(
                f"Expected '{self.path}' to hold the subset {self.subset!r} (it lacks {error})."
            ) from error
        except OSError as error:  # scikit-learn's word for a damaged copy, too
            raise OSError(
                f"Could not read '{self.path}' ({error}). To download it anew, delete it."
            ) from error
        return Documents(posts.data, posts.target, posts.target_names)
