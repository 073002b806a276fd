"""What stays the same from epoch to epoch: the input, the sampler, the loss, the seed."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from .._checks import (
    check_choice,
    check_edge_index,
    check_finite,
    check_float,
    check_positive_int,
)
from ..nn import AnisotropicDiffusion
from .losses import TripletLoss
from .seeds import Purpose, derive_generator
from .triplets import GraphTriplets, LabelTriplets, Triplets, TripletSampler


class Loss(Protocol):
    """What `fit` asks of a loss."""

    def __call__(self, z: Tensor, triplets: Triplets) -> Tensor:
        """Return a scalar for the features z [N, C]."""


@dataclass(frozen=True)
class Task:
    """The learning problem, on the device where it is solved."""

    x: Tensor  # [N, D], or its sketch
    edge_index: Tensor  # [2, E], the same object every epoch: layers prepare a graph once
    edge_inputs: dict[str, Tensor]  # edge_weight, edge_attr: those that the data has
    sampler: TripletSampler
    loss: Loss
    batch_size: int
    seed: int

    def forward(self, model: nn.Module) -> Tensor:
        """Return the model's features of all nodes."""
        return model(self.x, self.edge_index, **self.edge_inputs)

    def draw(self, purpose: Purpose, epoch: int = 0) -> Triplets:
        """Draw the triplets of an epoch."""
        generator = derive_generator(self.seed, purpose, epoch)
        return self.sampler.sample(self.batch_size, generator).to(self.x.device)

    def settings(self) -> dict[str, Any]:
        """Return what identifies this task when a run is resumed."""
        return {
            "loss": _describe(self.loss),
            "sampler": _describe(self.sampler),
            "batch_size": self.batch_size,
            "seed": self.seed,
            "data.x.shape": list(self.x.shape),
            "data.edge_index.shape": list(self.edge_index.shape),
        }


def make_task(
    data: Data,
    x: Tensor,
    loss: Literal["triplet"] | Loss,
    sampler: Literal["graph", "labels"] | TripletSampler,
    margin: float,
    batch_size: int,
    seed: int,
    device: torch.device,
) -> Task:
    """Put a learning problem together; see `fit` for the arguments."""
    edge_inputs = {name: data[name] for name in ("edge_weight", "edge_attr") if name in data}
    return Task(
        x=x.to(device),
        edge_index=data.edge_index.to(device),
        edge_inputs={name: value.to(device) for name, value in edge_inputs.items()},
        sampler=_make_sampler(sampler, data),
        loss=_make_loss(loss, margin, device),
        batch_size=batch_size,
        seed=seed,
    )


def check_data(data: Data) -> None:
    """Raise unless `data` has finite features `x` [N, D] and a well-formed `edge_index`."""
    fixes = {
        "x": "set data.x to the features [N, D]",
        "edge_index": "build a graph first, for instance with jsem_pyg.transforms.FaissKNNGraph",
    }
    for name, fix in fixes.items():
        if name not in data:
            raise ValueError(
                f"Expected 'data' to have '{name}' (got {data}). To fix this error, {fix}."
            )
    check_float("data.x", data.x)
    if data.x.dim() != 2:
        raise ValueError(f"Expected 'data.x' to have shape [N, D] (got {list(data.x.shape)}).")
    check_finite("data.x", data.x)
    check_edge_index(data.edge_index, data.x.size(0))


def check_has_labels(data: Data) -> None:
    """Raise unless `data` has labels `y`."""
    if "y" not in data:
        raise ValueError(
            f"Expected 'data' to have labels 'y' for sampler='labels' (got {data}). To fix this "
            "error, set data.y, or use sampler='graph', which needs none."
        )


def sketch(model: nn.Module, x: Tensor, sketch_dim: int, seed: int) -> Tensor:
    """Project the channels of x [N, D] at random to [N, sketch_dim], keeping distances in the mean.

    Raises:
        TypeError: If `sketch_dim` is no integer.
        ValueError: If `sketch_dim` is not in [1, D), or if `model` could not be applied to all
            channels after it was trained on a sketch of them.
    """
    check_positive_int("sketch_dim", sketch_dim)
    num_channels = x.size(1)
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
    return x @ projection.to(x)


def _make_sampler(
    sampler: Literal["graph", "labels"] | TripletSampler, data: Data
) -> TripletSampler:
    if not isinstance(sampler, str):
        return sampler
    check_choice("sampler", sampler, ("graph", "labels"))
    if sampler == "graph":
        return GraphTriplets(data.edge_index, data.get("edge_weight"), data.x.size(0))
    check_has_labels(data)
    return LabelTriplets(data.y, data.get("train_mask"))


def _make_loss(loss: Literal["triplet"] | Loss, margin: float, device: torch.device) -> Loss:
    if isinstance(loss, str):
        check_choice("loss", loss, ("triplet",))
        return TripletLoss(margin)
    if not isinstance(loss, nn.Module):
        return loss
    if any(parameter.requires_grad for parameter in loss.parameters()):
        raise ValueError(
            f"Expected 'loss' to have no trainable parameters (got {loss}), since only those of "
            "'model' are trained. To fix this error, move them into the model or freeze them."
        )
    return loss.to(device)


def _describe(choice: Any) -> str:
    """Return a name for a loss or sampler that stays the same from process to process."""
    return getattr(choice, "__qualname__", type(choice).__qualname__)
