"""What changes from epoch to epoch: weights, optimiser, history, edges. One epoch of it."""

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..nn import DiffusionTime
from .history import BestEpoch, EpochRow
from .model_input import ModelInput
from .seeds import Purpose, seeded_rng
from .task import Task
from .triplets import Triplets


@dataclass
class Run:
    """The state of training: what a checkpoint holds, besides the settings."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    input: ModelInput  # what the model is called with next: the task's, or some edges of it
    kept: Tensor | None = None  # [E] which columns of the task's edges these are; None: all
    history: list[EpochRow] = field(default_factory=list)
    best: BestEpoch = field(default_factory=BestEpoch)

    def keep_edges(self, kept: Tensor) -> None:
        """Go on with some of the edges that the model is called with.

        Args:
            kept: [E'] which of these stay, both directions alike.

        Raises:
            TypeError: If `kept` is not a boolean tensor.
            ValueError: If it has another shape.
        """
        self.input = self.input.select(kept)
        kept = kept.to(self.input.x.device)
        if self.kept is not None:
            kept = torch.zeros_like(self.kept).masked_scatter(self.kept, kept)
        self.kept = kept


def start_run(model: nn.Module, task: Task, lr: float) -> Run:
    """Make the model ready for its first epoch: on the device, in training mode, with an optimiser.

    Raises:
        ValueError: If the model has nothing to train.
    """
    model.to(task.device)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(f"Expected 'model' to have trainable parameters (got {model}).")
    model.train()
    task.company.start_alike(model)
    return Run(model, torch.optim.Adam(parameters, lr=lr), task.input)


@torch.enable_grad()
def train_epoch(run: Run, task: Task, validation: Triplets, keep_best: bool) -> EpochRow:
    """Draw triplets, pass forward and backward, step; return the new row of the history."""
    epoch = len(run.history) + 1
    started = time.perf_counter()
    triplets = task.draw(Purpose.TRIPLETS, epoch)
    run.optimizer.zero_grad()
    with seeded_rng(task.device, task.seed, Purpose.MODEL, epoch):
        z = run.input.forward(run.model)
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
