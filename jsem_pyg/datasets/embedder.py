"""Embed documents block by block, and keep the blocks in a folder.

A block is known by its documents and the model alone, so a run that was killed finds what is there.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._files import as_path, check_writable
from .._tensor_file import load_tree, save_tree
from .text import encode, load_encoder, model_fingerprint

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

logger = logging.getLogger(__name__)

_BLOCK = 256  # documents; what a run that is killed loses at most
_KIND = "block of embeddings"


class Embedder:
    """Embeds documents, and reads those that it has embedded before from the folder `cache`."""

    def __init__(self, model: str | os.PathLike[str] | None, cache: Path) -> None:
        self.model = model
        self.cache = cache
        if model is not None:
            as_path("model", model)

    def embed(self, texts: Sequence[str], advance: Callable[[int], object]) -> Tensor:
        """Embed P documents: [P, D] float32; `advance` gets the number of documents just done."""
        embeddings = []
        for start in range(0, len(texts), _BLOCK):
            block = list(texts[start : start + _BLOCK])
            embeddings.append(self._embed_block(block))
            advance(len(block))
        return torch.cat(embeddings)

    def _embed_block(self, texts: list[str]) -> Tensor:
        key = self._key(texts)
        path = self.cache / f"{key}.safetensors"
        try:
            x: Tensor = load_tree(path, f"{_KIND} {key}")
            return x
        except FileNotFoundError:
            check_writable("cache", path)
        except ValueError as error:
            logger.warning("%s Embedding it anew.", error)
        x = encode(self._encoder, texts)
        save_tree(path, f"{_KIND} {key}", "x", x)
        return x

    def _key(self, texts: list[str]) -> str:
        content = json.dumps([self.fingerprint, texts])
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    @cached_property
    def fingerprint(self) -> object:
        """Identify the model, when the first document needs it."""
        return model_fingerprint(self.model)

    @cached_property
    def _encoder(self) -> "SentenceTransformer":
        """Load the model, when the first document needs it; its own bars would run into ours."""
        with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
            return load_encoder(self.model)
