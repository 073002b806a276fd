"""Training by triplets: full-batch, one optimiser step an epoch, resumable bit for bit."""

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from .._checks import (
    check_bool,
    check_instance,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from .data_checks import check_data, check_edge_inputs, check_model, read_device
from .history import Callback, EpochEnd, FitResult, StatefulCallback
from .run import Run, start_run, train_epoch
from .run_file import RunFile
from .seeds import Purpose
from .sketch import sketch
from .task import Loss, Task, make_loss, make_task, task_settings
from .triplets import TripletSampler
from .watchers import Watcher, epoch_bar, tensorboard_curves

_log = logging.getLogger(__name__)

EPOCHS = 100


def fit_triplets(
    model: nn.Module,
    data: Data,
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

    Several processes train one model on a graph that they share, if `data` is what
    :func:`~jsem_pyg.partition.distribute` gives each: all draw the triplets that one process would,
    and make its steps. The checkpoint is written by the first process, and read by all; the loss
    has to be a mean over triplets, and the sampler "graph".

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
            weights that had the lowest. The validation loss is taken on triplets that are drawn
            once, from the epoch's own forward pass: it belongs to the weights with which the
            epoch began, and those after the very last step are never compared.
        device: Where to train; the model stays there. Where `data.x` lies if omitted.
        seed: A non-negative number that fixes all randomness.
        checkpoint: File to keep the run in, replaced whole (a safetensors file, of which nothing
            can be executed); nothing is written if omitted.
        checkpoint_every: Epochs between two writes. The end of a run is always written.
        resume: Continue from `checkpoint` if that file exists. `epochs` may have grown; what
            else shapes the result must be as it was: the arguments, the data to the last entry,
            and the model's configuration.
        callbacks: Functions that are called with an `EpochEnd` after each epoch (and after the
            checkpoint, if it is due). Training stops if any of them returns True. One with a state,
            such as :class:`~jsem_pyg.training.PruneEdges`, is called before the checkpoint, which
            keeps its state.
        progress: Show a bar with loss, t and time, where there is a terminal to show it in.
        tensorboard: Folder for TensorBoard curves; none are written if omitted.

    Returns:
        The model in evaluation mode, with the history of the run.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument, or what `data` holds, cannot be trained with, or if the run
            disagrees with the checkpoint it is to continue; model and file are then untouched.
        OSError: If `checkpoint` cannot be written, which the start of a run tries.
        ImportError: If `tensorboard` is asked for and not installed.
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
    check_model(model)
    check_data(data)
    check_edge_inputs(data)
    _check_numbers(epochs, lr, batch_size, margin, patience, seed, checkpoint_every)
    _check_watching(checkpoint, resume, callbacks, progress, tensorboard)
    x = data.x if sketch_dim is None else sketch(model, data.x, sketch_dim, seed)
    place = read_device(device, data.x)
    chosen = make_loss(loss, margin, place)
    task = make_task(data, x, sampler, chosen, batch_size, seed, place)
    run = start_run(model, task, float(lr))
    settings: dict[str, Any] = {"lr": lr, "batch_size": batch_size, "margin": margin, "seed": seed}
    settings |= {"sketch_dim": sketch_dim, "patience": patience}
    settings |= task_settings(data, sampler, chosen)
    stateful = [each for each in callbacks if isinstance(each, StatefulCallback)]
    settings |= {f"callbacks.{i}": each for i, each in enumerate(stateful)}
    company = task.company
    settings = company.settings(settings) if checkpoint is not None else {}
    file = RunFile(checkpoint, checkpoint_every, run, settings, company.is_first, stateful)
    if resume:
        file.restore(run, epochs)
    with ExitStack() as stack:
        watchers = _open_watchers(
            stack,
            progress and company.is_first,
            tensorboard if company.is_first else None,
            epochs,
            len(run.history),
        )
        _train(run, task, epochs, patience, file, watchers, callbacks)
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
    task: Task,
    epochs: int,
    patience: int | None,
    file: RunFile,
    watchers: Sequence[Watcher],
    callbacks: Sequence[Callback],
) -> None:
    """Run epochs until there are enough, nothing gets better, or a callback says so."""
    validation = task.draw(Purpose.VALIDATION)
    stop = False
    while len(run.history) < epochs and not stop and not run.best.exhausted(patience):
        row = train_epoch(run, task, validation, keep_best=patience is not None)
        # All of them, whatever one says; those whose state is kept before it is.
        answers = [each(_epoch_end(run, epochs, run.keep_edges)) for each in file.callbacks]
        file.save_if_due(run)
        for watch in watchers:
            watch(row)
        end = _epoch_end(run, epochs, _refuse_to_keep_edges)
        answers += [each(end) for each in callbacks if not isinstance(each, StatefulCallback)]
        stop = task.company.agree(any(answers))


def _epoch_end(run: Run, epochs: int, keep_edges: Callable[[Tensor], None]) -> EpochEnd:
    return EpochEnd(run.model, run.history[-1], run.history, epochs, run.input, keep_edges)


def _refuse_to_keep_edges(kept: Tensor) -> NoReturn:
    raise RuntimeError(
        "Expected 'keep_edges' to be called by a callback with state_dict and load_state_dict (got "
        "one without), since a checkpoint that is written before the call would not know of it."
    )


def _check_numbers(
    epochs: int,
    lr: float,
    batch_size: int,
    margin: float,
    patience: int | None,
    seed: int,
    checkpoint_every: int,
) -> None:
    check_positive_int("epochs", epochs)
    check_positive("lr", lr)
    check_positive_int("batch_size", batch_size)
    check_positive("margin", margin)
    if patience is not None:
        check_positive_int("patience", patience)
    check_nonnegative_int("seed", seed)
    check_positive_int("checkpoint_every", checkpoint_every)


def _check_watching(
    checkpoint: str | os.PathLike[str] | None,
    resume: bool,
    callbacks: Sequence[Callback],
    progress: bool,
    tensorboard: str | os.PathLike[str] | None,
) -> None:
    for name, path in (("checkpoint", checkpoint), ("tensorboard", tensorboard)):
        if path is not None:
            check_instance(name, path, (str, os.PathLike), "a path or None")
    check_bool("resume", resume)
    check_bool("progress", progress)
    if isinstance(callbacks, str) or not isinstance(callbacks, Sequence):
        raise TypeError(
            "Expected 'callbacks' to be a list of functions (got "
            f"{type(callbacks).__name__}). To fix this, put brackets around a single one."
        )
    for callback in callbacks:
        if not callable(callback):
            raise TypeError(f"Expected 'callbacks' to be functions (got {callback!r} among them).")


def _open_watchers(
    stack: ExitStack,
    progress: bool,
    tensorboard: str | os.PathLike[str] | None,
    epochs: int,
    done: int,
) -> list[Watcher]:
    """Open what watches the run; the stack closes it."""
    watchers = []
    if tensorboard is not None:
        watchers.append(stack.enter_context(tensorboard_curves(tensorboard, done)))
    if progress:
        watchers.append(stack.enter_context(epoch_bar(epochs, done)))
    return watchers
