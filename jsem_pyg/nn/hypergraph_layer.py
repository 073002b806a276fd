"""The base of the hypergraph layers: weights of hyperedges.

Unlike the layers on graphs these are plain modules, since no message is ever made.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from .._precision import compute_dtype, full_precision
from ..diffusion.filters import Filter
from ..diffusion.hypergraph import hypergraph_heat
from ..diffusion.options import HeatOptions
from ..diffusion.times import Times
from ..graph import HypergraphStructure
from ..graph.prepare_hypergraph import read_hypergraph
from .heat_layer import HeatLayer
from .hyperedge_weight import HyperedgeWeight


class HypergraphLayer(HeatLayer):
    """Abstract base of the layers: weights of hyperedges, and exp(-tL) of the hypergraph.

    A hyperedge weighs the product of what is given in the call (`hyperedge_weight`) and what is
    learned for each hyperedge (`num_hyperedges`).

    There is no registered op for hypergraphs: `torch.compile` breaks its graph around these layers,
    which run as eager code, and `torch.export` does not take them.
    """

    def __init__(
        self,
        num_hyperedges: int | None = None,
        t: float | Sequence[float] | Tensor = 1.0,
        learn_t: bool = True,
        normalization: str = "sym",
        degree: int | None = None,
        tol: float = 1e-6,
        method: str = "auto",
        backend: str = "auto",
        filter: Filter | None = None,
    ) -> None:
        super().__init__()
        options = HeatOptions(
            degree, tol, normalization, backend, method=method, domain="hypergraph"
        )
        self.weight = None if num_hyperedges is None else HyperedgeWeight(num_hyperedges)
        self._make_heat(t, learn_t, options, filter=filter)

    def read(
        self,
        x: Tensor,
        hyperedge_index: Any,
        hyperedge_weight: OptTensor = None,
        num_hyperedges: int | None = None,
    ) -> tuple[HypergraphStructure, OptTensor]:
        """Read the hypergraph, and multiply the weights that are given and learned."""
        known = hyperedge_weight if self.weight is None else self.weight.raw
        if num_hyperedges is None and isinstance(hyperedge_index, Tensor) and known is not None:
            num_hyperedges = known.numel()  # the last hyperedges may have no members
        structure, weight = read_hypergraph(
            self._reader, hyperedge_index, x, hyperedge_weight, num_hyperedges
        )
        if self.weight is None:
            return structure, weight
        count = self.weight.raw.numel()
        if structure.num_hyperedges != count:
            raise ValueError(
                f"Expected a hypergraph of {count} hyperedges, as the layer has learned weights "
                f"for (got {structure.num_hyperedges}). To fix this, make the layer with "
                "num_hyperedges=None if hypergraphs differ."
            )
        with full_precision(x.device):
            learned: Tensor = self.weight()
            learned = learned.to(torch.promote_types(learned.dtype, compute_dtype(x)))
            return structure, learned if weight is None else weight * learned

    def diffuse(
        self,
        x: Tensor,
        hypergraph: tuple[HypergraphStructure, OptTensor],
        times: Times | Filter,
    ) -> Tensor:
        """Diffuse or filter a signal [..., N, D] on a weighted hypergraph -> [..., S, N, D]."""
        return hypergraph_heat(x, *hypergraph, times, self.options)

    def _describe(self) -> str:
        parts = [super()._describe()]
        if self.weight is not None:
            parts.insert(0, f"num_hyperedges={self.weight.raw.numel()}")
        return ", ".join(parts)
