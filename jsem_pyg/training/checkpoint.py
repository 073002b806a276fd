"""Checkpoints: written whole or not at all, and read without executing anything in them."""

import os
from typing import Any

from .._files import as_path
from .._tensor_file import load_tree, save_tree

_KIND = "checkpoint"


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write tensors, numbers, texts, None, and lists, tuples and dicts of them, whole or not."""
    save_tree(as_path("path", path), _KIND, "state", state)


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote; tensors arrive on the CPU, and nothing in it is executed.

    From `fit`: "model" (weights after the last epoch, for `model.load_state_dict`), "optimizer",
    "epoch", "history" (rows), "best_weights" (of the lowest validation loss, if `patience` was
    set), "settings" (texts that identify the model, the data and what else shapes the result),
    "kept" (which edges are left).
    """
    state: dict[str, Any] = load_tree(as_path("path", path), _KIND)
    return state
