"""Training by triplets: full-batch, one optimiser step an epoch, resumable bit for bit."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, TextIO

import torch
from torch import nn

from .._checks import check_bool, check_choice, check_positive, check_positive_int
from .._progress import open_bar
from ..nn import AnisotropicDiffusion
from ..partition import DistributedGraph
from .checkpoint import CheckpointFile
from .distributed_run import DistributedRun, DistributedTriplets
from .history import Callback, EpochRow, FitResult
from .prune_edges import PruneEdges, diffusion_layers
from .run import Run
from .samplers import GraphTriplets, LabelTriplets
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph
from .triplets import Loss, TripletLoss, TripletSampler

_log = logging.getLogger(__name__)

EPOCHS = 100


def fit_triplets(
    model: nn.Module,
    graph: TrainingGraph,
    *,
    loss: str | Loss = "triplet",
    sampler: Literal["graph", "labels"] | TripletSampler = "graph",
    epochs: int = EPOCHS,
    lr: float = 0.01,
    batch_size: int = 4096,
    margin: float = 0.5,
    sketch_dim: int | None = None,
    patience: int | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
) -> FitResult:
    """Train a model by triplets; see `fit`."""
    counts = {"batch_size": batch_size, "checkpoint_every": checkpoint_every}
    for name, count in (counts if patience is None else counts | {"patience": patience}).items():
        check_positive_int(name, count)
    check_positive("lr", lr)
    check_positive("margin", margin)
    check_bool("resume", resume)
    if resume and checkpoint is None:
        raise ValueError(
            "Expected 'checkpoint' to be given with resume=True (got None). To fix this error, "
            "pass the file that the run to continue was kept in."
        )
    _check_callbacks(callbacks)
    graph.check_takes(model)
    criterion = _make_loss(loss, margin)
    if isinstance(criterion, nn.Module):
        criterion.to(graph.x.device)
    is_shared = isinstance(graph.edge_index, DistributedGraph)
    triplets = _make_sampler(graph, sampler)
    settings: dict[str, Any] = {"lr": lr, "batch_size": batch_size, "margin": margin, "seed": seed}
    settings |= {"sketch_dim": sketch_dim, "patience": patience}
    settings |= _data_settings(graph, sampler, criterion)
    pruning = [each for each in callbacks if isinstance(each, PruneEdges)]
    if pruning:  # what cannot be pruned is refused before the first epoch
        diffusion_layers(model)
        graph.whole_edge_index()
    settings |= {f"callbacks.{i}": each for i, each in enumerate(pruning)}
    run = (DistributedRun if is_shared else Run)(
        model,
        graph if sketch_dim is None else _sketch(model, graph, sketch_dim, seed),
        triplets,
        criterion,
        batch_size,
        seed,
        _make_optimizer(model, lr, graph.x.device),
    )
    model.train()
    run.copy_weights()
    file = None if checkpoint is None else CheckpointFile(checkpoint, run, settings)
    if resume and file is not None:
        file.restore(run, epochs)
    validation, stop = run.draw(Purpose.VALIDATION), False
    with epoch_bar(epochs, len(run.history), progress and run.is_first) as show:
        while len(run.history) < epochs and not stop and not run.best.exhausted(patience):
            row = run.train_epoch(validation, keep_best=patience is not None)
            answers = [each(run.epoch_end(epochs)) for each in callbacks]  # of all, whatever one is
            stop = run.any(any(answers))
            if file is not None and row.epoch % checkpoint_every == 0:
                file.save(run)
            show(row)
    if file is not None:
        file.save(run)
    if run.best.weights is not None:  # kept if there is a patience
        model.load_state_dict(run.best.weights)
    run.optimizer.zero_grad()
    stopped = len(run.history) < epochs
    result = FitResult(model.eval(), run.history, run.best.epoch, stopped, run.kept)
    _log.info("%s", result)
    return result


@contextmanager
def epoch_bar(
    epochs: int, done: int, shown: bool = True, file: TextIO | None = None
) -> Iterator[Callable[[EpochRow], None]]:
    """Show a bar with loss, t and seconds an epoch; yield a function that takes each row.

    Silent in a log file, or in a notebook without ipywidgets.
    """
    options: dict[str, Any] = {"desc": "epoch", "unit": "epoch", "leave": True, "file": file}
    with open_bar(shown, total=epochs, initial=done, **options) as bar:

        def show(row: EpochRow) -> None:
            time = "" if row.t is None else f"  t {row.t:.2f}"
            text = f"loss {row.loss:.4f}{time}  {row.seconds:.3f} s/epoch"
            bar.set_postfix_str(text, refresh=False)
            bar.update(row.epoch - bar.n)

        yield show


def _make_loss(loss: str | Loss, margin: float) -> Loss:
    """The loss of the argument; raise unless it can be called and has nothing to train."""
    if isinstance(loss, str):
        return TripletLoss(margin)
    if not callable(loss):
        raise TypeError(
            f"Expected 'loss' to be 'triplet' or a function of (z, triplets) (got {loss!r})."
        )
    if isinstance(loss, nn.Module) and any(each.requires_grad for each in loss.parameters()):
        raise ValueError(
            f"Expected 'loss' to have no trainable parameters (got {loss}), since only those of "
            "'model' are trained. To fix this error, move them into the model or freeze them."
        )
    return loss


def _make_sampler(
    graph: TrainingGraph, sampler: Literal["graph", "labels"] | TripletSampler
) -> TripletSampler:
    """The sampler of the argument."""
    if isinstance(graph.edge_index, DistributedGraph):
        if sampler != "graph":
            raise NotImplementedError(
                "Expected 'sampler' to be 'graph' where several processes share the graph (got "
                f"{sampler!r}), since each has its own nodes only."
            )
        return DistributedTriplets(graph.edge_index, graph.edge_weight)
    if not isinstance(sampler, str):
        if not callable(getattr(sampler, "sample", None)):
            raise TypeError(
                "Expected 'sampler' to be 'graph', 'labels' or an object with "
                f"sample(num_triplets, generator) (got {sampler!r})."
            )
        return sampler
    check_choice("sampler", sampler, ("graph", "labels"))
    if sampler == "graph":
        return GraphTriplets(graph.edge_index, graph.edge_weight, graph.x.size(0))
    return LabelTriplets(graph.labels_on_mask())


def _make_optimizer(model: nn.Module, lr: float, device: torch.device) -> torch.optim.Optimizer:
    """Adam for the parameters that require a gradient; the model moves to the device."""
    model.to(device)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(f"Expected 'model' to have trainable parameters (got {model}).")
    return torch.optim.Adam(parameters, lr=float(lr))


def _sketch(model: nn.Module, graph: TrainingGraph, sketch_dim: int, seed: int) -> TrainingGraph:
    """The graph with its channels projected at random to fewer, keeping distances in the mean."""
    check_positive_int("sketch_dim", sketch_dim)
    num_channels = graph.x.size(1)
    if sketch_dim >= num_channels:
        raise ValueError(
            f"Expected 'sketch_dim' to be less than the {num_channels} channels of 'data.x' (got "
            f"{sketch_dim}). To fix this error, leave it out and train on all channels."
        )
    if not (isinstance(model, AnisotropicDiffusion) and model.sketchable):
        raise ValueError(
            "Expected 'model' to be an AnisotropicDiffusion that treats all channels alike when "
            f"'sketch_dim' is given (got {model}), since only a diffusion commutes with a "
            "projection of the channels. To fix this error, leave 'sketch_dim' out."
        )
    generator = derive_generator(seed, Purpose.SKETCH)
    size = num_channels, sketch_dim
    projection = torch.randn(size, generator=generator, dtype=torch.float32) / sketch_dim**0.5
    return replace(graph, x=graph.x @ projection.to(graph.x))


def _data_settings(graph: TrainingGraph, sampler: object, loss: Loss) -> dict[str, Any]:
    """Settings that must not change when a run is resumed: data, sampler and loss."""
    settings: dict[str, Any] = {}
    for name, value in {"sampler": sampler, "loss": loss}.items():
        settings[name] = value
        # What no checkpoint restores: weights that are not trained, indices, counters.
        if isinstance(value, nn.Module):
            settings[f"{name}.state"] = value.state_dict()
        elif hasattr(value, "__dict__"):
            settings[f"{name}.state"] = vars(value)
    used = {"x": graph.x, "edge_index": graph.edge_index, **graph.edge_inputs}
    if isinstance(sampler, str) and sampler == "labels":
        labels = {"y": graph.y, "train_mask": graph.train_mask}
        used |= {name: value for name, value in labels.items() if value is not None}
    return settings | {f"data.{name}": value for name, value in used.items()}


def _check_callbacks(callbacks: Sequence[Callback]) -> None:
    if isinstance(callbacks, str) or not isinstance(callbacks, Sequence):
        raise TypeError(
            "Expected 'callbacks' to be a list of functions (got "
            f"{type(callbacks).__name__}). To fix this, put brackets around a single one."
        )
    for callback in callbacks:
        if not callable(callback):
            raise TypeError(f"Expected 'callbacks' to be functions (got {callback!r} among them).")
