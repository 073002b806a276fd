"""The conductance of the edges in every diffusion of a model, observed by a forward hook."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn.conv import MessagePassing

from ..nn.diffusion_layer import DiffusionLayer
from .seeds import Purpose, seeded_rng
from .training_graph import TrainingGraph


class LayerConductance(NamedTuple):
    """The conductance of the edges in one call of a layer."""

    layer: DiffusionLayer
    conductance: Tensor  # [E]


class _FoundAllError(Exception):
    """Raised to end a forward pass that has nothing more to show."""


def diffusion_layers(model: nn.Module) -> list[DiffusionLayer]:
    """The diffusions of a model, all of which have a conductance in [0, 1].

    Raises:
        ValueError: If there is none, or if some layer sends messages along all edges alike: there,
            none can be dropped.
    """
    layers = []
    for name, module in model.named_modules():
        if not isinstance(module, MessagePassing):
            continue
        if not isinstance(module, DiffusionLayer) or module.conductance is None:
            raise ValueError(
                "Expected 'model' to be made of diffusions that learn the conductance of edges, "
                "AnisotropicDiffusion or AnisotropicChebConv with edge_dim > 0 or a conductance of "
                f"the nodes (got {name or 'the model itself'}: {module}, where every edge counts "
                "in full). To fix this error, train it without PruneEdges."
            )
        if getattr(module.conductance, "signed", False):
            raise ValueError(
                "Expected conductances in [0, 1], of which the lowest belong to edges that can go "
                f"(got signed ones, of {module}). To fix this error, train it without PruneEdges."
            )
        layers.append(module)
    if not layers:
        raise ValueError(
            "Expected 'model' to have an AnisotropicDiffusion or AnisotropicChebConv, which learn "
            f"the conductance of edges (got {model}). To fix this error, train it without "
            "PruneEdges."
        )
    return layers


def observe_conductances(model: nn.Module, graph: TrainingGraph) -> list[LayerConductance]:
    """Call a model in evaluation mode, without gradients, and return the conductance of its edges.

    Every call of every diffusion gives an entry. A model that is a single layer stops before it
    diffuses anything.

    Raises:
        ValueError: If the model has no such layers, or others that use the edges, if a layer is
            not called or gets no edge features, or if a layer is called with other edges.
    """
    layers, num_edges = diffusion_layers(model), graph.check_is_whole().size(1)
    found: list[LayerConductance] = []

    def observe(layer: DiffusionLayer, conductance: Tensor) -> None:
        found.append(LayerConductance(layer, conductance.detach()))
        if layer is model:
            raise _FoundAllError

    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(_conductance_hook(layer, observe))
        stack.enter_context(_evaluation_mode(model))
        stack.enter_context(seeded_rng(graph.x.device, 0, Purpose.MODEL))
        stack.enter_context(torch.no_grad())
        with suppress(_FoundAllError):
            graph.forward(model)
    _check_found(layers, found, num_edges)
    return found


@contextmanager
def _conductance_hook(layer: DiffusionLayer, observe: Any) -> Iterator[None]:
    """Call `observe` with each conductance that a layer computes."""
    conductance: Any = layer.conductance
    handle = conductance.register_forward_hook(lambda module, given, out: observe(layer, out))
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Every module in evaluation mode for a while, and then as it was."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _check_found(
    layers: list[DiffusionLayer], found: list[LayerConductance], num_edges: int
) -> None:
    called = {id(each.layer) for each in found}
    for layer in layers:
        if id(layer) not in called:
            raise ValueError(
                f"Expected 'model' to compute the conductance of edges in {layer} (got no call, or "
                "one without 'edge_attr', where every edge conducts in full). To fix this error, "
                "give data.edge_attr, or train without PruneEdges."
            )
    for layer, conductance in found:
        if conductance.numel() != num_edges:
            raise ValueError(
                f"Expected 'model' to call {layer} with the {num_edges} edges that it is given "
                f"(got a conductance of {conductance.numel()}), so that edges to drop can be found."
            )
