"""What the edges conduct in every diffusion of a model, as one pass through the model shows it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn.conv import MessagePassing

from ..nn.diffusion_layer import DiffusionLayer
from .model_input import ModelInput
from .seeds import Purpose, seeded_rng


class SeenConductance(NamedTuple):
    """How well the edges conducted in one call of a layer."""

    layer: DiffusionLayer
    conductance: Tensor  # [E]


class _SeenAll(Exception):
    """There is nothing more to see."""


def diffusion_layers(model: nn.Module) -> list[DiffusionLayer]:
    """The diffusions of a model, whose edges all learn how well they conduct.

    Raises:
        ValueError: If there is none, or if some layer sends messages along all edges alike: there,
            none is ever closed.
    """
    layers = []
    for name, module in model.named_modules():
        if not isinstance(module, MessagePassing):
            continue
        if not isinstance(module, DiffusionLayer) or module.conductance is None:
            raise ValueError(
                "Expected 'model' to be made of diffusions whose edges learn how well they "
                f"conduct, AnisotropicDiffusion or AnisotropicChebConv with edge_dim > 0 or a "
                f"conductance of the nodes (got {name or 'the model itself'}: {module}, where "
                "every edge counts in full). To fix this error, train it without PruneEdges."
            )
        if getattr(module.conductance, "signed", False):
            raise ValueError(
                "Expected conductances in [0, 1], of which the lowest belong to closed edges (got "
                f"signed ones, of {module}). To fix this error, train it without PruneEdges."
            )
        layers.append(module)
    if not layers:
        raise ValueError(
            "Expected 'model' to have an AnisotropicDiffusion or AnisotropicChebConv, whose edges "
            f"learn how well they conduct (got {model}). To fix this error, train it without "
            "PruneEdges."
        )
    return layers


def seen_conductances(model: nn.Module, given: ModelInput) -> list[SeenConductance]:
    """Call a model in evaluation mode, without gradients, and note what its edges conduct.

    Every call of every diffusion counts, with the edge features and nodes that it saw. A model that
    is a single layer is stopped once it has said so, before it diffuses anything.

    Raises:
        ValueError: If the model has no such layers, or others that use the edges, if a layer is
            not called or gets no edge features, or if a layer is called with other edges.
    """
    layers, num_edges = diffusion_layers(model), given.whole_edge_index.size(1)
    seen: list[SeenConductance] = []

    def note(layer: DiffusionLayer, conductance: Tensor) -> None:
        seen.append(SeenConductance(layer, conductance.detach()))
        if layer is model:
            raise _SeenAll

    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(_watching(layer, note))
        stack.enter_context(_in_evaluation_mode(model))
        stack.enter_context(seeded_rng(given.x.device, 0, Purpose.MODEL))
        stack.enter_context(torch.no_grad())
        with suppress(_SeenAll):
            given.forward(model)
    _check_seen(layers, seen, num_edges)
    return seen


@contextmanager
def _watching(layer: DiffusionLayer, note: Any) -> Iterator[None]:
    """Hear of each call of a layer's conductance."""
    conductance: Any = layer.conductance
    handle = conductance.register_forward_hook(lambda module, given, out: note(layer, out))
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Every module in evaluation mode for a while, and then as it was."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _check_seen(layers: list[DiffusionLayer], seen: list[SeenConductance], num_edges: int) -> None:
    called = {id(each.layer) for each in seen}
    for layer in layers:
        if id(layer) not in called:
            raise ValueError(
                f"Expected 'model' to ask {layer} how well edges conduct (got no call, or one "
                "without 'edge_attr', of which every edge conducts in full). To fix this error, "
                "give data.edge_attr, or train without PruneEdges."
            )
    for layer, conductance in seen:
        if conductance.numel() != num_edges:
            raise ValueError(
                f"Expected 'model' to call {layer} with the {num_edges} edges that it is given "
                f"(got a conductance of {conductance.numel()}), so that one can tell which to drop."
            )
