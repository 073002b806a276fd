"""A run of training by triplets: what it is made of, and one epoch."""

import time
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..nn import DiffusionTime
from .history import BestEpoch, EpochEnd, EpochRow
from .process_group import LocalGroup
from .seeds import Purpose, derive_generator, seeded_rng
from .training_graph import TrainingGraph
from .triplets import Loss, Triplets, TripletSampler


@dataclass
class Run:
    """A learning problem and its state, which a checkpoint holds."""

    model: nn.Module
    graph: TrainingGraph  # of the next epoch: all edges, or those that are kept
    sampler: TripletSampler
    loss: Loss
    batch_size: int
    seed: int
    group: LocalGroup  # the processes that share the graph
    optimizer: torch.optim.Optimizer
    kept: Tensor | None = None  # [E] which edges of the first graph these are; None: all
    history: list[EpochRow] = field(default_factory=list)
    best: BestEpoch = field(default_factory=BestEpoch)

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
            share = self._share_of_loss(z, triplets)
            share.backward()
            self.group.sum_gradients(self.model.parameters())
            with torch.no_grad():
                val_loss = self.group.total(self._share_of_loss(z, validation))
        loss = self.group.total(share)
        _check_finite(epoch, loss, val_loss, self.model)
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

    def _share_of_loss(self, z: Tensor, triplets: Triplets) -> Tensor:
        return self.group.share_of_loss(self.loss, z, triplets, self.batch_size)


def mean_time(model: nn.Module) -> float | None:
    """The mean of all diffusion times in a model, None if it has none."""
    times = [
        module().detach().flatten()
        for module in model.modules()
        if isinstance(module, DiffusionTime)
    ]
    return torch.cat(times).mean().item() if times else None


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
