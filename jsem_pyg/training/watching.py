"""Shows the progress of a training: a bar, the diffusion time, and numbers that go wrong."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from .._progress import open_bar
from ..nn.diffusion_time import DiffusionTime
from .history import EpochRow


@contextmanager
def epoch_bar(epochs: int, done: int, shown: bool) -> Iterator[Callable[[EpochRow], None]]:
    """Show a bar with loss, t and seconds an epoch; yield a function that takes each row.

    Nothing is shown in a log file, or in a notebook without ipywidgets.
    """
    options: dict[str, Any] = {"desc": "epoch", "unit": "epoch", "leave": True}
    with open_bar(shown, total=epochs, initial=done, **options) as bar:

        def show(row: EpochRow) -> None:
            time = "" if row.t is None else f"  t {row.t:.2f}"
            text = f"loss {row.loss:.4f}{time}  {row.seconds:.3f} s/epoch"
            bar.set_postfix_str(text, refresh=False)
            bar.update(row.epoch - bar.n)

        yield show


def mean_time(model: nn.Module) -> float | None:
    """Return the mean of all diffusion times in a model, None if it has none."""
    times = [
        module().detach().flatten()
        for module in model.modules()
        if isinstance(module, DiffusionTime)
    ]
    return torch.cat(times).mean().item() if times else None


def check_numbers(epoch: int, loss: Tensor, val_loss: Tensor, model: nn.Module) -> None:
    """Raise a RuntimeError before a step that would spoil the weights."""
    numbers = {"loss": loss, "validation loss": val_loss} | {
        f"gradient of '{name}'": parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    for name, value in numbers.items():
        if not bool(torch.isfinite(value).all()):
            raise RuntimeError(
                f"Expected the {name} to be finite in epoch {epoch} (got NaN or infinity). The "
                "weights are those with which the epoch began. To fix this, try a smaller 'lr'."
            )
