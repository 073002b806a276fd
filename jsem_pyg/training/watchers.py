"""A progress bar in the terminal and curves in TensorBoard, each a function of an epoch's row."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

from .._progress import open_bar
from .history import EpochRow

Watcher = Callable[[EpochRow], None]


def open_watchers(
    stack: ExitStack,
    progress: bool,
    tensorboard: str | os.PathLike[str] | None,
    epochs: int,
    done: int,
) -> list[Watcher]:
    """Open the bar and the curves that are wanted; the stack closes them."""
    watchers = []
    if tensorboard is not None:
        watchers.append(stack.enter_context(tensorboard_curves(tensorboard, done)))
    if progress:
        watchers.append(stack.enter_context(epoch_bar(epochs, done)))
    return watchers


@contextmanager
def epoch_bar(epochs: int, done: int = 0, file: TextIO | None = None) -> Iterator[Watcher]:
    """Show a bar with loss, t and seconds an epoch; yield a function that takes each row.

    Silent in a log file, or in a notebook without ipywidgets.

    Args:
        epochs: Number of epochs to reach.
        done: Number of epochs done before, when a run is resumed.
        file: Where to draw; None: the standard error.
    """
    options: dict[str, Any] = {"desc": "epoch", "unit": "epoch", "leave": True, "file": file}
    with open_bar(total=epochs, initial=done, **options) as bar:

        def show(row: EpochRow) -> None:
            bar.set_postfix_str(summarise(row), refresh=False)
            bar.update(row.epoch - bar.n)

        yield show


@contextmanager
def tensorboard_curves(folder: str | os.PathLike[str], done: int = 0) -> Iterator[Watcher]:
    """Write each row's numbers to a TensorBoard folder; yield a function that takes each row.

    Args:
        folder: Folder of the run, made if missing.
        done: Number of epochs done before; later ones left by a killed run are overwritten.

    Raises:
        ImportError: If TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            f"Expected TensorBoard to be installed, which tensorboard={os.fspath(folder)!r} needs. "
            "To fix this error, run `pip install tensorboard`, or leave the argument out."
        ) from error
    with SummaryWriter(os.fspath(folder), purge_step=done + 1) as writer:

        def write(row: EpochRow) -> None:
            for name, value in row._asdict().items():
                if name != "epoch" and value is not None:
                    writer.add_scalar(name, value, row.epoch)

        yield write


def summarise(row: EpochRow) -> str:
    """Return a row as one short text.

    Example:
        >>> summarise(EpochRow(epoch=3, loss=0.25, val_loss=0.26, t=4.8, seconds=0.125))
        'loss 0.2500  t 4.80  0.125 s/epoch'
    """
    time = "" if row.t is None else f"  t {row.t:.2f}"
    return f"loss {row.loss:.4f}{time}  {row.seconds:.3f} s/epoch"
