"""Edges that stay closed are dropped from the epochs to come."""

import logging
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._checks import check_positive, check_positive_int
from ..diffusion import heat_degree
from ..graph import GraphStructure
from ..partition.prune.spare_edges import (
    MAX_SHARE,
    check_share,
    closed_slots,
    conducting_weight,
    slots_to_keep,
)
from .history import EpochEnd
from .model_input import ModelInput
from .seen_conductance import SeenConductance, diffusion_layers, seen_conductances

_log = logging.getLogger(__name__)

_MOST_LOOKS = 255  # that a byte counts

# An epoch visits every edge, term and column once forward, and about twice backward: the recurrence
# that runs back, and the gradient of the edge's value. To sort, check and order an edge of a new
# structure takes 170 to 300 such visits (measured at 10^4 and 10^5 nodes with reverse
# Cuthill-McKee); by METIS more.
_VISITS, _PREPARING = 3, 500


class PruningStep(NamedTuple):
    """Edges that went together."""

    epoch: int  #: the last one with them
    num_edges: int  #: columns of `edge_index` that the epoch had
    num_dropped: int  #: of these, two for an edge


class PruneEdges:
    r"""A callback of `fit` that drops edges whose conductance stays below a threshold.

    Every few epochs it looks at what the edges conduct in all diffusions of the model. An edge that
    was below the threshold in all of them, `patience` looks in a row, is dropped from the epochs to
    come, with both its directions, as far as the nodes at its ends can spare it
    (:func:`~jsem_pyg.partition.prune_edges`), and provided that the epochs that are left save more
    than it costs to prepare a smaller graph; otherwise it waits. The new graph is sorted and
    ordered anew, as any other. Triplets are still drawn from the graph as it was given, so that the
    problem that is solved stays the same.

    What an edge conducts may be learned anew in later epochs, but an edge that is dropped does not
    come back. `steps` lists what was dropped. Of the result of `fit`, `kept` are the edges that
    were left, and `pruned(data)` is their graph.

    It is for models of :class:`~jsem_pyg.nn.AnisotropicDiffusion` and
    :class:`~jsem_pyg.nn.AnisotropicChebConv` that train by triplets. Self-training has no use for
    it: the first diffusion of a :class:`~jsem_pyg.nn.DiffusionClassifier` goes through all edges
    alike, so that none is ever closed, and a few rounds would not pay for a new graph.

    With a checkpoint, its state is kept, and a resumed run is that of one which was never
    interrupted, bit for bit. If `epochs` grows with a resume, what was decided stays.

    Args:
        threshold: What is below hardly conducts, > 0.
        every: Epochs from one look to the next. A look costs what the model costs forward, but for
            a model that is a single layer next to nothing.
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
        self._looks: Tensor | None = None  # [E] how often in a row an edge was closed
        self._steps: list[PruningStep] = []

    @property
    def steps(self) -> list[PruningStep]:
        """What was dropped and when, in this run."""
        return list(self._steps)

    def __call__(self, end: EpochEnd) -> None:
        """Look at the edges if it is time; see the class."""
        epoch = end.row.epoch
        if epoch == 1:  # of another run, if there was one before
            self._looks, self._steps = None, []
            diffusion_layers(end.model)  # what cannot be pruned is refused at once
        if epoch % self.every or epoch >= end.epochs:
            return
        seen = seen_conductances(end.model, end.input)
        structure = GraphStructure(end.input.edge_index, end.input.x.size(0))
        candidates = self._count(structure, seen)
        self._drop(end, structure, seen, candidates)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint has to keep."""
        return {"looks": self._looks, "steps": [step._asdict() for step in self._steps]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self._looks = state["looks"]
        self._steps = [_read_step(step) for step in state["steps"]]

    def _count(self, structure: GraphStructure, seen: list[SeenConductance]) -> Tensor:
        """Take note of the edges that are closed now; [nnz], which were for long enough."""
        closed = closed_slots(structure, [each.conductance for each in seen], self.threshold)
        edges = structure.to_edges(closed)
        before = torch.zeros_like(edges, dtype=torch.uint8) if self._looks is None else self._looks
        before = before.to(edges.device)
        # Up to the byte's limit, from which it must not begin anew.
        self._looks = torch.where(edges, before.clamp(max=_MOST_LOOKS - 1) + 1, 0)
        self._looks = self._looks.to(torch.uint8)
        lasting = structure.to_slots((self._looks >= self.patience).double()) > 0
        return closed & lasting

    def _drop(
        self,
        end: EpochEnd,
        structure: GraphStructure,
        seen: list[SeenConductance],
        candidates: Tensor,
    ) -> None:
        """Drop what the nodes can spare, if the epochs that are left make it worth while."""
        conducting = [_conducting(structure, end.input, each) for each in seen]
        stays = slots_to_keep(structure, conducting, candidates, self.max_share)
        kept = structure.to_edges(stays)
        num_kept = int(kept.sum())
        num_left = end.epochs - end.row.epoch
        passes = end.input.x.size(1) * sum(_num_terms(each) for each in seen) * num_left
        if num_kept == structure.num_edges or not _pays(structure.num_edges, num_kept, passes):
            return
        num_dropped = structure.num_edges - num_kept
        step = PruningStep(end.row.epoch, structure.num_edges, num_dropped)
        end.keep_edges(kept)
        self._looks = None if self._looks is None else self._looks[kept]
        self._steps.append(step)
        _log.info("%s", step)


def _conducting(structure: GraphStructure, given: ModelInput, seen: SeenConductance) -> Tensor:
    """What the slots conduct in a layer: [nnz]."""
    weight = given.edge_inputs.get("edge_weight")
    weight = torch.ones_like(seen.conductance) if weight is None else weight
    return conducting_weight(structure, weight, seen.conductance)


def _pays(num_edges: int, num_kept: int, passes: int) -> bool:
    """Whether a smaller graph is worth preparing for the passes (columns, terms, epochs) left.

    Counts, not seconds: a run that is resumed decides as it did before.
    """
    return (num_edges - num_kept) * _VISITS * passes > _PREPARING * num_kept


def _read_step(state: dict[str, Any]) -> PruningStep:
    """A step of a checkpoint, which may have entries of an older release."""
    return PruningStep(**{name: state[name] for name in PruningStep._fields})


def _num_terms(seen: SeenConductance) -> int:
    """Products with the operator in one call of a layer."""
    options = seen.layer.options
    if options.degree is not None:
        return options.degree
    return heat_degree(float(seen.layer.t.detach().max()), options.tol)
