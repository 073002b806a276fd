"""A callback that drops edges of low conductance during training."""

import logging
from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn.conv import MessagePassing

from .._checks import check_number, check_positive, check_positive_int
from ..nn import AnisotropicDiffusion
from ..partition import prune_edges
from .history import EpochEnd
from .seeds import Purpose, seeded_rng
from .training_graph import TrainingGraph

_log = logging.getLogger(__name__)

_LEAST_SHARE = 0.01  # of the edges: fewer of them are not worth the preparation of another graph


class PruningStep(NamedTuple):
    """Edges that were dropped together."""

    epoch: int  #: the last one with them
    num_edges: int  #: columns of `edge_index` that the epoch had
    num_dropped: int  #: of these, two for an edge


class PruneEdges:
    r"""A callback of `fit` that drops edges whose conductance is below a threshold.

    Every few epochs it reads the conductance of the edges in all diffusions of the model. Edges
    that are below the threshold in all of them are dropped from the epochs to come, in both
    directions, as far as the nodes at their ends can spare them
    (:func:`~jsem_pyg.partition.prune_edges`). Fewer than one in a hundred wait for the next look.
    Triplets are still drawn from the graph as it was given, so that the learning problem stays the
    same.

    An edge that is dropped does not come back. The end of the last epoch counts like any other, so
    that a run that is resumed for more epochs is one that had as many from the start. Of the result
    of `fit`, `kept` are the edges that were left, and `pruned(data)` is their graph. A resumed run
    is that of one which was never interrupted, bit for bit.

    It is for models of :class:`~jsem_pyg.nn.AnisotropicDiffusion` and
    :class:`~jsem_pyg.nn.AnisotropicChebConv` that train by triplets. A
    :class:`~jsem_pyg.nn.DiffusionClassifier` has no use for it: its first diffusion goes along all
    edges alike, so that none can be dropped.

    Args:
        threshold: An edge of a lower conductance may go, > 0.
        every: Epochs from one look to the next. A look costs a forward pass.
        max_share: The largest share of a node's degree that may go at once, in (0, 1].

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If it is out of its range.

    Example:
        >>> from jsem_pyg.nn import AnisotropicDiffusion
        >>> from jsem_pyg.training import fit
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> graph = Data(x=torch.eye(4), edge_index=ring, edge_attr=torch.ones(8, 1))
        >>> pruning = PruneEdges(threshold=0.01)
        >>> result = fit(AnisotropicDiffusion(), graph, epochs=3, callbacks=[pruning])
        >>> result.pruned(graph).num_edges
        8
    """

    def __init__(self, threshold: float = 0.01, *, every: int = 5, max_share: float = 0.05) -> None:
        check_positive("threshold", threshold)
        check_positive_int("every", every)
        check_number("max_share", max_share)
        if not 0 < max_share <= 1:
            raise ValueError(f"Expected 'max_share' to lie in (0, 1] (got {max_share!r}).")
        self.threshold, self.every, self.max_share = threshold, every, max_share
        self._steps: list[PruningStep] = []
        self._epoch = 0  # of the last call

    @property
    def steps(self) -> list[PruningStep]:
        """Each pruning since the run began or resumed: `epoch`, `num_edges`, `num_dropped`."""
        return list(self._steps)

    def __call__(self, end: EpochEnd) -> None:
        """Prune the edges every so many epochs; see the class."""
        epoch, graph = end.row.epoch, end.input
        if epoch != self._epoch + 1:  # of another run, or of one that is resumed
            self._steps = []
        self._epoch = epoch
        if epoch % self.every:  # at the last epoch too: a run may be resumed for more
            return
        data = Data(edge_index=graph.whole_edge_index(), num_nodes=graph.x.size(0))
        data.edge_weight = graph.edge_weight
        conductance = observe_conductances(end.model, graph)
        pruned = prune_edges(data, conductance, self.threshold, max_share=self.max_share)
        if pruned.num_dropped > _LEAST_SHARE * data.num_edges:
            end.keep_edges(pruned.kept)
            self._steps.append(PruningStep(epoch, data.num_edges, pruned.num_dropped))
            _log.info("%s", self._steps[-1])


def observe_conductances(model: nn.Module, graph: TrainingGraph) -> Tensor:
    """The conductance of the edges [E, L] in all L calls of diffusions by a model.

    The model is called in evaluation mode, without gradients, and left as it was.
    """
    layers, num_edges = diffusion_layers(model), graph.whole_edge_index().size(1)
    found: list[tuple[AnisotropicDiffusion, Tensor]] = []

    def observe(layer: AnisotropicDiffusion) -> None:
        hook = layer.get_submodule("conductance").register_forward_hook(
            lambda module, given, out: found.append((layer, out.flatten()))
        )
        stack.callback(hook.remove)

    with ExitStack() as stack:
        for layer in layers:
            observe(layer)
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
        stack.enter_context(seeded_rng(graph.x.device, 0, Purpose.MODEL))
        stack.enter_context(torch.no_grad())
        graph.forward(model.eval())
    for layer in layers:
        if all(called is not layer for called, _ in found):
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
    return torch.stack([conductance for _, conductance in found], -1)


def diffusion_layers(model: nn.Module) -> list[AnisotropicDiffusion]:
    """The diffusions of a model; raise unless all have a conductance in [0, 1]."""
    layers = []
    for name, module in model.named_modules():
        if not isinstance(module, MessagePassing):
            continue
        if not isinstance(module, AnisotropicDiffusion) or module.conductance is None:
            raise ValueError(
                "Expected 'model' to be made of diffusions that learn the conductance of edges, "
                "AnisotropicDiffusion or AnisotropicChebConv with edge_dim > 0 or a conductance of "
                f"the nodes (got {name or 'the model itself'}: {module}, where every edge counts "
                "in full). To fix this error, train it without PruneEdges."
            )
        layers.append(module)
    if not layers:
        raise ValueError(
            "Expected 'model' to have an AnisotropicDiffusion or AnisotropicChebConv, which learn "
            f"the conductance of edges (got {model}). To fix this error, train it without "
            "PruneEdges."
        )
    return layers
