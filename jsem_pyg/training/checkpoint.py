"""Checkpoints: written whole or not at all, read without executing anything in them."""

import os
from typing import Any

from .._files import as_path
from .._tensor_file import load_tree, save_tree

_KIND = "checkpoint"


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write `state` to `path`, whole or not at all; missing folders are made.

    Args:
        path: File to write; an existing one is replaced. It is a safetensors file.
        state: Dense tensors, numbers, strings, None, and lists, tuples and dicts of them.

    Raises:
        TypeError: If `state` holds anything else, which could not be loaded again.
        OSError: If the file cannot be written; the temporary file is then removed.
    """
    save_tree(as_path("path", path), _KIND, "state", state)


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote; tensors arrive on the CPU.

    Tensors and plain Python values are all that such a file can hold: nothing in it is executed.

    Args:
        path: File to read.

    Returns:
        The `state` that was saved. From `fit`: "model" (weights after the last epoch, for
        `model.load_state_dict`), "optimizer", "epoch", "history" (rows), "best" (lowest
        validation loss, its epoch, its weights if `patience` was set), "settings" (texts that tell
        the model, the data and what else shapes the result).

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, is no checkpoint of this package, or is of another version.
    """
    return load_tree(as_path("path", path), _KIND)
