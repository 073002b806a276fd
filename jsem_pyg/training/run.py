"""A run of training by triplets: what it is made of, and one epoch."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..nn import AnisotropicDiffusion, DiffusionTime
from .history import BestEpoch, EpochEnd, EpochRow
from .seeds import Purpose, derive_generator, seeded_rng
from .training_graph import TrainingGraph
from .triplets import Loss, Triplets, TripletSampler

_log = logging.getLogger(__name__)


@dataclass
class Run:
    """A learning problem and its state, which a checkpoint holds.

    `DistributedRun` is that of one of several processes, which differ in a few methods.
    """

    model: nn.Module
    graph: TrainingGraph  # of the next epoch: all edges, or those that are kept
    sampler: TripletSampler
    loss: Loss
    batch_size: int
    seed: int
    optimizer: torch.optim.Optimizer
    kept: Tensor | None = None  # [E] which edges of the first graph these are; None: all
    history: list[EpochRow] = field(default_factory=list)
    best: BestEpoch = field(default_factory=BestEpoch)
    is_first: bool = True  # of the processes: it writes files and shows a bar

    def copy_weights(self) -> None:
        """Give the models of all processes the weights of the first."""

    def share_of_loss(self, z: Tensor, triplets: Triplets) -> Tensor:
        """This process's share of the loss."""
        return self.loss(z, triplets)

    def total(self, value: Tensor) -> Tensor:
        """The sum of the values of all processes."""
        return value.detach()

    def sum_gradients(self) -> None:
        """Add up the gradients of all processes."""

    def any(self, stop: bool) -> bool:
        """True if it is true in any process."""
        return stop

    def depends_on(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that the result of all processes depends on."""
        return dict(settings)

    def keep_edges(self, kept: Tensor) -> None:
        """Go on with some of the edges of `graph` [E], both directions alike."""
        self.graph = self.graph.keep_edges(kept)
        kept = kept.to(self.graph.x.device)
        if self.kept is not None:
            kept = torch.zeros_like(self.kept).masked_scatter(self.kept, kept)
        self.kept = kept

    def draw(self, purpose: Purpose, epoch: int = 0) -> Triplets:
        """Draw the triplets of an epoch."""
        generator = derive_generator(self.seed, purpose, epoch)
        return self.sampler.sample(self.batch_size, generator).to(self.graph.x.device)

    @torch.enable_grad()
    def train_epoch(self, validation: Triplets, keep_best: bool) -> EpochRow:
        """Draw triplets, pass forward and backward, step; return the new row of the history."""
        epoch = len(self.history) + 1
        started = time.perf_counter()
        triplets = self.draw(Purpose.TRIPLETS, epoch)
        self.optimizer.zero_grad()
        with seeded_rng(self.graph.x.device, self.seed, Purpose.MODEL, epoch):
            z = self.graph.forward(self.model)
            share = self.share_of_loss(z, triplets)
            share.backward()
            self.sum_gradients()
            with torch.no_grad():
                val_loss = self.total(self.share_of_loss(z, validation))
        loss = self.total(share)
        _check_finite(epoch, loss, val_loss, self.model)
        if epoch == 1 and self.is_first:
            _log_still_conductances(self.model)
        t = mean_time(self.model)
        # Before the step: the losses and t belong to the weights that the pass was made with.
        self.best.update(epoch, val_loss.item(), self.model, keep_best)
        self.optimizer.step()
        row = EpochRow(epoch, loss.item(), val_loss.item(), t, time.perf_counter() - started)
        self.history.append(row)
        return row

    def epoch_end(self, epochs: int) -> EpochEnd:
        """The argument of a callback."""
        row = self.history[-1]
        return EpochEnd(self.model, row, self.history, epochs, self.graph, self.keep_edges)


def mean_time(model: nn.Module) -> float | None:
    """The mean of all diffusion times in a model, None if it has none."""
    times = [
        module().detach().flatten()
        for module in model.modules()
        if isinstance(module, DiffusionTime)
    ]
    return torch.cat(times).mean().item() if times else None


def _log_still_conductances(model: nn.Module) -> None:
    """Log the layers whose conductance gets next to no gradient, and so hardly learns."""

    def largest(part: nn.Module) -> float:
        gradients = [each.grad.abs().max() for each in part.parameters() if each.grad is not None]
        return max(map(float, gradients), default=0.0)

    most = largest(model)
    for name, layer in model.named_modules():
        part = layer.conductance if isinstance(layer, AnisotropicDiffusion) else None
        if part is None or not any(each.requires_grad for each in part.parameters()):
            continue
        if 1000 * largest(part) <= most:
            _log.warning(
                "the conductance of %s hardly learns: its largest gradient is %.2g, and %.2g in "
                "the model. Standardised edge features, or a larger 'rate', help if these features "
                "tell anything.",
                name or type(layer).__name__,
                largest(part),
                most,
            )


def _check_finite(epoch: int, loss: Tensor, val_loss: Tensor, model: nn.Module) -> None:
    """Raise before a step that would spoil the weights."""
    numbers = {"loss": loss, "validation loss": val_loss} | {
        f"gradient of '{name}'": parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    for name, value in numbers.items():
        if not bool(torch.isfinite(value).all()):
            raise RuntimeError(
                f"Expected the {name} to be finite in epoch {epoch} (got NaN or infinity). The "
                "weights are those with which the epoch began. To fix this error, try a smaller "
                "'lr', or look for extreme values in the data."
            )
