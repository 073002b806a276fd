"""The options of the three ways of training that `fit` knows."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from torch import Tensor, nn

from .._checks import (
    check_bool,
    check_choice,
    check_instance,
    check_positive,
    check_positive_int,
)
from ..nn import DiffusionClassifier
from .history import Callback
from .self_training import TIMES
from .triplets import Loss


@dataclass(frozen=True)
class SelfTrainingOptions:
    """The options of self-training; see `fit`."""

    EPOCHS: ClassVar[int] = 4
    times: Sequence[float] = TIMES
    labels: Tensor | None = None


@dataclass(frozen=True)
class LoopOptions:
    """The options of every training in epochs; see `fit`."""

    lr: float = 0.01
    patience: int | None = None
    checkpoint: Any = None
    checkpoint_every: int = 10
    resume: bool = False
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        check_positive("lr", self.lr)
        check_positive_int("checkpoint_every", self.checkpoint_every)
        if self.patience is not None:
            check_positive_int("patience", self.patience)
        check_bool("resume", self.resume)
        if self.resume and self.checkpoint is None:
            raise ValueError("Expected 'checkpoint' to be given with resume=True (got None).")
        is_list = isinstance(self.callbacks, Sequence)
        if not is_list or not all(map(callable, self.callbacks)):
            raise TypeError(
                f"Expected 'callbacks' to be a list of functions (got {self.callbacks})."
            )


@dataclass(frozen=True)
class TripletOptions(LoopOptions):
    """The options of training by triplets; see `fit`."""

    EPOCHS: ClassVar[int] = 100
    batch_size: int = 4096
    margin: float = 0.5
    sketch_dim: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("margin", self.margin)
        check_positive_int("batch_size", self.batch_size)


@dataclass(frozen=True)
class SignalOptions(LoopOptions):
    """The options of training on signals; see `fit`."""

    EPOCHS: ClassVar[int] = 300
    lr: float = 0.05
    patience: int | None = 30
    mask: Tensor | None = None
    times: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.times is not None and self.checkpoint is not None:
            raise ValueError(
                "Expected 'checkpoint' to be left out with 'times', from which several runs start "
                f"(got {self.checkpoint!r})."
            )


_WAYS = {
    "self_training": SelfTrainingOptions,
    "triplet": TripletOptions,
    "signal": SignalOptions,
}


def read_options(
    model: nn.Module, loss: str | Loss, options: dict[str, Any]
) -> SelfTrainingOptions | TripletOptions | SignalOptions:
    """Read the options of the way of training: a `DiffusionClassifier` trains itself by default."""
    check_instance("model", model, nn.Module, "a torch.nn.Module")
    way = loss if isinstance(loss, str) else "triplet"
    check_choice("loss", way, ("auto", *_WAYS))
    is_classifier = isinstance(model, DiffusionClassifier)
    if way == "auto":
        way = "self_training" if is_classifier else "triplet"
    if way == "self_training" and not is_classifier:
        raise TypeError(
            "Expected 'model' to be a DiffusionClassifier for loss='self_training' (got "
            f"{type(model).__name__})."
        )
    takes = [each.name for each in fields(_WAYS[way])]
    for name, value in options.items():
        if name not in takes:
            raise TypeError(
                f"Expected '{name}' to be left out for loss={way!r}, which takes "
                f"{', '.join(takes)} (got {value!r})."
            )
    return _WAYS[way](**options)
