"""What stays the same from epoch to epoch: the input, the sampler, the loss, the seed."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from .._checks import check_choice
from ..partition import DistributedGraph
from .data_checks import check_has_labels
from .graph_triplets import GraphTriplets
from .label_triplets import LabelTriplets
from .losses import Loss, TripletLoss
from .model_input import EDGE_INPUTS, ModelInput, make_input
from .seeds import Purpose, derive_generator
from .shared import Alone, SharedGraphTriplets, company_of
from .triplets import Triplets, TripletSampler


@dataclass(frozen=True)
class Task:
    """The learning problem, on the device where it is solved."""

    input: ModelInput  # the whole graph; a run may go on with fewer edges
    sampler: TripletSampler
    loss: Loss
    batch_size: int
    seed: int
    company: Alone  # the processes that share the graph

    @property
    def device(self) -> torch.device:
        """Where the problem is solved."""
        return self.input.x.device

    def share_of_loss(self, z: Tensor, triplets: Triplets) -> Tensor:
        """Return this process's part of the loss, which for a single process is all of it."""
        return self.company.loss(self.loss, z, triplets, self.batch_size)

    def draw(self, purpose: Purpose, epoch: int = 0) -> Triplets:
        """Draw the triplets of an epoch."""
        generator = derive_generator(self.seed, purpose, epoch)
        return self.sampler.sample(self.batch_size, generator).to(self.device)


def task_settings(data: Data, sampler: object, loss: Loss) -> dict[str, Any]:
    """Return what must be the same when a run is resumed, of all that a task is made of."""
    settings: dict[str, Any] = {}
    for name, value in {"sampler": sampler, "loss": loss}.items():
        settings[name] = value
        # What no checkpoint brings back: weights that nobody trains, indices, counters.
        if isinstance(value, nn.Module):
            settings[f"{name}.state"] = value.state_dict()
        elif hasattr(value, "__dict__"):
            settings[f"{name}.state"] = vars(value)
    used = ["x", "edge_index", *EDGE_INPUTS]
    if isinstance(sampler, str) and sampler == "labels":
        used += ["y", "train_mask"]
    return settings | {f"data.{name}": data[name] for name in used if name in data}


def make_task(
    data: Data,
    x: Tensor,
    sampler: Literal["graph", "labels"] | TripletSampler,
    loss: Loss,
    batch_size: int,
    seed: int,
    device: torch.device,
) -> Task:
    """Put a learning problem together; see `fit_triplets` for the arguments."""
    company = company_of(data)
    return Task(
        input=make_input(data, x, device),
        sampler=_make_sampler(sampler, data),
        loss=loss,
        batch_size=batch_size,
        seed=seed,
        company=company,
    )


def make_loss(loss: Literal["triplet"] | Loss, margin: float, device: torch.device) -> Loss:
    """Return the loss that `fit_triplets` is asked for, on the device.

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
    if not isinstance(loss, nn.Module):
        return loss
    if any(parameter.requires_grad for parameter in loss.parameters()):
        raise ValueError(
            f"Expected 'loss' to have no trainable parameters (got {loss}), since only those of "
            "'model' are trained. To fix this error, move them into the model or freeze them."
        )
    return loss.to(device)


def _make_sampler(
    sampler: Literal["graph", "labels"] | TripletSampler, data: Data
) -> TripletSampler:
    if isinstance(data.edge_index, DistributedGraph):
        return _make_shared_sampler(sampler, data)
    if not isinstance(sampler, str):
        if not callable(getattr(sampler, "sample", None)):
            raise TypeError(
                "Expected 'sampler' to be 'graph', 'labels' or an object with "
                f"sample(num_triplets, generator) (got {sampler!r})."
            )
        return sampler
    check_choice("sampler", sampler, ("graph", "labels"))
    if sampler == "graph":
        return GraphTriplets(data.edge_index, data.get("edge_weight"), data.x.size(0))
    check_has_labels(data)
    return LabelTriplets(data.y, data.get("train_mask"))


def _make_shared_sampler(sampler: object, data: Data) -> TripletSampler:
    if sampler != "graph":
        raise NotImplementedError(
            "Expected 'sampler' to be 'graph' where several processes share the graph (got "
            f"{sampler!r}), since each knows its own nodes only."
        )
    return SharedGraphTriplets(data.edge_index, data.get("edge_weight"))
