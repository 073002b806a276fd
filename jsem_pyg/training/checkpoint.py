"""Checkpoints: written whole or not at all, and read without executing anything in them."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from .._files import as_path, check_writable
from .._fingerprint import describe
from .._journal import check_same_settings
from .._tensor_file import check_tree, load_tree, save_tree
from .history import BestEpoch, EpochRow
from .run import Run

_log = logging.getLogger(__name__)

_KIND = "checkpoint"
_PARTS = ("settings", "epoch", "model", "optimizer", "history", "best")
_REMEDY = "start afresh with resume=False"


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write tensors, numbers, texts, None, and lists, tuples and dicts of them, whole or not."""
    save_tree(as_path("path", path), _KIND, "state", state)


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote; tensors arrive on the CPU, and nothing in it is executed.

    From `fit`: "model" (weights after the last epoch, for `model.load_state_dict`), "optimizer",
    "epoch", "history" (rows), "best" (lowest validation loss, its epoch, its weights if `patience`
    was set), "settings" (texts that identify the model, the data and what else shapes the result),
    "kept".
    """
    state: dict[str, Any] = load_tree(as_path("path", path), _KIND)
    return state


class CheckpointFile:
    """The checkpoint of a run; what cannot be kept is refused before the first epoch.

    Args:
        path: The file.
        run: The run before its first epoch.
        settings: What else shapes the result, by name, data included.
    """

    def __init__(self, path: str | os.PathLike[str], run: Run, settings: Mapping[str, Any]) -> None:
        self.path = _read_path(path)
        self.settings: dict[str, str] = {}
        state = run.model.state_dict()
        check_tree("model", {name: each for name, each in state.items() if not is_lazy(each)})
        for name, value in {"model": run.model, **run.depends_on(settings)}.items():
            self.settings |= describe(name, value)

    def save(self, run: Run) -> None:
        """Write the run; of a process group, the first writes."""
        if not run.is_first:
            return
        state = {
            "settings": self.settings,
            "epoch": len(run.history),
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "history": [row._asdict() for row in run.history],
            "best": vars(run.best),
            "kept": run.kept,
        }
        save_checkpoint(self.path, state)

    def restore(self, run: Run, epochs: int) -> None:
        """Continue where the file ends, if there is one; a run that is another stays as it was."""
        if not self.path.exists():
            _log.info("no checkpoint at %s: starting afresh", self.path)
            return
        _log.info("continuing from %s", self.path)
        state = load_checkpoint(self.path)
        _check_parts(self.path, state)
        check_same_settings(self.path, state["settings"], self.settings, _REMEDY)
        if state["epoch"] > epochs:
            raise ValueError(
                f"Expected 'epochs' to be at least {state['epoch']}, the number in the checkpoint "
                f"'{self.path}' (got {epochs})."
            )
        _check_weights(self.path, run.model, state["model"])
        # Into the model's own state dict, which has the versions of its modules.
        weights = run.model.state_dict()
        weights.update(state["model"])
        run.model.load_state_dict(weights)
        run.optimizer.load_state_dict(state["optimizer"])
        run.history = [EpochRow(**row) for row in state["history"]]
        run.best = BestEpoch(**state["best"])
        if state["kept"] is not None:
            run.keep_edges(state["kept"])


def _read_path(value: Any) -> Path:
    path = as_path("checkpoint", value)
    if path.is_dir():
        raise ValueError(
            f"Expected 'checkpoint' to be a file (got the folder '{path}'). To fix this error, "
            f"name a file in it, such as '{path / 'run.safetensors'}'."
        )
    check_writable("checkpoint", path)
    return path


def _check_parts(path: Path, state: Any) -> None:
    missing = [part for part in _PARTS if not isinstance(state, dict) or part not in state]
    if missing:
        raise ValueError(
            f"Expected '{path}' to be a checkpoint of fit (got one without "
            f"{', '.join(map(repr, missing))}). To fix this error, give another path."
        )


def _check_weights(path: Path, model: nn.Module, saved: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the first weight that is not the model's."""
    current = model.state_dict()
    for name in {**current, **saved}:
        expected, got = (_form(weights, name) for weights in (saved, current))
        if "of any shape" not in (expected, got) and expected != got:
            raise ValueError(
                f"Expected 'model' to have the weights of the checkpoint '{path}', with '{name}' "
                f"{expected} (got {got}). To fix this error, build the model as it was, or "
                f"{_REMEDY}."
            )


def _form(weights: Mapping[str, Any], name: str) -> str:
    if name not in weights:
        return "missing"
    value = weights[name]
    if is_lazy(value):
        return "of any shape"
    if not hasattr(value, "dtype"):
        return f"of type {type(value).__name__}"
    return f"of shape {list(value.shape)} and type {value.dtype}"
