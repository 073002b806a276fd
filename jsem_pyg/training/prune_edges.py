"""A callback that drops edges of low conductance during training."""

import logging
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._checks import check_positive, check_positive_int
from ..diffusion import heat_degree
from ..graph import GraphStructure
from ..nn.diffusion_layer import DiffusionLayer
from ..partition.prune.spare_edges import (
    MAX_SHARE,
    check_share,
    closed_slots,
    conducting_weight,
    slots_to_keep,
)
from .conductance_hook import diffusion_layers, observe_conductances
from .history import EpochEnd

_log = logging.getLogger(__name__)

_MOST_LOOKS = 255  # that a byte counts

# An epoch visits every edge, term and column once forward, and about twice backward: the recurrence
# that runs back, and the gradient of the edge's value. To sort, check and order an edge of a new
# structure takes 170 to 300 such visits (measured at 10^4 and 10^5 nodes).
_VISITS, _PREPARING = 3, 500


class PruningStep(NamedTuple):
    """Edges that were dropped together."""

    epoch: int  #: the last one with them
    num_edges: int  #: columns of `edge_index` that the epoch had
    num_dropped: int  #: of these, two for an edge


class PruneEdges:
    r"""A callback of `fit` that drops edges whose conductance stays below a threshold.

    Every few epochs it reads the conductance of the edges in all diffusions of the model. An edge
    that was below the threshold in all of them, `patience` times in a row, is dropped from the
    epochs to come, in both directions, as far as the nodes at its ends can spare it
    (:func:`~jsem_pyg.partition.prune_edges`), and if the epochs that are left save more than it
    costs to prepare a smaller graph; otherwise it waits. Triplets are still drawn from the graph as
    it was given, so that the learning problem stays the same.

    An edge that is dropped does not come back. `steps` lists what was dropped, as records of
    `epoch`, `num_edges` and `num_dropped`. Of the result of `fit`, `kept` are the edges that were
    left, and `pruned(data)` is their graph.

    It is for models of :class:`~jsem_pyg.nn.AnisotropicDiffusion` and
    :class:`~jsem_pyg.nn.AnisotropicChebConv` that train by triplets. A
    :class:`~jsem_pyg.nn.DiffusionClassifier` has no use for it: its first diffusion goes along all
    edges alike, so that none can be dropped.

    A checkpoint keeps its state, and a resumed run is that of one which was never interrupted, bit
    for bit. If `epochs` grows with a resume, earlier decisions stay.

    Args:
        threshold: An edge of a lower conductance may go, > 0.
        every: Epochs from one look to the next. A look costs a forward pass, and next to nothing
            for a model that is a single layer.
        patience: Looks in a row that an edge has to be below the threshold, 1 to 255.
        max_share: The largest share of a node's degree that may go at once, in (0, 1].

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If it is out of its range.

    Example:
        >>> from jsem_pyg.nn import AnisotropicDiffusion
        >>> from jsem_pyg.training import fit
        >>> from torch_geometric.data import Data
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> graph = Data(x=torch.eye(4), edge_index=ring, edge_attr=torch.ones(8, 1))
        >>> pruning = PruneEdges(threshold=0.01)
        >>> result = fit(AnisotropicDiffusion(), graph, epochs=3, callbacks=[pruning])
        >>> result.pruned(graph).num_edges
        8
    """

    def __init__(
        self,
        threshold: float = 0.01,
        *,
        every: int = 5,
        patience: int = 2,
        max_share: float = MAX_SHARE,
    ) -> None:
        check_positive("threshold", threshold)
        check_positive_int("every", every)
        check_positive_int("patience", patience)
        if patience > _MOST_LOOKS:
            raise ValueError(f"Expected 'patience' to be at most {_MOST_LOOKS} (got {patience}).")
        check_share(max_share)
        self.threshold, self.every, self.patience = threshold, every, patience
        self.max_share = max_share
        self._looks: Tensor | None = None  # [E] how often in a row an edge was below the threshold
        self._steps: list[PruningStep] = []

    @property
    def steps(self) -> list[PruningStep]:
        """The edges dropped in this run, with the epochs."""
        return list(self._steps)

    def __call__(self, end: EpochEnd) -> None:
        """Look at the edges if it is time; see the class."""
        epoch = end.row.epoch
        if epoch == 1:  # of another run, if there was one before
            self._looks, self._steps = None, []
            diffusion_layers(end.model)  # what cannot be pruned is refused at once
        if epoch % self.every or epoch >= end.epochs:
            return
        observed = observe_conductances(end.model, end.input)
        found = [each.conductance for each in observed]
        structure = GraphStructure(end.input.edge_index, end.input.x.size(0))
        weight = end.input.edge_weight
        weight = torch.ones_like(found[0]) if weight is None else weight
        conducting = [conducting_weight(structure, weight, each) for each in found]
        lasting = self._count(structure, closed_slots(structure, found, self.threshold))
        kept = structure.to_edges(slots_to_keep(structure, conducting, lasting, self.max_share))
        num_dropped = structure.num_edges - int(kept.sum())
        terms = sum(_num_terms(each.layer) for each in observed)
        passes = end.input.x.size(1) * terms * (end.epochs - epoch)
        # Counts, not seconds: a resumed run decides as it did before.
        if num_dropped * _VISITS * passes > _PREPARING * (structure.num_edges - num_dropped):
            end.keep_edges(kept)
            self._looks = None if self._looks is None else self._looks[kept]
            self._steps.append(PruningStep(epoch, structure.num_edges, num_dropped))
            _log.info("%s", self._steps[-1])

    def state_dict(self) -> dict[str, Any]:
        """The state that a checkpoint keeps."""
        return {"looks": self._looks, "steps": [step._asdict() for step in self._steps]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`, which may have entries of an older release."""
        self._looks = state["looks"]
        fields = PruningStep._fields
        self._steps = [PruningStep(*(step[name] for name in fields)) for step in state["steps"]]

    def _count(self, structure: GraphStructure, closed: Tensor) -> Tensor:
        """Count this look; return the slots [nnz] that were below the threshold for long enough."""
        edges = structure.to_edges(closed)
        before = torch.zeros_like(edges, dtype=torch.uint8) if self._looks is None else self._looks
        before = before.to(edges.device)
        # Up to the byte's limit, from which it must not begin anew.
        looks = torch.where(edges, before.clamp(max=_MOST_LOOKS - 1) + 1, 0).to(torch.uint8)
        self._looks = looks
        return closed & (structure.to_slots((looks >= self.patience).double()) > 0)


def _num_terms(layer: DiffusionLayer) -> int:
    """Products with the operator in one call of a layer."""
    if layer.options.degree is not None:
        return layer.options.degree
    return heat_degree(float(layer.t.detach().max()), layer.options.tol)
