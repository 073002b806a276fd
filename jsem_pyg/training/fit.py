"""The door to training: one of two trainers, chosen by the model or by name."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, cast

import torch
from torch import nn
from torch_geometric.data import Data

from .._checks import check_bool, check_choice, check_positive_int
from ..nn import DiffusionClassifier
from .data_checks import check_data, check_model, known_labels
from .history import Callback, FitResult
from .self_training import ROUNDS, self_train
from .task import Loss
from .triplet_training import EPOCHS, fit_triplets
from .triplets import TripletSampler


class TripletOptions(TypedDict, total=False):
    """What `fit_triplets` alone takes; there it says what each is for."""

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
    """What `self_train` alone takes; there it says what each is for."""

    times: Sequence[float] | None


class FitOptions(TripletOptions, SelfTrainingOptions, total=False):
    """What one of the trainers takes."""


TAKES = {
    "fit_triplets": tuple(TripletOptions.__annotations__),
    "self_train": tuple(SelfTrainingOptions.__annotations__),
}


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

    A :class:`~jsem_pyg.nn.DiffusionClassifier` trains itself: clusters of the diffused features
    teach it, and then its own diffused probabilities do (:func:`~jsem_pyg.training.self_train`). It
    returns class probabilities, and chooses its own diffusion time. Any other model is trained by
    triplets of nodes (:func:`~jsem_pyg.training.fit_triplets`), so that nodes which are alike come
    to lie together.

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
        **options: What else the trainer takes: `times` for self-training; `lr`, `batch_size`,
            `margin`, `sketch_dim`, `patience`, `checkpoint`, `checkpoint_every`, `resume`,
            `callbacks` and `tensorboard` for triplets.

    Returns:
        The model in evaluation mode, with the history of the run.

    Raises:
        TypeError: If an argument has the wrong type, or a name that no trainer knows.
        ValueError: If an argument, or what `data` holds, cannot be trained with, or if an argument
            is the other trainer's.

    Example:
        >>> from torch_geometric.nn import GCNConv
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> result = fit(GCNConv(4, 2), Data(x=torch.eye(4), edge_index=ring), epochs=3)
        >>> len(result.to_pandas())
        3
    """
    check_model(model)
    check_data(data)
    check_bool("progress", progress)
    if epochs is not None:
        check_positive_int("epochs", epochs)
    if isinstance(loss, str):
        check_choice("loss", loss, ("auto", "self_training", "triplet"))
    if isinstance(loss, str) and loss == "auto":
        loss = "self_training" if isinstance(model, DiffusionClassifier) else "triplet"
    if isinstance(loss, str) and loss == "self_training":
        _check_options(options, "self_train", "self-training")
        return self_train(
            cast(DiffusionClassifier, model),
            data,
            rounds=ROUNDS if epochs is None else epochs,
            labels=known_labels(data, sampler),
            device=device,
            seed=seed,
            **cast(SelfTrainingOptions, options),
        )
    _check_options(options, "fit_triplets", "training by triplets")
    return fit_triplets(
        model,
        data,
        loss=loss,
        sampler=sampler,
        epochs=EPOCHS if epochs is None else epochs,
        device=device,
        seed=seed,
        progress=progress,
        **cast(TripletOptions, options),
    )


def _check_options(options: Mapping[str, Any], trainer: str, what: str) -> None:
    """Raise unless the trainer takes all options."""
    for name, value in options.items():
        if name in TAKES[trainer]:
            continue
        if not any(name in names for names in TAKES.values()):
            takes = [f"{each} takes {', '.join(names)}" for each, names in TAKES.items()]
            raise TypeError(
                f"Expected '{name}' to be left out, since no trainer takes it (got {value!r}). "
                f"To fix this error, correct the name: fit takes loss, sampler, epochs, device, "
                f"seed and progress, {'; '.join(takes)}."
            )
        is_for_triplets = trainer == "self_train"
        owner = "fit_triplets" if is_for_triplets else "self_train"
        change = "pass loss='triplet'" if is_for_triplets else "train a DiffusionClassifier"
        raise ValueError(
            f"Expected '{name}' to be left out for {what}, since only {owner} takes it (got "
            f"{value!r}). To fix this error, leave it out, or {change}."
        )
