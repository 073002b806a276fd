"""The observed path: S by a layer's `propagate`, so that hooks and explainers see messages."""

import math

import torch
from torch import Tensor
from torch_geometric.nn.conv import MessagePassing

from ..graph.rows import GraphRows
from ..operators import HeatOperator, Operator
from ..operators.laplacian import Entries

_HOOKS = [
    f"_{step}_forward{when}_hooks"
    for step in ("propagate", "message", "aggregate")
    for when in ("", "_pre")
]


def is_watched(layer: MessagePassing) -> bool:
    """Return True if an explainer or a hook may observe the messages of a layer."""
    return not layer.fuse or bool(layer.explain) or any(getattr(layer, hooks) for hooks in _HOOKS)


class PropagatedOperator(Operator):
    """S, applied by one message passing."""

    def __init__(
        self,
        layer: MessagePassing,
        edge_index: Tensor,
        norm: Tensor,
        diagonal: Tensor | None,
        num_nodes: int,
    ) -> None:
        self.layer, self.edge_index, self.norm = layer, edge_index, norm
        self.diagonal, self.num_nodes = diagonal, num_nodes

    def apply(self, x: Tensor) -> Tensor:
        """Multiply by S, in one message passing."""
        size = (self.num_nodes, self.num_nodes)
        out: Tensor = self.layer.propagate(self.edge_index, size=size, x=x, norm=self.norm)
        return out if self.diagonal is None else out + self.diagonal.unsqueeze(-1) * x


def through_propagate(
    layer: MessagePassing,
    rows: GraphRows,
    entries: Entries,
    weight: Tensor | None,
    conductance: Tensor | None,
) -> HeatOperator:
    """Make the operator of these entries of S, applied by the `propagate` of a layer."""
    structure = rows.whole(
        "where messages are observed, since those of other processes do not pass `propagate`",
        "remove hooks and explainers, and leave out fuse=False",
    )
    target, source = structure.edges
    edge_index = torch.stack([source, target]).long()  # S is symmetric: it suits either `flow`
    # Edges that share an entry of S are messages of their own, as much as each conducts.
    given = [each for each in (weight, conductance) if each is not None]
    share = math.prod(given[1:], start=given[0]) if given else None
    norm = structure.share_among_edges(entries.off_diagonal, share)
    matrix = PropagatedOperator(layer, edge_index, norm, entries.diagonal, structure.num_nodes)
    return HeatOperator(matrix, *entries[2:], norm.dtype)
