"""Checkpoints: written whole or not at all, read without executing anything in them."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from .._files import write_whole

_FORMAT = "jsem_pyg.training"
_VERSION = 1


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write `state` to `path`, whole or not at all; missing folders are made.

    Args:
        path: File to write; an existing one is replaced.
        state: Tensors, numbers, strings, None, and lists and dicts of them.

    Raises:
        OSError: If the file cannot be written; the temporary file is then removed.
    """

    def write(temporary: Path) -> None:
        # To a file, not a name: torch would write that name into it, and its errors are no OSError.
        with temporary.open("wb") as file:
            torch.save({"format": _FORMAT, "version": _VERSION, "state": state}, file)

    write_whole(path, write)


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote; tensors arrive on the CPU.

    Only tensors and plain Python values are read (`weights_only=True`): a file made to run code
    when it is unpickled is refused.

    Args:
        path: File to read.

    Returns:
        The `state` that was saved. From `fit`: "model" (weights after the last epoch, for
        `model.load_state_dict`), "optimizer", "epoch", "history" (rows), "best" (lowest
        validation loss, its epoch, its weights if `patience` was set), "settings".

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, is no checkpoint of this package, or is of another version.
    """
    content = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            damaged = archive.testzip()  # torch.load does not look at the checksums
        if damaged is not None:
            raise zipfile.BadZipFile(damaged)
        saved = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # whatever torch's unpickler makes of arbitrary bytes
        raise ValueError(
            f"Expected '{path}' to be a checkpoint written by save_checkpoint (got a file that is "
            f"damaged or holds something else: {type(error).__name__}). To fix this error, delete "
            "it or give another path."
        ) from error
    if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
        raise ValueError(
            f"Expected '{path}' to be a checkpoint written by save_checkpoint (got a torch file "
            "with other contents)."
        )
    if saved["version"] != _VERSION:
        raise ValueError(
            f"Expected '{path}' to be a checkpoint of format version {_VERSION} (got version "
            f"{saved['version']}, written by another release of jsem_pyg)."
        )
    return saved["state"]


def check_settings_agree(
    path: str | os.PathLike[str], saved: dict[str, Any], current: dict[str, Any]
) -> None:
    """Raise a ValueError that names the first setting on which a run and its checkpoint disagree.

    Example:
        >>> check_settings_agree("run.pt", {"lr": 0.1}, {"lr": 0.2})
        Traceback (most recent call last):
            ...
        ValueError: Expected 'lr' to be 0.1, as in the checkpoint 'run.pt' (got 0.2). ...
    """
    for name, value in current.items():
        if saved.get(name) != value:
            raise ValueError(
                f"Expected '{name}' to be {saved.get(name)!r}, as in the checkpoint '{path}' "
                f"(got {value!r}). To fix this error, continue with the checkpoint's value, or "
                "start afresh with resume=False."
            )
