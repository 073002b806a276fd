"""The base of the hypergraph layers: what hyperedges weigh.

Unlike the layers on graphs these are plain modules, since no message is ever made.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data.hypergraph_data import HyperGraphData
from torch_geometric.typing import OptTensor

from .._checks import check_finite, check_nonnegative_int
from .._precision import compute_dtype, full_precision
from ..diffusion.filters import Filter
from ..diffusion.hypergraph import hypergraph_heat
from ..diffusion.options import HeatOptions
from ..diffusion.times import Times
from ..graph import HypergraphStructure
from ..graph.prepare_hypergraph import read_hypergraph
from .conductance import as_real
from .heat_layer import Diffuse, HeatLayer
from .hyperedge_weight import HyperedgeWeight
from .node_conductance import make_conductance


class HypergraphLayer(HeatLayer):
    """Abstract base of the layers: what hyperedges weigh, and exp(-tL) of the hypergraph.

    A hyperedge weighs the product of what is given in the call (`hyperedge_weight`), what is
    learned for each hyperedge (`num_hyperedges`), and what is learned of its features
    (`hyperedge_dim`, `conductance`).

    `torch.compile` breaks its graph where the hypergraph is prepared, and `torch.export` does not
    take these layers: there is no registered op for hypergraphs.
    """

    def __init__(
        self,
        hyperedge_dim: int = 0,
        num_hyperedges: int | None = None,
        t: float | Sequence[float] | Tensor = 1.0,
        learn_t: bool = True,
        conductance: str | torch.nn.Module = "sigmoid",
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
        check_nonnegative_int("hyperedge_dim", hyperedge_dim)
        self.hyperedge_dim = hyperedge_dim
        self.conductance = make_conductance(conductance, hyperedge_dim)
        if getattr(self.conductance, "sees_nodes", False):
            raise ValueError(
                "Expected 'conductance' to be a module that takes (hyperedge_attr), since a "
                "hyperedge has no single pair of nodes (got one of three arguments)."
            )
        self.weight = None if num_hyperedges is None else HyperedgeWeight(num_hyperedges)
        self._make_heat(t, learn_t, options, filter=filter)

    def forward(
        self,
        x: Tensor,
        hyperedge_index: Any,
        hyperedge_weight: OptTensor = None,
        hyperedge_attr: OptTensor = None,
        num_hyperedges: int | None = None,
    ) -> Tensor:
        """Diffuse the node features, and map them in a convolution; see the class for shapes.

        Without weights or features, give `num_hyperedges` if the last hyperedges may be empty.
        """
        hypergraph = (hyperedge_index, hyperedge_weight, hyperedge_attr, num_hyperedges)
        return self._run(x, *hypergraph)

    def _prepare(
        self,
        x: Tensor,
        hyperedge_index: Any,
        hyperedge_weight: OptTensor = None,
        hyperedge_attr: OptTensor = None,
        num_hyperedges: int | None = None,
    ) -> tuple[Times | Filter, Diffuse]:
        """Read the hypergraph, and weigh its hyperedges by all that is given or learned."""
        if num_hyperedges is None:
            num_hyperedges = self._count(hyperedge_index, hyperedge_weight, hyperedge_attr)
        structure, weight = read_hypergraph(
            self._reader, hyperedge_index, x, hyperedge_weight, num_hyperedges
        )
        if isinstance(hyperedge_index, HyperGraphData) and hyperedge_attr is None:
            hyperedge_attr = hyperedge_index.get("edge_attr") if self.hyperedge_dim else None
        with full_precision(x.device):
            for factor in (self._learned(structure), self._conduct(structure, hyperedge_attr, x)):
                if factor is not None:
                    factor = factor.to(torch.promote_types(factor.dtype, compute_dtype(x)))
                    weight = factor if weight is None else weight * factor
        heat = partial(
            hypergraph_heat,
            structure=structure,
            hyperedge_weight=weight,
            options=self.options,
        )
        return self._read_times(x), heat

    def _count(self, index: Any, weight: OptTensor, attr: OptTensor) -> int | None:
        """The number of hyperedges, if it is known from anything beside the memberships."""
        if not isinstance(index, Tensor):
            return None
        if self.weight is not None:
            return self.weight.raw.numel()
        return next((len(each) for each in (weight, attr) if each is not None), None)

    def _learned(self, structure: HypergraphStructure) -> OptTensor:
        if self.weight is None:
            return None
        count = self.weight.raw.numel()
        if structure.num_hyperedges != count:
            raise ValueError(
                f"Expected a hypergraph of {count} hyperedges, as the layer has learned weights "
                f"for (got {structure.num_hyperedges}). To fix this, make the layer with "
                "num_hyperedges=None where hypergraphs differ."
            )
        learned: Tensor = self.weight()
        return learned

    def _conduct(self, structure: HypergraphStructure, attr: OptTensor, x: Tensor) -> OptTensor:
        if self.conductance is None or self.hyperedge_dim == 0:
            if attr is None:
                return None
            raise ValueError(
                "Expected 'hyperedge_attr' to be None where 'hyperedge_dim' is 0 (got shape "
                f"{list(attr.shape)}). To fix this, make the layer with "
                "hyperedge_dim=hyperedge_attr.size(1)."
            )
        attr = self._check_attr(structure, attr)
        check = partial(check_finite, "hyperedge_attr")
        self._reader.check(structure, x, "hyperedge_attr", attr, check)
        conductance: Tensor = self.conductance(attr.to(self.time.raw.dtype))
        return conductance

    def _check_attr(self, structure: HypergraphStructure, attr: OptTensor) -> Tensor:
        expected = [structure.num_hyperedges, self.hyperedge_dim]
        if attr is None:
            raise ValueError(
                f"Expected 'hyperedge_attr' of shape {expected}, since the layer was made with "
                f"hyperedge_dim={self.hyperedge_dim} (got None). hyperedge_dim=0 means none."
            )
        attr = as_real("hyperedge_attr", attr)
        attr = attr.unsqueeze(-1) if attr.dim() == 1 else attr
        if list(attr.shape) != expected:
            raise ValueError(
                f"Expected 'hyperedge_attr' to have shape {expected}, a row for each hyperedge "
                f"and 'hyperedge_dim' columns (got {list(attr.shape)})."
            )
        return attr

    def _describe(self) -> str:
        parts = [super()._describe()]
        if self.weight is not None:
            parts.insert(0, f"num_hyperedges={self.weight.raw.numel()}")
        if self.hyperedge_dim:
            parts.insert(0, f"hyperedge_dim={self.hyperedge_dim}")
        return ", ".join(parts)
