"""Train a model: by triplets or on signals in a loop over epochs, or by self-training."""

import copy
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from .._checks import (
    check_bool,
    check_choice,
    check_instance,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
)
from .._progress import open_bar
from ..nn import DiffusionClassifier
from ..nn.diffusion_time import DiffusionTime
from .history import EpochRow, FitResult
from .processes import SharedTask, read_shared_sampler
from .run import Run
from .seeds import Purpose, seeded_rng
from .self_training import self_train
from .signal_task import check_starts, read_signals, start_from
from .training_graph import TrainingGraph, prepare_graph
from .triplets import Loss, TripletSampler, TripletTask, read_loss, read_sampler, sketch

_EPOCHS = {"self_training": 4, "triplet": 100, "signal": 300}
_LOOP = {
    "lr": 0.01,
    "patience": None,
    "checkpoint": None,
    "checkpoint_every": 10,
    "resume": False,
    "callbacks": (),
}
# The options of each way of training, and what they are if omitted.
_OPTIONS: dict[str, dict[str, Any]] = {
    "self_training": {"times": None, "labels": None},
    "triplet": _LOOP | {"batch_size": 4096, "margin": 0.5, "sketch_dim": None},
    "signal": _LOOP | {"lr": 0.05, "patience": 30, "mask": None, "times": None},
}


@torch.inference_mode(False)
def fit(
    model: nn.Module,
    data: Data,
    *,
    loss: Literal["auto", "self_training", "signal", "triplet"] | Loss = "auto",
    sampler: Literal["graph", "labels"] | TripletSampler = "graph",
    epochs: int | None = None,
    device: torch.device | str | None = None,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> FitResult:
    r"""Train a graph model: without labels, with few, or on signals.

    A :class:`~jsem_pyg.nn.DiffusionClassifier` trains itself: it learns from clusters of the
    diffused features, and then from its own diffused probabilities. Features are centred and rows
    brought to length one, so that their scale does not matter. The diffusion time is chosen without
    labels. The centre and the class means of this graph stay with the model, for use on others.

    Any other model is trained by triplets of nodes, so that nodes which are alike come to lie
    together. An epoch draws triplets, passes once forward over the whole graph and once backward,
    and makes one step of Adam. The model is called as `model(x, edge_index)`, with `edge_weight`,
    `edge_attr` and `edge_type` by name if `data` has them.

    With ``loss="signal"`` any model learns to turn the signals `data.x` into the signals `data.y`
    [N, S], such as S snapshots of a network a while later: the loss is the mean squared error on
    the known entries. Nodes that are held out give the validation loss.

    All randomness follows from `seed` and the number of the epoch: a run that was killed and
    resumed ends with the same weights as one that was not, bit for bit on a CPU.

    Several processes that share a graph (:func:`~jsem_pyg.partition.distribute`) train one model by
    triplets, step by step as one process would; the first one writes the checkpoint.

    Args:
        model: The module to train, in place. A `DiffusionClassifier` that has no number of classes
            yet gets that of the labels, or else the result of
            :func:`~jsem_pyg.training.choose_num_classes`.
        data: A graph with `x` [N, D] and `edge_index` [2, E], both directions; optionally
            `edge_weight` [E] and, but for self-training, `edge_attr` [E, edge_dim] and
            `edge_type` [E]. It is not changed.
        loss: "self_training"; "triplet", the mean of :math:`\max(0, |z_a - z_p| - |z_a - z_n| +
            \text{margin})` over triplets of features with rows of length one; "signal", for
            `data.y` [N] or [N, S]; a function of (z, triplets) to a scalar, z being the model's
            output; or "auto": "self_training" for a `DiffusionClassifier`, else "triplet".
        sampler: "graph", which needs no labels (see :class:`~jsem_pyg.training.GraphTriplets`);
            "labels", for the classes `data.y` on `data.train_mask`, or everywhere if there is no
            mask: the positive is of the anchor's class, the negative of another; or an object with
            `sample(num_triplets, generator)`. Only triplets are sampled.
        epochs: Number of epochs, those before a resume included: 100 if omitted, 300 on signals, or
            4 rounds of self-training, each of which solves for the classifier anew.
        device: Where to train; the model stays there. Where `data.x` lies if omitted.
        seed: A non-negative number that fixes all randomness.
        progress: Show a bar where there is a terminal; self-training is too short for one.
        **options: Of self-training:

            - `times`: diffusion times of the features to choose from.
            - `labels`: [N] known classes in [0, C) to begin with, -1 where unknown. They spread by
              the features, or along edges by the fourth power of `edge_weight`, as labels that are
              held out prefer.

            Of signals:

            - `mask`: [N] nodes or [N, S] entries where `data.y` is known. `data.train_mask` if
              omitted, or all. `data.val_mask` names those that are held out, else a tenth is drawn.
            - `times`: diffusion times to start from. The training with the lowest validation loss
              is kept. The model's own if omitted.

            Of triplets:

            - `batch_size`: number of triplets an epoch, 4096.
            - `margin`: margin of the "triplet" loss, a distance on the unit sphere, 0.5.
            - `sketch_dim`: train on :math:`X R`, with a fixed Gaussian R of fewer columns than D.
              The operator stays exact, :math:`e^{-tL} (X R) = (e^{-tL} X) R`, and distances are
              approximate (Johnson and Lindenstrauss, 1984). Needs an `AnisotropicDiffusion` that
              treats all channels alike.

            Of both:

            - `lr`: learning rate of Adam, 0.01 for triplets and 0.05 for signals.
            - `patience`: stop after this many epochs without a lower validation loss, and give back
              the weights that had the lowest; 30 for signals. The validation loss belongs to the
              weights with which the epoch began.
            - `checkpoint`: file to keep the run in (safetensors, of which nothing can be executed).
            - `checkpoint_every`: epochs between two writes, 10. The end of a run is always written.
            - `resume`: continue from `checkpoint` if that file exists. `epochs` may have grown;
              arguments, data and the model's configuration must be as they were.
            - `callbacks`: functions that are called with a record after each epoch: `model`; `row`,
              the epoch; and `history`, all so far. Training stops if any of them returns True.

    Returns:
        The model in evaluation mode, with the history of the run. A round of self-training has the
        classifier's cross-entropy on the confident nodes ("loss"), and on the others against their
        pseudo-labels ("val_loss"); its model is that of the last round.

    Raises:
        ValueError: If the run disagrees with the checkpoint that it is to continue; model and file
            are then untouched.
        OSError: If `checkpoint` cannot be written, which the start of a run tries.
        RuntimeError: If a loss or gradient is not finite; the weights are then those with which
            that epoch began. Also if another process ended or hangs.

    Sources: Lee, "Pseudo-Label", 2013, for self-training; Zhou et al., "Learning with local and
    global consistency", 2004, for labels that diffuse; Newman and Girvan, 2004, for modularity,
    which chooses the time; Schroff et al., "FaceNet", CVPR 2015, for the triplet loss.

    Example:
        >>> from torch_geometric.nn import GCNConv
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> result = fit(GCNConv(4, 2), Data(x=torch.eye(4), edge_index=ring), epochs=3)
        >>> len(result.to_pandas())
        3
    """
    check_nonnegative_int("seed", seed)
    check_bool("progress", progress)
    if epochs is not None:
        check_positive_int("epochs", epochs)
    way, chosen = _read_options(model, loss, options)
    if sampler != "graph" and way != "triplet":
        raise ValueError(
            f"Expected 'sampler' to be left out unless triplets are drawn (got {sampler!r}). To "
            "fix this, pass classes that are known to a DiffusionClassifier as 'labels'."
        )
    epochs = epochs or _EPOCHS[way]
    graph = prepare_graph(data, device)
    if way == "self_training":
        assert isinstance(model, DiffusionClassifier)
        return self_train(model, graph, epochs, seed=seed, try_modes=True, **options)
    if way == "triplet" or chosen.times is None:
        run = _begin(model, graph, way, loss, sampler, seed, chosen)
        return _train(run, epochs, seed, chosen, progress)
    check_starts(model, chosen.times)
    weights, found = copy.deepcopy(model.state_dict()), []
    for t in chosen.times:
        start_from(model, weights, t)
        run = _begin(model, graph, way, loss, sampler, seed, chosen)
        result = _train(run, epochs, seed, chosen, progress)
        lowest = result.history[result.best_epoch - 1].val_loss
        found.append((lowest, result, copy.deepcopy(model.state_dict())))
    _, best, weights = min(found, key=lambda each: each[0])
    model.load_state_dict(weights)
    return best


def _read_options(
    model: nn.Module, loss: str | Loss, options: dict[str, Any]
) -> tuple[str, SimpleNamespace]:
    """Read the way of training, and its options: a `DiffusionClassifier` trains itself."""
    check_instance("model", model, nn.Module, "a torch.nn.Module")
    way = loss if isinstance(loss, str) else "triplet"
    check_choice("loss", way, ("auto", *_OPTIONS))
    is_classifier = isinstance(model, DiffusionClassifier)
    if way == "auto":
        way = "self_training" if is_classifier else "triplet"
    if way == "self_training" and not is_classifier:
        raise TypeError(
            "Expected 'model' to be a DiffusionClassifier for loss='self_training' (got "
            f"{type(model).__name__})."
        )
    for name, value in options.items():
        if name not in _OPTIONS[way]:
            raise TypeError(
                f"Expected '{name}' to be left out for loss={way!r}, which takes "
                f"{', '.join(_OPTIONS[way])} (got {value!r})."
            )
    chosen = SimpleNamespace(**_OPTIONS[way] | options)
    if way == "self_training":
        return way, chosen
    check_positive("lr", chosen.lr)
    check_positive_int("checkpoint_every", chosen.checkpoint_every)
    if chosen.patience is not None:
        check_positive_int("patience", chosen.patience)
    check_bool("resume", chosen.resume)
    if chosen.resume and chosen.checkpoint is None:
        raise ValueError("Expected 'checkpoint' to be given with resume=True (got None).")
    callbacks = chosen.callbacks
    if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
        raise TypeError(f"Expected 'callbacks' to be a list of functions (got {callbacks}).")
    if way == "triplet":
        check_positive("margin", chosen.margin)
        check_positive_int("batch_size", chosen.batch_size)
    if way == "signal" and chosen.times is not None and chosen.checkpoint is not None:
        raise ValueError(
            "Expected 'checkpoint' to be left out with 'times', from which several runs start "
            f"(got {chosen.checkpoint!r})."
        )
    return way, chosen


def _begin(
    model: nn.Module,
    graph: TrainingGraph,
    way: str,
    loss: str | Loss,
    sampler: str | TripletSampler,
    seed: int,
    chosen: SimpleNamespace,
) -> Run:
    """Make a run before its first epoch; what cannot be trained is refused here."""
    x, edge_index, weight, device = graph.x, graph.edge_index, graph.edge_weight, graph.x.device
    is_shared = hasattr(edge_index, "ranks")  # by several processes
    labels = {"y": graph.y, "train_mask": graph.train_mask}
    task: Any
    if way == "signal":
        if is_shared:
            edge_index.whole("for loss='signal'", "train on a graph that fits one machine")
        task = read_signals(x, graph.y, chosen.mask, graph.train_mask, graph.val_mask, seed)
    else:
        criterion, size = read_loss(loss, chosen.margin, device), chosen.batch_size
        if is_shared:
            shared = read_shared_sampler(sampler, edge_index, weight)
            task = SharedTask(shared, criterion, size, seed, device, edge_index)
        else:
            drawn = read_sampler(sampler, len(x), edge_index, weight, **labels)
            task = TripletTask(drawn, criterion, size, seed, device)
        if chosen.sketch_dim is not None:
            x = sketch(x, model, chosen.sketch_dim, seed)
    model.to(device)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(f"Expected 'model' to have trainable parameters (got {model}).")
    optimizer = torch.optim.Adam(parameters, lr=float(chosen.lr))
    run = Run(model, x, edge_index, graph.edge_inputs, task, optimizer)
    run.copy_weights()
    if chosen.checkpoint is not None:
        data = {"x": graph.x, "edge_index": edge_index, **graph.edge_inputs}
        data |= labels if sampler == "labels" else {}
        run.keep_in(chosen.checkpoint, data, sampler, vars(chosen) | {"seed": seed})
    return run


def _train(run: Run, epochs: int, seed: int, chosen: SimpleNamespace, progress: bool) -> FitResult:
    """Train a run until its last epoch, or until it stops."""
    if chosen.resume:
        run.load(epochs)
    model, device = run.model, run.x.device
    validation, stop = run.task.draw(Purpose.VALIDATION), False
    is_shown, done = progress and run.is_first, len(run.history)
    with open_bar(is_shown, desc="epoch", total=epochs, initial=done, leave=True) as bar:
        model.train()
        while len(run.history) < epochs and not stop and not run.is_stale(chosen.patience):
            epoch, began = len(run.history) + 1, time.perf_counter()
            batch = run.task.draw(Purpose.TRIPLETS, epoch)
            run.optimizer.zero_grad()
            with torch.enable_grad(), seeded_rng(device, seed, Purpose.MODEL, epoch):
                z = model(run.x, run.edge_index, **run.edge_inputs)
                share = run.task.loss(z, batch)
                share.backward()
                with torch.no_grad():
                    val_loss = run.total(run.task.loss(z, validation))
            if run.ranks is not None:
                run.ranks.sum_gradients(model.parameters())
            loss = run.total(share)
            _check_numbers(epoch, loss, val_loss, model)
            t = _mean_time(model)  # like the losses, of the weights before the step
            if chosen.patience is not None:
                run.compare_with_best(val_loss.item())
            run.optimizer.step()
            row = EpochRow(epoch, loss.item(), val_loss.item(), t, time.perf_counter() - began)
            run.history.append(row)
            stop = run.call(chosen.callbacks)
            if epoch % chosen.checkpoint_every == 0:
                run.save()
            numbers = {"loss": row.loss} if t is None else {"loss": row.loss, "t": t}
            bar.set_postfix(numbers, refresh=False)
            bar.update()
    return run.finish(epochs)


def _mean_time(model: nn.Module) -> float | None:
    """Return the mean of all diffusion times in a model, None if it has none."""
    parts = [each for each in model.modules() if isinstance(each, DiffusionTime)]
    times = [each().detach().flatten() for each in parts]
    return torch.cat(times).mean().item() if times else None


def _check_numbers(epoch: int, loss: Tensor, val_loss: Tensor, model: nn.Module) -> None:
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
