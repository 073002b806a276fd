"""Where a run is kept, when it is written, and what must agree when it is continued."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .checkpoint import check_settings_agree, load_checkpoint, save_checkpoint
from .history import BestEpoch, EpochRow
from .run import Run

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunFile:
    """The checkpoint of a run, if it is to have one."""

    path: str | os.PathLike[str] | None
    every: int  # epochs between two writes
    settings: dict[str, Any]  # what else shapes the result

    def save(self, run: Run) -> None:
        """Write the run."""
        if self.path is None:
            return
        state = {
            "settings": self._plain_settings(),
            "epoch": len(run.history),
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "history": [row._asdict() for row in run.history],
            "best": vars(run.best),
        }
        save_checkpoint(self.path, state)

    def save_if_due(self, run: Run) -> None:
        """Write the run after every so many epochs."""
        if len(run.history) % self.every == 0:
            self.save(run)

    def restore(self, run: Run, epochs: int) -> None:
        """Continue the run where its file ends, if there is one.

        Raises:
            ValueError: If it is to be kept nowhere, or if the file belongs to another run, or to
                one of more epochs.
        """
        if self.path is None:
            raise ValueError(
                "Expected 'checkpoint' to be given with resume=True (got None). To fix this error, "
                "pass the file that the run to continue was kept in."
            )
        if not Path(self.path).exists():
            _log.info("no checkpoint at %s: starting afresh", self.path)
            return
        _log.info("continuing from %s", self.path)
        state = load_checkpoint(self.path)
        check_settings_agree(self.path, state["settings"], self._plain_settings())
        if state["epoch"] > epochs:
            raise ValueError(
                f"Expected 'epochs' to be at least {state['epoch']}, the number that the "
                f"checkpoint '{self.path}' has behind it (got {epochs})."
            )
        run.model.load_state_dict(state["model"])
        run.optimizer.load_state_dict(state["optimizer"])
        run.history = [EpochRow(**row) for row in state["history"]]
        run.best = BestEpoch(**state["best"])

    def _plain_settings(self) -> dict[str, Any]:
        """NumPy numbers as Python's: a checkpoint is read without unpickling NumPy."""
        return {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.settings.items()
        }
