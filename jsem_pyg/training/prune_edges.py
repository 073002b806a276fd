"""A callback that drops edges of low conductance during training."""

import logging
from contextlib import ExitStack

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn.conv import MessagePassing

from .._checks import check_positive_int
from ..nn import AnisotropicDiffusion
from ..partition import prune_edges
from ..partition.pruning import check_limits
from .history import EpochEnd
from .seeds import Purpose, seeded_rng
from .training_graph import TrainingGraph

_log = logging.getLogger(__name__)

_LEAST_SHARE = 0.01  # of the edges: fewer of them are not worth the preparation of another graph


class PruneEdges:
    r"""A callback of `fit` that drops edges whose conductance is below a threshold.

    Every few epochs it reads the conductance of the edges in all diffusions of the model, which
    have to be :class:`~jsem_pyg.nn.AnisotropicDiffusion` or
    :class:`~jsem_pyg.nn.AnisotropicChebConv`. Edges that are below the threshold in all of them are
    dropped from the epochs to come, in both directions, as far as the nodes at their ends can spare
    them (:func:`~jsem_pyg.partition.prune_edges`). Fewer than one in a hundred wait for the next
    look. Triplets are still drawn from the graph as it was given.

    Of the result of `fit`, `kept` are the edges that were left, and `pruned(data)` is their graph.
    A run that is resumed drops the edges that an unbroken one drops, bit for bit.

    Args:
        threshold: An edge of a lower conductance may go, > 0.
        every: Epochs from one look to the next. A look costs a forward pass.
        max_share: The largest share of a node's degree that may go at once, in (0, 1].

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
        check_limits(threshold, max_share)
        check_positive_int("every", every)
        self.threshold, self.every, self.max_share = threshold, every, max_share

    def __call__(self, end: EpochEnd) -> None:
        """Prune the edges every so many epochs; see the class."""
        if end.row.epoch % self.every:  # at the last epoch too: a run may be resumed for more
            return
        graph = end.input
        data = Data(edge_index=graph.whole_edge_index(), num_nodes=graph.x.size(0))
        data.edge_weight = graph.edge_weight
        conductance = _observe_conductances(end.model, graph)
        pruned = prune_edges(data, conductance, self.threshold, max_share=self.max_share)
        if pruned.num_dropped > _LEAST_SHARE * data.num_edges:
            end.keep_edges(pruned.kept)
            _log.info("dropped %d of %d edges", pruned.num_dropped, data.num_edges)


def _observe_conductances(model: nn.Module, graph: TrainingGraph) -> Tensor:
    """Return the conductance of the edges [E, L] in all L calls of diffusions by a model.

    The model is called in evaluation mode, without gradients, and left as it was.
    """
    found: dict[nn.Module, list[Tensor]] = {layer: [] for layer in diffusion_layers(model)}
    with ExitStack() as stack:
        for layer, seen in found.items():
            part = layer.get_submodule("conductance")
            hook = part.register_forward_hook(
                lambda *call, seen=seen: seen.append(call[-1].flatten())
            )
            stack.callback(hook.remove)
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
        stack.enter_context(seeded_rng(graph.x.device, 0, Purpose.MODEL))
        stack.enter_context(torch.no_grad())
        graph.forward(model.eval())
    num_edges = graph.whole_edge_index().size(1)
    for layer, seen in found.items():
        if not seen or any(h.numel() != num_edges for h in seen):
            raise ValueError(
                f"Expected 'model' to compute the conductance of the {num_edges} edges that it is "
                f"given in {layer} (got {[h.numel() for h in seen]} conductances)."
            )
    return torch.stack([h for seen in found.values() for h in seen], -1)


def diffusion_layers(model: nn.Module) -> list[nn.Module]:
    """Return the diffusions of a model; raise unless all of them learn a conductance of edges."""
    layers = {
        name: each for name, each in model.named_modules() if isinstance(each, MessagePassing)
    }
    others = [
        f"{name or 'the model itself'}: {each}"
        for name, each in layers.items()
        if not isinstance(each, AnisotropicDiffusion) or each.conductance is None
    ]
    if others or not layers:
        raise ValueError(
            "Expected 'model' to be made of diffusions that learn the conductance of edges (got "
            f"{others[0] if others else 'none'}). To fix this, train it without PruneEdges."
        )
    return list(layers.values())
