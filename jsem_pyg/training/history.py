"""The history and the result of a training, and the callbacks that follow it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from torch import nn

from .._extras import import_optional

if TYPE_CHECKING:
    import pandas as pd


class EpochRow(NamedTuple):
    """One epoch. The losses and t belong to the weights with which the epoch began."""

    epoch: int  #: from 1
    loss: float  #: on this epoch's triplets, or on the entries of signals to learn from
    val_loss: float  #: on the fixed validation triplets, or on the nodes held out
    t: float | None  #: mean diffusion time, None if the model has none
    seconds: float  #: wall-clock time of the epoch


class EpochEnd(NamedTuple):
    """The argument of a callback, after each epoch."""

    model: nn.Module  #: with the weights after the epoch's step, in training mode
    row: EpochRow  #: the epoch that has just ended: `epoch`, `loss`, `val_loss`, `t`, `seconds`
    history: list[EpochRow]  #: all epochs so far, `row` last; not to be changed


Callback = Callable[[EpochEnd], bool | None]


@dataclass(frozen=True, repr=False)
class FitResult:
    """Holds the trained model, and the history of its training.

    Example:
        >>> rows = [EpochRow(1, 0.5, 0.6, None, 0.1), EpochRow(2, 0.4, 0.5, None, 0.1)]
        >>> FitResult(nn.Identity(), rows)
        FitResult(Identity, epochs=2, loss=0.4, val_loss=0.5, best_epoch=2, stopped_early=False)
    """

    model: nn.Module  #: the model that was given, trained, in evaluation mode
    history: list[EpochRow]  #: one row an epoch: `epoch`, `loss`, `val_loss`, `t`, `seconds`
    stopped_early: bool = False  #: whether `patience` or a callback ended it before `epochs`

    @property
    def best_epoch(self) -> int:
        """The epoch that began with the lowest validation loss."""
        return best_epoch(self.history)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the history as a table, indexed by epoch."""
        pd = import_optional("pandas", "FitResult.to_pandas")
        return pd.DataFrame(self.history, columns=EpochRow._fields).set_index("epoch")

    def __repr__(self) -> str:
        last = self.history[-1]
        return (
            f"{type(self).__name__}({type(self.model).__name__}, epochs={len(self.history)}, "
            f"loss={last.loss:.4g}, val_loss={last.val_loss:.4g}, best_epoch={self.best_epoch}, "
            f"stopped_early={self.stopped_early})"
        )


def best_epoch(history: list[EpochRow]) -> int:
    """Return the first epoch of the lowest validation loss, 0 before any."""
    return min(history, key=lambda row: row.val_loss).epoch if history else 0
