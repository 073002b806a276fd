"""The training loop: full-batch, one optimiser step an epoch, resumable bit for bit."""

import copy
import inspect
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data

from .._checks import check_choice, check_nonnegative_int, check_positive, check_positive_int
from ..nn import DiffusionClassifier
from .history import EpochEnd, FitResult
from .progress import Watcher, progress_bar, tensorboard_curves
from .run import start_run, train_epoch
from .seeds import Purpose
from .self_training import ROUNDS, known_labels, self_train
from .task import Loss, check_data, make_task, sketch
from .triplets import TripletSampler

_log = logging.getLogger(__name__)

Callback = Callable[[EpochEnd], bool | None]


def fit(
    model: nn.Module,
    data: Data,
    *,
    loss: Literal["auto", "self_training", "triplet"] | Loss = "auto",
    sampler: Literal["graph", "labels"] | TripletSampler = "graph",
    epochs: int | None = None,
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
    r"""Train a graph model, without labels or with few.

    A :class:`~jsem_pyg.nn.DiffusionClassifier` is trained by self-training: clusters of the
    diffused features teach it, and then its own diffused probabilities do, see
    :func:`~jsem_pyg.training.self_train`. It returns class probabilities, and chooses its own
    diffusion time.

    Any other model is trained by triplets, so that nodes which are alike come to lie together: an
    epoch draws triplets, passes once forward over the whole graph and once backward, and makes
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

    Args:
        model: The module to train, in place.
        data: A graph with `x` [N, D] and `edge_index` [2, E], both directions; optionally
            `edge_weight` [E] and `edge_attr` [E, edge_dim]. It is not changed.
        loss: "self_training" (see `self_train`), "triplet" (see `TripletLoss`), a function of (z,
            triplets) to a scalar, z being the model's output, or "auto": "self_training" for a
            `DiffusionClassifier`, else "triplet".
        sampler: "graph" (see `GraphTriplets`; no labels needed), "labels" (see `LabelTriplets`;
            `data.y` on `data.train_mask`, or everywhere if there is no mask; for self-training,
            these labels are the known ones), or an object with `sample(num_triplets, generator)`.
        epochs: Number of epochs, those before a resume included: 100 if omitted, or 4 rounds of
            self-training, of which each solves for the classifier anew. What follows, other than
            `device` and `seed`, is for triplets alone; self-training is too short for a bar.
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
        checkpoint: File to keep the run in, replaced whole; nothing is written if omitted.
        checkpoint_every: Epochs between two writes. The end of a run is always written.
        resume: Continue from `checkpoint` if that file exists. `epochs` may have grown; what
            else shapes the result must be as it was.
        callbacks: Functions that are called with an `EpochEnd` after each epoch (and after the
            checkpoint, if it is due). Training stops if any of them returns True.
        progress: Show a bar with loss, t and time, where there is a terminal to show it in.
        tensorboard: Folder for TensorBoard curves; none are written if omitted.

    Returns:
        The model in evaluation mode, with the history of the run.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument, or what `data` holds, cannot be trained with, or if the run
            disagrees with the checkpoint it is to continue.
        ImportError: If `tensorboard` is asked for and not installed.
        RuntimeError: If a loss or gradient is not finite; the weights are then those with which
            that epoch began.

    Source: Schroff et al., "FaceNet", CVPR 2015, for the triplet loss.

    Example:
        >>> from torch_geometric.nn import GCNConv
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> result = fit(GCNConv(4, 2), Data(x=torch.eye(4), edge_index=ring), epochs=3)
        >>> len(result.to_pandas())
        3
    """
    if isinstance(loss, str):
        check_choice("loss", loss, ("auto", "self_training", "triplet"))
    if loss == "auto":
        loss = "self_training" if isinstance(model, DiffusionClassifier) else "triplet"
    if loss == "self_training":
        given: dict[str, Any] = {"lr": lr, "batch_size": batch_size, "margin": margin}
        given |= {"sketch_dim": sketch_dim, "patience": patience, "tensorboard": tensorboard}
        given |= {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        given |= {"callbacks": tuple(callbacks)}
        _refuse_in_self_training(model, given)
        moved = data if device is None else copy.copy(data).to(device)  # `to` acts in place
        return self_train(
            cast(DiffusionClassifier, model),
            moved,
            rounds=ROUNDS if epochs is None else epochs,
            labels=known_labels(moved, sampler),
            seed=seed,
        )
    epochs = 100 if epochs is None else epochs
    _check_numbers(epochs, lr, batch_size, patience, seed, checkpoint_every)
    check_data(data)
    x = data.x if sketch_dim is None else sketch(model, data.x, sketch_dim, seed)
    device = data.x.device if device is None else torch.device(device)
    task = make_task(data, x, loss, sampler, margin, batch_size, seed, device)
    run = start_run(model, task, float(lr))
    settings = {"lr": lr, "margin": margin, "sketch_dim": sketch_dim, "patience": patience}
    settings |= task.settings()  # what must be the same when the run is resumed
    settings = {name: _plain(value) for name, value in settings.items()}
    resumed = _find_checkpoint(checkpoint) if resume else None
    if resumed is not None:
        run.restore(resumed, settings, epochs)
    validation = task.draw(Purpose.VALIDATION)

    with ExitStack() as stack:
        watchers = _open_watchers(stack, progress, tensorboard, epochs, len(run.history))
        stop = False
        while len(run.history) < epochs and not stop and not run.best.exhausted(patience):
            row = train_epoch(run, task, validation, keep_best=patience is not None)
            if checkpoint is not None and row.epoch % checkpoint_every == 0:
                run.save(checkpoint, settings)
            for watch in watchers:
                watch(row)
            end = EpochEnd(model, row, run.history)
            answers = [callback(end) for callback in callbacks]
            stop = any(answers)

    if checkpoint is not None:
        run.save(checkpoint, settings)
    if run.best.weights is not None:  # kept if there is a patience
        model.load_state_dict(run.best.weights)
    run.optimizer.zero_grad()
    result = FitResult(model.eval(), run.history, run.best.epoch, len(run.history) < epochs)
    _log.info("%s", result)
    return result


def _refuse_in_self_training(model: nn.Module, given: dict[str, Any]) -> None:
    """Rather than ignore what is for triplets alone."""
    if not isinstance(model, DiffusionClassifier):
        raise ValueError(
            f"Expected 'model' to be a DiffusionClassifier with loss='self_training' (got {model})."
        )
    defaults = inspect.signature(fit).parameters
    for name, value in given.items():
        if value != defaults[name].default:
            raise ValueError(
                f"Expected '{name}' to be left out for self-training, which makes a few rounds of "
                f"seconds each (got {value!r}). To fix this error, leave it out, or pass "
                "loss='triplet'."
            )


def _check_numbers(
    epochs: int, lr: float, batch_size: int, patience: int | None, seed: int, checkpoint_every: int
) -> None:
    check_positive_int("epochs", epochs)
    check_positive("lr", lr)
    check_positive_int("batch_size", batch_size)
    if patience is not None:
        check_positive_int("patience", patience)
    check_nonnegative_int("seed", seed)
    check_positive_int("checkpoint_every", checkpoint_every)


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
        watchers.append(stack.enter_context(progress_bar(epochs, done)))
    return watchers


def _find_checkpoint(checkpoint: str | os.PathLike[str] | None) -> Path | None:
    """Return the checkpoint to continue from, None if there is none yet."""
    if checkpoint is None:
        raise ValueError(
            "Expected 'checkpoint' to be given with resume=True (got None). To fix this error, "
            "pass the file that the run to continue was kept in."
        )
    path = Path(checkpoint)
    if not path.exists():
        _log.info("no checkpoint at %s: starting afresh", path)
        return None
    _log.info("continuing from %s", path)
    return path


def _plain(value: Any) -> Any:
    """Return a NumPy number as Python's: a checkpoint is read without unpickling NumPy."""
    return value.item() if isinstance(value, np.generic) else value
