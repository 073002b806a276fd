"""What changes from epoch to epoch: the weights, the optimiser, the history. One epoch of it."""

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..nn import DiffusionTime
from .history import BestEpoch, EpochRow
from .seeds import Purpose, seeded_rng
from .task import Task
from .triplets import Triplets


@dataclass
class Run:
    """The state of training: what a checkpoint holds, besides the settings."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    history: list[EpochRow] = field(default_factory=list)
    best: BestEpoch = field(default_factory=BestEpoch)


def start_run(model: nn.Module, task: Task, lr: float) -> Run:
    """Make the model ready for its first epoch: on the device, in training mode, with an optimiser.

    Raises:
        ValueError: If the model has nothing to train.
    """
    model.to(task.x.device)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(f"Expected 'model' to have trainable parameters (got {model}).")
    model.train()
    task.company.start_alike(model)
    return Run(model, torch.optim.Adam(parameters, lr=lr))


def train_epoch(run: Run, task: Task, validation: Triplets, keep_best: bool) -> EpochRow:
    """Draw triplets, pass forward and backward, step; return the new row of the history."""
    epoch = len(run.history) + 1
    started = time.perf_counter()
    triplets = task.draw(Purpose.TRIPLETS, epoch)
    run.optimizer.zero_grad()
    with seeded_rng(task.x.device, task.seed, Purpose.MODEL, epoch):
        z = task.forward(run.model)
        share = task.share_of_loss(z, triplets)
        share.backward()
        task.company.add_gradients(run.model)
        with torch.no_grad():
            val_loss = task.company.total(task.share_of_loss(z, validation))
    loss = task.company.total(share)
    _check_finite(epoch, loss, val_loss, run.model)
    t = mean_time(run.model)
    # Before the step: the losses and t belong to the weights that the pass was made with.
    run.best.update(epoch, val_loss.item(), run.model, keep_best)
    run.optimizer.step()
    row = EpochRow(epoch, loss.item(), val_loss.item(), t, time.perf_counter() - started)
    run.history.append(row)
    return row


def mean_time(model: nn.Module) -> float | None:
    """Return the mean of all diffusion times in a model, None if it has none.

    Example:
        >>> mean_time(nn.Linear(2, 2)) is None
        True
    """
    times = [
        module().detach().flatten()
        for module in model.modules()
        if isinstance(module, DiffusionTime)
    ]
    return torch.cat(times).mean().item() if times else None


def _check_finite(epoch: int, loss: Tensor, val_loss: Tensor, model: nn.Module) -> None:
    """Raise before a step that would spoil the weights."""
    gradients = {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    numbers = {"loss": loss, "validation loss": val_loss}
    numbers |= {f"gradient of '{name}'": gradient for name, gradient in gradients.items()}
    for name, value in numbers.items():
        if not bool(torch.isfinite(value).all()):
            raise RuntimeError(
                f"Expected the {name} to be finite in epoch {epoch} (got NaN or infinity). The "
                "weights are those with which the epoch began. To fix this error, try a smaller "
                "'lr', or look for extreme values in the data."
            )
