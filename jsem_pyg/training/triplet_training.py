"""Training by triplets: full-batch, one optimiser step an epoch, resumable bit for bit."""

import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import nn
from torch_geometric.data import Data

from .._checks import (
    check_bool,
    check_choice,
    check_instance,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from ..nn import AnisotropicDiffusion
from .checkpoint import CheckpointFile
from .history import Callback, FitResult, StatefulCallback
from .process_group import process_group
from .run import Run
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph, prepare_graph
from .triplets import Loss, TripletLoss, TripletSampler
from .watchers import Watcher, open_watchers

_log = logging.getLogger(__name__)

EPOCHS = 100


def fit_triplets(
    model: nn.Module,
    data: Data | TrainingGraph,
    *,
    loss: Literal["triplet"] | Loss = "triplet",
    sampler: Literal["graph", "labels"] | TripletSampler = "graph",
    epochs: int = EPOCHS,
    lr: float = 0.01,
    batch_size: int = 4096,
    margin: float = 0.5,
    sketch_dim: int | None = None,
    patience: int | None = None,
    device: torch.device | str | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    tensorboard: str | os.PathLike[str] | None = None,
) -> FitResult:
    r"""Train a graph model so that nodes which are alike come to lie together.

    An epoch draws triplets, passes once forward over the whole graph and once backward, and makes
    one step of Adam. Any module that is called as `model(x, edge_index)` will do; `edge_weight`
    and `edge_attr` are passed by name if `data` has them.

    All randomness follows from `seed` and the number of the epoch: the caller's generators are
    neither read nor changed, and a run that was killed and resumed ends with the same weights as
    one that was not, bit for bit on a CPU (dropout included).

    Sketching: a diffusion acts on each channel by itself, so it commutes with a projection of the
    channels, :math:`e^{-tL}(X R) = (e^{-tL} X) R`. `sketch_dim` trains on :math:`X R` with a
    fixed Gaussian `R` of variance 1 / sketch_dim: the operator is exact, and the distances in
    the loss are kept up to about :math:`\sqrt{1 / \text{sketch\_dim}}` (Johnson and
    Lindenstrauss, 1984). The trained model then takes all channels.

    Several processes train one model on a graph that they share, if each passes its part by
    :func:`~jsem_pyg.partition.distribute`: all draw the triplets that one process would, and make
    its steps. Their models need not have equal weights before: all begin with those of the first
    process. It also writes the checkpoint, which all read; the loss has to be a mean over triplets,
    and the sampler "graph".

    Args:
        model: The module to train, in place.
        data: A graph with `x` [N, D] and `edge_index` [2, E], both directions; optionally
            `edge_weight` [E] and `edge_attr` [E, edge_dim]. It is not changed.
        loss: "triplet" (see `TripletLoss`), or a function of (z, triplets) to a scalar, z being the
            model's output.
        sampler: "graph" (see `GraphTriplets`; no labels needed), "labels" (see `LabelTriplets`;
            `data.y` on `data.train_mask`, or everywhere if there is no mask), or an object with
            `sample(num_triplets, generator)`.
        epochs: Number of epochs, those before a resume included.
        lr: Learning rate of Adam.
        batch_size: Number of triplets an epoch.
        margin: Margin of the "triplet" loss, a distance on the unit sphere.
        sketch_dim: Number of channels to train on, less than D; all if omitted. Needs an
            `AnisotropicDiffusion` that treats all channels alike.
        patience: Stop after this many epochs without a lower validation loss, and give back the
            weights that had the lowest. The validation loss is that of fixed triplets in the
            epoch's own forward pass: it belongs to the weights with which the epoch began, and
            those after the very last step are never compared.
        device: Where to train; the model stays there. Where `data.x` lies if omitted.
        seed: A non-negative number that fixes all randomness.
        checkpoint: File to keep the run in, replaced whole (a safetensors file, of which nothing
            can be executed); nothing is written if omitted.
        checkpoint_every: Epochs between two writes. The end of a run is always written.
        resume: Continue from `checkpoint` if that file exists. `epochs` may have grown; what
            else shapes the result must be as it was: the arguments, the data to the last entry,
            and the model's configuration.
        callbacks: Functions that are called with an `EpochEnd` after each epoch (and after the
            checkpoint, if it is due). Training stops if any of them returns True. One with
            `state_dict` and `load_state_dict`, such as :class:`~jsem_pyg.training.PruneEdges`, is
            called before the checkpoint, which keeps its state.
        progress: Show a bar with loss, t and time in a terminal.
        tensorboard: Folder for TensorBoard curves; none are written if omitted.

    Returns:
        The model in evaluation mode, with the history of the run.

    Raises:
        TypeError: If an argument has the wrong type, or if `model` does not take `edge_weight` or
            `edge_attr`, which `data` has.
        ValueError: If an argument, or what `data` holds, cannot be trained with, or if the run
            disagrees with the checkpoint it is to continue; model and file are then untouched.
        OSError: If `checkpoint` cannot be written, which the start of a run tries.
        ImportError: If `tensorboard` is given and TensorBoard not installed.
        RuntimeError: If a loss or gradient is not finite; the weights are then those with which
            that epoch began. Also if another process ended or hangs.
        NotImplementedError: If several processes cannot share the sampler.

    Source: Schroff et al., "FaceNet", CVPR 2015, for the triplet loss.

    Example:
        >>> from torch_geometric.nn import GCNConv
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> graph = Data(x=torch.eye(4), edge_index=ring)
        >>> result = fit_triplets(GCNConv(4, 2), graph, epochs=3, progress=False)
        >>> len(result.to_pandas())
        3
    """
    check_instance("model", model, nn.Module, "a torch.nn.Module")
    graph = prepare_graph(data, device)
    counts = {"epochs": epochs, "batch_size": batch_size, "checkpoint_every": checkpoint_every}
    for name, count in (counts if patience is None else counts | {"patience": patience}).items():
        check_positive_int(name, count)
    check_positive("lr", lr)
    check_positive("margin", margin)
    check_nonnegative_int("seed", seed)
    check_bool("resume", resume)
    check_bool("progress", progress)
    if tensorboard is not None:
        check_instance("tensorboard", tensorboard, (str, os.PathLike), "a path or None")
    _check_callbacks(callbacks)
    criterion = _make_loss(loss, margin)
    if isinstance(criterion, nn.Module):
        criterion.to(graph.x.device)
    group = process_group(graph)
    stateful = [each for each in callbacks if isinstance(each, StatefulCallback)]
    settings: dict[str, Any] = {"lr": lr, "batch_size": batch_size, "margin": margin, "seed": seed}
    settings |= {"sketch_dim": sketch_dim, "patience": patience}
    settings |= _data_settings(graph, sampler, criterion)
    settings |= {f"callbacks.{i}": each for i, each in enumerate(stateful)}
    run = Run(
        model,
        graph if sketch_dim is None else _sketch(model, graph, sketch_dim, seed),
        group.make_sampler(sampler, graph),
        criterion,
        batch_size,
        seed,
        group,
        _make_optimizer(model, lr, graph.x.device),
    )
    model.train()
    group.copy_weights(model)
    file = CheckpointFile(checkpoint, checkpoint_every, run, settings, stateful)
    graph.check_takes(model)
    if resume:
        file.restore(run, epochs)
    with ExitStack() as stack:
        watchers = []
        if group.is_first:
            watchers = open_watchers(stack, progress, tensorboard, epochs, len(run.history))
        _train(run, epochs, patience, file, watchers, callbacks)
    file.save(run)
    if run.best.weights is not None:  # kept if there is a patience
        model.load_state_dict(run.best.weights)
    run.optimizer.zero_grad()
    stopped = len(run.history) < epochs
    result = FitResult(model.eval(), run.history, run.best.epoch, stopped, run.kept)
    _log.info("%s", result)
    return result


def _train(
    run: Run,
    epochs: int,
    patience: int | None,
    file: CheckpointFile,
    watchers: Sequence[Watcher],
    callbacks: Sequence[Callback],
) -> None:
    """Run epochs until there are enough, nothing gets better, or a callback returns True."""
    validation = run.draw(Purpose.VALIDATION)
    stop = False
    while len(run.history) < epochs and not stop and not run.best.exhausted(patience):
        row = run.train_epoch(validation, keep_best=patience is not None)
        # All callbacks are called, whatever one returns; those with a state before it is saved.
        answers = [each(run.epoch_end(epochs, True)) for each in file.callbacks]
        file.save_if_due(run)
        for watch in watchers:
            watch(row)
        others = [each for each in callbacks if not isinstance(each, StatefulCallback)]
        answers += [each(run.epoch_end(epochs, False)) for each in others]
        stop = run.group.any(any(answers))


def _make_loss(loss: str | Loss, margin: float) -> Loss:
    """The loss of the argument.

    Raises:
        TypeError: If it cannot be called.
        ValueError: If it has another name than "triplet", or parameters of its own to train.
    """
    if isinstance(loss, str):
        check_choice("loss", loss, ("triplet",))
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


def _make_optimizer(model: nn.Module, lr: float, device: torch.device) -> torch.optim.Optimizer:
    """Adam for what the model has to train; the model moves to the device."""
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
    projection = torch.randn(num_channels, sketch_dim, generator=generator) / sketch_dim**0.5
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
