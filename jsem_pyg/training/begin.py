"""The beginning of a run: loss and sampler are read, and what cannot work is refused."""

from dataclasses import fields, replace
from typing import Any

import torch
from torch import nn

from .._checks import check_choice, check_positive_int
from .._files import as_path, check_writable
from .._fingerprint import describe
from ..nn import AnisotropicDiffusion
from ..partition import DistributedGraph
from .options import LoopOptions, SignalOptions, TripletOptions
from .processes import DistributedTriplets, SharedLoss, settings_of_all
from .run import Run
from .seeds import Purpose, derive_generator
from .signals import read_signals
from .training_graph import TrainingGraph
from .triplets import (
    GraphTriplets,
    LabelTriplets,
    Loss,
    TripletBatches,
    TripletLoss,
    TripletSampler,
)


def begin_run(
    model: nn.Module,
    graph: TrainingGraph,
    loss: str | Loss,
    sampler: str | TripletSampler,
    seed: int,
    options: TripletOptions | SignalOptions,
) -> Run:
    """Make a run before its first epoch; what cannot be trained is refused here."""
    shared = graph.edge_index if isinstance(graph.edge_index, DistributedGraph) else None
    seen, device = graph, graph.x.device
    if isinstance(options, SignalOptions):
        criterion: Any = read_signals(graph, options.mask, seed)
        share, batches = criterion, criterion
    else:
        criterion = share = _read_loss(loss, options.margin)
        if isinstance(criterion, nn.Module):
            criterion.to(device)
        triplets = _read_sampler(sampler, graph)
        batches = TripletBatches(triplets, options.batch_size, seed, device)
        if shared is not None:
            share = SharedLoss(criterion, shared, options.batch_size)
        if options.sketch_dim is not None:
            seen = _sketch(model, graph, options.sketch_dim, seed)
    run = Run(
        model,
        seen,
        batches,
        share,
        _make_optimizer(model, options.lr, device),
        None if shared is None else shared.ranks,
    )
    run.copy_weights()
    if options.checkpoint is not None:
        run.file = as_path("checkpoint", options.checkpoint)
        check_writable("checkpoint", run.file)
        settings = _settings(graph, sampler, criterion, options)
        if shared is not None:
            settings = settings_of_all(shared, settings)
        for name, value in {"model": model, "seed": seed, **settings}.items():
            run.settings |= describe(name, value)
    return run


def _read_loss(loss: str | Loss, margin: float) -> Loss:
    """Return the loss that the argument names, or the function that it is."""
    if isinstance(loss, str):
        return TripletLoss(margin)
    if not callable(loss):
        raise TypeError(
            f"Expected 'loss' to be 'triplet' or a function of (z, triplets) (got {loss!r})."
        )
    if isinstance(loss, nn.Module) and any(each.requires_grad for each in loss.parameters()):
        raise ValueError(
            f"Expected 'loss' to have no trainable parameters (got {loss}), since only those of "
            "'model' are trained."
        )
    return loss


def _read_sampler(sampler: str | TripletSampler, graph: TrainingGraph) -> TripletSampler:
    """Return the sampler that the argument names, or the object that it is."""
    if isinstance(graph.edge_index, DistributedGraph):
        if sampler != "graph":
            raise NotImplementedError(
                "Expected 'sampler' to be 'graph' where several processes share the graph (got "
                f"{sampler!r}), since each has its own nodes only."
            )
        return DistributedTriplets(graph.edge_index, graph.edge_weight)
    if not isinstance(sampler, str):
        if not callable(getattr(sampler, "sample", None)):
            raise TypeError(
                "Expected 'sampler' to be 'graph', 'labels' or an object with "
                f"sample(num_triplets, generator) (got {sampler!r})."
            )
        return sampler
    check_choice("sampler", sampler, ("graph", "labels"))
    if sampler == "graph":
        return GraphTriplets(graph.edge_index, graph.edge_weight, graph.x.size(0))
    return LabelTriplets(graph.labels_on_mask())


def _make_optimizer(model: nn.Module, lr: float, device: torch.device) -> torch.optim.Optimizer:
    """Make Adam for the parameters that require a gradient; the model moves to the device."""
    model.to(device)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise ValueError(f"Expected 'model' to have trainable parameters (got {model}).")
    return torch.optim.Adam(parameters, lr=float(lr))


def _sketch(model: nn.Module, graph: TrainingGraph, sketch_dim: int, seed: int) -> TrainingGraph:
    """Project the channels at random to fewer, which keeps distances in the mean."""
    check_positive_int("sketch_dim", sketch_dim)
    num_channels = graph.x.size(1)
    if sketch_dim >= num_channels:
        raise ValueError(
            f"Expected 'sketch_dim' to be less than the {num_channels} channels of 'data.x' (got "
            f"{sketch_dim})."
        )
    if not (isinstance(model, AnisotropicDiffusion) and model.sketchable):
        raise ValueError(
            "Expected 'model' to be an AnisotropicDiffusion that treats all channels alike, for "
            f"'sketch_dim' (got {model}): only a diffusion commutes with a projection of channels."
        )
    generator = derive_generator(seed, Purpose.SKETCH)
    size = num_channels, sketch_dim
    projection = torch.randn(size, generator=generator, dtype=torch.float32) / sketch_dim**0.5
    return replace(graph, x=graph.x @ projection.to(graph.x))


def _settings(
    graph: TrainingGraph, sampler: object, loss: Loss, options: LoopOptions
) -> dict[str, Any]:
    """Collect what must not change when a run is resumed, by name."""
    every = ("checkpoint", "checkpoint_every", "resume", "callbacks")
    names = [each.name for each in fields(options) if each.name not in every]
    settings: dict[str, Any] = {name: getattr(options, name) for name in names}
    for name, value in {"sampler": sampler, "loss": loss}.items():
        settings[name] = value
        # What no checkpoint restores: weights that are not trained, indices, counters.
        if isinstance(value, nn.Module):
            settings[f"{name}.state"] = value.state_dict()
        elif hasattr(value, "__dict__"):
            settings[f"{name}.state"] = vars(value)
    used = {"x": graph.x, "edge_index": graph.edge_index, **graph.edge_inputs}
    if isinstance(sampler, str) and sampler == "labels":
        labels = {"y": graph.y, "train_mask": graph.train_mask}
        used |= {name: value for name, value in labels.items() if value is not None}
    return settings | {f"data.{name}": value for name, value in used.items()}
