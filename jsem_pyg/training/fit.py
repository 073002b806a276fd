"""The entry to training: `fit` picks one of two trainers by the model, or by name."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, cast

import torch
from torch import nn
from torch_geometric.data import Data

from .._checks import check_bool, check_choice, check_instance, check_positive_int
from ..nn import DiffusionClassifier
from .history import Callback, FitResult
from .self_training import ROUNDS, self_train
from .training_graph import prepare_graph
from .triplet_training import EPOCHS, fit_triplets
from .triplets import Loss, TripletSampler


class TripletOptions(TypedDict, total=False):
    """Arguments of `fit_triplets` alone, which documents them."""

    lr: float
    batch_size: int
    margin: float
    sketch_dim: int | None
    patience: int | None
    checkpoint: str | os.PathLike[str] | None
    checkpoint_every: int
    resume: bool
    callbacks: Sequence[Callback]
    tensorboard: str | os.PathLike[str] | None


class SelfTrainingOptions(TypedDict, total=False):
    """Arguments of `self_train` alone, which documents them."""

    times: Sequence[float] | None


class FitOptions(TripletOptions, SelfTrainingOptions, total=False):
    """Arguments of one of the trainers."""


OPTIONS = {
    "fit_triplets": tuple(TripletOptions.__annotations__),
    "self_train": tuple(SelfTrainingOptions.__annotations__),
}
_LOSSES = ("auto", "self_training", "triplet")


def fit(
    model: nn.Module,
    data: Data,
    *,
    loss: Literal["auto", "self_training", "triplet"] | Loss = "auto",
    sampler: Literal["graph", "labels"] | TripletSampler = "graph",
    epochs: int | None = None,
    device: torch.device | str | None = None,
    seed: int = 0,
    progress: bool = True,
    **options: Unpack[FitOptions],
) -> FitResult:
    """Train a graph model, without labels or with few, by the trainer that suits it.

    A :class:`~jsem_pyg.nn.DiffusionClassifier` trains itself: it learns from clusters of the
    diffused features, and then from its own diffused probabilities
    (:func:`~jsem_pyg.training.self_train`). Its diffusion time is chosen without labels. Any other
    model is trained by triplets of nodes (:func:`~jsem_pyg.training.fit_triplets`), so that nodes
    which are alike come to lie together.

    Label propagation is an entry of its own, :func:`~jsem_pyg.training.propagate_labels`: it takes
    labels and returns the probabilities of this graph's nodes, and has no model to fit.

    `data` is checked once and brought to the device. A model is called as `model(x, edge_index)`,
    with `edge_weight` and `edge_attr` by name if `data` has them.

    Args:
        model: The module to train, in place.
        data: A graph with `x` [N, D] and `edge_index` [2, E], both directions; optionally
            `edge_weight` [E] and, for triplets, `edge_attr` [E, edge_dim]. It is not changed.
        loss: "self_training", "triplet", a function of (z, triplets) to a scalar, z being the
            model's output, or "auto": "self_training" for a `DiffusionClassifier`, else "triplet".
        sampler: "graph", which needs no labels; "labels", for `data.y` on `data.train_mask`, or
            everywhere if there is no mask; or, for triplets, a sampler of your own.
        epochs: Number of epochs; 100 if omitted, or 4 rounds of self-training, each of which solves
            for the classifier anew.
        device: Where to train; the model stays there. Where `data.x` lies if omitted.
        seed: A non-negative number that fixes all randomness.
        progress: Show a bar where there is a terminal; self-training is too short for one.
        **options: Other arguments of the trainer: `times` for self-training; `lr`, `batch_size`,
            `margin`, `sketch_dim`, `patience`, `checkpoint`, `checkpoint_every`, `resume`,
            `callbacks` and `tensorboard` for triplets.

    Returns:
        The model in evaluation mode, with the history of the run.

    Raises:
        TypeError: If an argument has the wrong type, or a name that no trainer takes, or if the
            `forward` of `model` does not take what `data` has.
        ValueError: If an argument, or what `data` holds, cannot be trained with, or if an argument
            is the other trainer's.

    Example:
        >>> from torch_geometric.nn import GCNConv
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> result = fit(GCNConv(4, 2), Data(x=torch.eye(4), edge_index=ring), epochs=3)
        >>> len(result.to_pandas())
        3
    """
    check_instance("model", model, nn.Module, "a torch.nn.Module")
    check_bool("progress", progress)
    if epochs is not None:
        check_positive_int("epochs", epochs)
    if isinstance(loss, str):
        check_choice("loss", loss, _LOSSES)
        if loss == "auto":
            loss = "self_training" if isinstance(model, DiffusionClassifier) else "triplet"
    trains_itself = isinstance(loss, str) and loss == "self_training"
    _check_options(options, "self_train" if trains_itself else "fit_triplets")
    graph = prepare_graph(data, device)
    if trains_itself:
        return self_train(
            cast(DiffusionClassifier, model),
            graph,
            rounds=ROUNDS if epochs is None else epochs,
            labels=graph.known_labels(sampler),
            seed=seed,
            **cast(SelfTrainingOptions, options),
        )
    return fit_triplets(
        model,
        graph,
        loss=cast(Loss, loss),
        sampler=sampler,
        epochs=EPOCHS if epochs is None else epochs,
        seed=seed,
        progress=progress,
        **cast(TripletOptions, options),
    )


def _check_options(options: Mapping[str, Any], trainer: str) -> None:
    """Raise unless the trainer takes all options."""
    for name, value in options.items():
        owners = [each for each, names in OPTIONS.items() if name in names]
        if not owners:
            takes = [f"{each} takes {', '.join(names)}" for each, names in OPTIONS.items()]
            raise TypeError(
                f"Expected '{name}' to be left out, since no trainer takes it (got {value!r}). "
                f"To fix this error, correct the name: fit takes loss, sampler, epochs, device, "
                f"seed and progress, {'; '.join(takes)}."
            )
        if trainer not in owners:
            changes = {
                "fit_triplets": "pass loss='triplet'",
                "self_train": "train a DiffusionClassifier",
            }
            raise ValueError(
                f"Expected '{name}' to be left out for {trainer}, since only {owners[0]} takes it "
                f"(got {value!r}). To fix this error, leave it out, or {changes[owners[0]]}."
            )
