"""Training on signals: the output of a model is compared with data.y, also on nodes held out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .._checks import check_finite, check_mask, check_positive, check_rows, check_times
from ..nn.diffusion_time import DiffusionTime
from .seeds import Purpose, derive_generator

_HELD_OUT = 0.1  # share of the nodes that validate, if the data name none


@dataclass(frozen=True)
class Signals:
    """Compares the output of a model with signals: the loss, and the entries that it is of."""

    y: Tensor  # [N, S]
    train: Tensor  # [N, S] bool
    held_out: Tensor  # [N, S] bool

    def draw(self, purpose: Purpose, epoch: int = 0) -> Tensor:
        """Return the entries to train on, the same in all epochs, or those to validate on."""
        return self.held_out if purpose is Purpose.VALIDATION else self.train

    def loss(self, z: Tensor, entries: Tensor) -> Tensor:
        """Return the mean squared error of z [N, S] on some entries."""
        z = z[:, None] if z.dim() == 1 else z
        if z.shape != self.y.shape:
            raise ValueError(
                f"Expected 'model' to return shape {list(self.y.shape)}, as data.y has, for "
                f"loss='signal' (got {list(z.shape)})."
            )
        return F.mse_loss(z[entries], self.y[entries].to(z))


def read_signals(
    x: Tensor, y: Any, mask: Any, train_mask: Any, val_mask: Any, seed: int
) -> Signals:
    """Read the signals y of nodes with features x, and split their known entries by nodes."""
    if y is None:
        raise ValueError(
            "Expected 'data' to have 'y' for loss='signal', the signals [N, S] that the model is "
            "to return (got none). To fix this error, set data.y; to fill gaps of a signal without "
            "a model, call jsem_pyg.training.interpolate."
        )
    check_rows("data.y", y, len(x), "node")
    y = y.detach().to(x.device).reshape(len(x), -1)
    name, mask = ("data.train_mask", train_mask) if mask is None else ("mask", mask)
    known = torch.ones_like(y, dtype=torch.bool) if mask is None else _entries(name, mask, y)
    if val_mask is not None:
        held_out = _entries("data.val_mask", val_mask, y)
    else:
        nodes = known.any(1).nonzero()[:, 0].cpu()
        order = torch.randperm(len(nodes), generator=derive_generator(seed, Purpose.HELD_OUT))
        held_out = torch.zeros_like(known)
        held_out[nodes[order[: max(1, round(_HELD_OUT * len(nodes)))]]] = True
        held_out &= known
    signals = Signals(y, known & ~held_out, held_out)
    if not (signals.train.any() and held_out.any()):
        raise ValueError(
            f"Expected '{name}' to name nodes to train on, and others to validate on (got "
            f"{int(signals.train.any(1).sum())} and {int(held_out.any(1).sum())})."
        )
    check_finite("data.y on its masks", y[known | held_out])
    if x.shape == y.shape and torch.equal(x[signals.train], y[signals.train].to(y)):
        raise ValueError(
            f"Expected 'data.x' to differ from 'data.y' for loss='signal' (got equal values on "
            f"'{name}'), since a model that copies its input makes no error. To fill gaps of a "
            "signal, call jsem_pyg.training.interpolate."
        )
    return signals


def _entries(name: str, mask: Any, y: Tensor) -> Tensor:
    """Check a mask of nodes [N] or of entries [N, S], and return it as entries."""
    shape = tuple(y.shape) if isinstance(mask, Tensor) and mask.dim() == 2 else (len(y),)
    check_mask(name, mask, shape, "nodes")
    return mask.to(y.device).reshape(len(y), -1).expand_as(y)


def check_starts(model: nn.Module, times: Sequence[float]) -> None:
    """Raise unless these are times for a model with diffusion times to start from."""
    check_times(times, check_positive)
    if not any(isinstance(module, DiffusionTime) for module in model.modules()):
        raise ValueError(
            f"Expected 'times' for a model with diffusion times (got {times!r} for {model})."
        )


def start_from(model: nn.Module, weights: dict[str, Any], t: float) -> None:
    """Give a model its weights, with t for the mean of each module of diffusion times."""
    model.load_state_dict(weights)
    for clock in model.modules():
        if isinstance(clock, DiffusionTime):
            clock.set(clock().detach() * (t / clock().mean().item()))
