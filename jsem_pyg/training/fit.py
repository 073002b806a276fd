"""The entry to training: `fit` picks one of two trainers by the model, or by name."""

import inspect
from collections.abc import Mapping
from typing import Any, Literal, cast

import torch
from torch import nn
from torch_geometric.data import Data

from .._checks import check_bool, check_choice, check_instance, check_positive_int
from ..nn import DiffusionClassifier
from .history import FitResult
from .self_training import ROUNDS, self_train
from .training_graph import prepare_graph
from .triplet_training import EPOCHS, fit_triplets
from .triplets import Loss, TripletSampler

_LOSSES = ("auto", "self_training", "triplet")
_TRAINERS = {each.__name__: each for each in (fit_triplets, self_train)}
_OTHERWISE = {
    "fit_triplets": "pass loss='triplet'",
    "self_train": "train a DiffusionClassifier",
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
    **options: Any,
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
    if isinstance(loss, str) and loss == "self_training":
        _check_options(options, "self_train")
        graph = prepare_graph(data, device)
        options |= {"rounds": epochs or ROUNDS, "labels": graph.known_labels(sampler)}
        return self_train(cast(DiffusionClassifier, model), graph, seed=seed, **options)
    _check_options(options, "fit_triplets")
    return fit_triplets(
        model,
        data,
        loss=loss,
        sampler=sampler,
        epochs=epochs or EPOCHS,
        device=device,
        seed=seed,
        progress=progress,
        **options,
    )


def _options_of(trainer: str) -> set[str]:
    """Arguments of a trainer that `fit` has under no name of its own."""
    own = {*inspect.signature(fit).parameters, "rounds", "labels"}
    return set(inspect.signature(_TRAINERS[trainer]).parameters) - own


def _check_options(options: Mapping[str, Any], trainer: str) -> None:
    """Raise unless the trainer takes all options."""
    taken = {each: _options_of(each) for each in _TRAINERS}
    for name, value in options.items():
        owners = [each for each, names in taken.items() if name in names]
        if not owners:
            takes = [f"{each} takes {', '.join(sorted(names))}" for each, names in taken.items()]
            raise TypeError(
                f"Expected '{name}' to be left out, since no trainer takes it (got {value!r}). "
                f"To fix this error, correct the name: fit takes loss, sampler, epochs, device, "
                f"seed and progress, {'; '.join(takes)}."
            )
        if trainer not in owners:
            raise ValueError(
                f"Expected '{name}' to be left out for {trainer}, since only {owners[0]} takes it "
                f"(got {value!r}). To fix this error, leave it out, or {_OTHERWISE[owners[0]]}."
            )
