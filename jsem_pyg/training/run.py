"""A run of training in epochs: what it is made of, and the file that keeps it."""

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .._files import as_path, check_writable
from .._fingerprint import check_same_settings, describe
from .._tensor_file import load_tree, save_tree
from .history import Callback, EpochEnd, EpochRow, FitResult, best_epoch
from .processes import settings_of_all

_log = logging.getLogger(__name__)

_KIND = "checkpoint"
_FREE = ("checkpoint", "checkpoint_every", "resume", "callbacks")  # may be others after a resume
_REMEDY = "start afresh with resume=False"


@dataclass
class Run:
    """A learning problem and its state. The file has the state, and texts that tell the problem."""

    model: nn.Module
    x: Tensor  # [N, D]
    edge_index: Any  # [2, E], or the DistributedGraph of this process
    edge_inputs: dict[str, Tensor]  # edge_weight, edge_attr and edge_type, as far as there are any
    task: Any  # draw(purpose, epoch) names what loss(z, drawn) compares; see TripletTask, Signals
    optimizer: torch.optim.Optimizer
    file: Path | None = None  # None: nothing is written
    settings: dict[str, str] = field(default_factory=dict)  # what the result depends on
    history: list[EpochRow] = field(default_factory=list)
    best_weights: dict[str, Any] | None = None  # of the lowest validation loss, if kept

    @property
    def ranks(self) -> Any:
        """The processes that share the graph, of a `DistributedGraph`; None: it is whole."""
        return getattr(self.edge_index, "ranks", None)

    @property
    def is_first(self) -> bool:
        """True for one of the processes: it writes the file and shows the bar."""
        return self.ranks is None or self.ranks.rank == 0

    @torch.no_grad()
    def copy_weights(self) -> None:
        """Take the weights of the first process; lazy ones are drawn later, from the same seed."""
        if self.ranks is None:
            return
        for value in (*self.model.parameters(), *self.model.buffers()):
            if not is_lazy(value):
                value.copy_(self.ranks.from_first(value))

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of the values of all processes."""
        ranks = self.ranks
        total: Tensor = value.detach() if ranks is None else ranks.total(value)
        return total

    def compare_with_best(self, val_loss: float) -> None:
        """Keep a copy of the weights if no loss before was as low as theirs."""
        if val_loss < min((row.val_loss for row in self.history), default=float("inf")):
            self.best_weights = copy.deepcopy(self.model.state_dict())

    def is_stale(self, patience: int | None) -> bool:
        """Return True if the validation loss has not fallen for `patience` epochs."""
        return patience is not None and len(self.history) - best_epoch(self.history) >= patience

    def call(self, callbacks: Sequence[Callback]) -> bool:
        """Call all callbacks after an epoch, and return True if one stops any process."""
        row = self.history[-1]
        answers = [callback(EpochEnd(self.model, row, self.history)) for callback in callbacks]
        if self.ranks is None:
            return any(answers)
        return bool(self.ranks.largest(torch.tensor([float(any(answers))])))

    def finish(self, epochs: int) -> FitResult:
        """Write the file, take the best weights if they were kept, and return the result."""
        self.save()
        if self.best_weights is not None:
            self.model.load_state_dict(self.best_weights)
        self.optimizer.zero_grad()
        result = FitResult(self.model.eval(), self.history, len(self.history) < epochs)
        _log.info("%s", result)
        return result

    def keep_in(
        self, file: Any, data: Mapping[str, Any], sampler: object, options: Mapping[str, Any]
    ) -> None:
        """Save to a file from now on, with texts of what a resumed run has to share."""
        self.file = as_path("checkpoint", file)
        check_writable("checkpoint", self.file)
        settings = {"model": self.model} | {k: v for k, v in options.items() if k not in _FREE}
        loss = getattr(self.task, "criterion", self.task)  # of signals, the signals themselves
        for name, value in {"sampler": sampler, "loss": loss}.items():
            settings[name] = value
            # What no checkpoint restores: weights that are not trained, indices, counters.
            if isinstance(value, nn.Module):
                settings[f"{name}.state"] = value.state_dict()
            elif hasattr(value, "__dict__"):
                settings[f"{name}.state"] = vars(value)
        settings |= {f"data.{name}": value for name, value in data.items() if value is not None}
        if self.ranks is not None:
            settings = settings_of_all(self.edge_index, settings)
        for name, value in settings.items():
            self.settings |= describe(name, value)

    def save(self) -> None:
        """Write the file, whole or not at all, if the run has one; the first process writes."""
        if self.file is None or not self.is_first:
            return
        state = {
            "settings": self.settings,
            "epoch": len(self.history),
            "model": self.model.state_dict(),  # after the last epoch
            "optimizer": self.optimizer.state_dict(),
            "history": [row._asdict() for row in self.history],
            "best_weights": self.best_weights,
        }
        save_tree(self.file, _KIND, "state", state)

    def load(self, epochs: int) -> None:
        """Continue where the file ends, if there is one; of another run it is refused."""
        if self.file is None or not self.file.exists():
            _log.info("no checkpoint at %s: starting afresh", self.file)
            return
        _log.info("continuing from %s", self.file)
        state = load_tree(self.file, _KIND)
        check_same_settings(self.file, state["settings"], self.settings, _REMEDY)
        if state["epoch"] > epochs:
            raise ValueError(
                f"Expected 'epochs' to be at least {state['epoch']}, the number in the checkpoint "
                f"'{self.file}' (got {epochs})."
            )
        # Into the model's own state dict, which has the versions of its modules.
        weights = self.model.state_dict()
        lazy = {name for name, value in weights.items() if is_lazy(value)}
        then, now = _forms(state["model"], lazy), _forms(weights, lazy)
        check_same_settings(self.file, then, now, _REMEDY)
        weights.update(state["model"])
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.history = [EpochRow(**row) for row in state["history"]]
        self.best_weights = state["best_weights"]


def _forms(weights: dict[str, Any], lazy: set[str]) -> dict[str, str]:
    """Return type and shape of the weights whose shape is known."""
    return {
        f"model.{name}": f"{value.dtype} {list(value.shape)}"
        if isinstance(value, Tensor)
        else type(value).__name__
        for name, value in weights.items()
        if name not in lazy
    }
