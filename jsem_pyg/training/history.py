"""What training leaves behind: one row an epoch, the best epoch, the result."""

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

if TYPE_CHECKING:
    import pandas as pd


class EpochRow(NamedTuple):
    """One epoch. The losses and t belong to the weights with which the epoch began."""

    epoch: int  # from 1
    loss: float  # on this epoch's triplets
    val_loss: float  # on the fixed validation triplets
    t: float | None  # mean diffusion time, None if the model has none
    seconds: float  # wall-clock time of the epoch


class EpochEnd(NamedTuple):
    """What a callback is given after each epoch."""

    model: nn.Module  # with the weights after the epoch's step, in training mode
    row: EpochRow  # the epoch that has just ended
    history: list[EpochRow]  # all epochs so far, `row` last; not to be changed


@dataclass
class BestEpoch:
    """The lowest validation loss so far and how long ago it was: the state of early stopping."""

    loss: float = float("inf")
    epoch: int = 0
    stale: int = 0  # epochs since then
    weights: dict[str, Any] | None = None  # the state dict that gave this loss, if kept

    def update(self, epoch: int, loss: float, model: nn.Module, keep_weights: bool) -> None:
        """Take note of an epoch; call it before the step, while `model` is what gave `loss`."""
        if loss < self.loss:
            self.loss, self.epoch, self.stale = loss, epoch, 0
            self.weights = copy.deepcopy(model.state_dict()) if keep_weights else None
        else:
            self.stale += 1

    def exhausted(self, patience: int | None) -> bool:
        """Return whether the loss has not fallen for `patience` epochs."""
        return patience is not None and self.stale >= patience


@dataclass(frozen=True, repr=False)
class FitResult:
    """The outcome of `fit`.

    Example:
        >>> rows = [EpochRow(1, 0.5, 0.6, None, 0.1), EpochRow(2, 0.4, 0.5, None, 0.1)]
        >>> FitResult(nn.Identity(), rows, best_epoch=2, stopped_early=False)
        FitResult(Identity, epochs=2, loss=0.4, val_loss=0.5, best_epoch=2, stopped_early=False)
    """

    model: nn.Module  # the very model that was given, trained, in evaluation mode
    history: list[EpochRow]  # one row an epoch
    best_epoch: int  # the epoch that began with the lowest validation loss
    stopped_early: bool  # whether `patience` or a callback ended training before `epochs`

    def to_pandas(self) -> "pd.DataFrame":
        """Return the history as a table, indexed by epoch."""
        import pandas as pd

        return pd.DataFrame(self.history, columns=EpochRow._fields).set_index("epoch")

    def __repr__(self) -> str:
        last = self.history[-1]
        return (
            f"{type(self).__name__}({type(self.model).__name__}, epochs={len(self.history)}, "
            f"loss={last.loss:.4g}, val_loss={last.val_loss:.4g}, best_epoch={self.best_epoch}, "
            f"stopped_early={self.stopped_early})"
        )
