"""The base of the hypergraph layers: hyperedge weights, times, and memory of the structure.

Unlike the layers on graphs these are plain modules, since no message is ever made.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from .._checks import check_bool, check_nonnegative_int
from .._precision import full_precision
from ..diffusion.hypergraph import hyperedge_weights, hypergraph_heat
from ..diffusion.options import HeatOptions
from ..diffusion.times import read_times
from ..graph import HypergraphStructure
from ..graph.prepare_hypergraph import HypergraphReader, PreparedHypergraph
from .conductance import as_real, make_conductance
from .diffusion_time import DiffusionTime
from .hyperedge_weight import HyperedgeWeight


class HypergraphLayer(torch.nn.Module):
    """Abstract base of the layers: what hyperedges weigh, and exp(-tL) of the hypergraph.

    A hyperedge weighs the product of what is given in the call (`hyperedge_weight`), what is
    learned for each hyperedge (`num_hyperedges`), and what is learned of its features
    (`hyperedge_dim`, `conductance`).

    `torch.compile` breaks its graph where the hypergraph is prepared, and `torch.export` does not
    take these layers: there is no registered op for hypergraphs.
    """

    def __init__(
        self,
        hyperedge_dim: int,
        num_hyperedges: int | None,
        t: float | Sequence[float] | Tensor,
        learn_t: bool,
        conductance: str | torch.nn.Module,
        options: HeatOptions,
    ) -> None:
        super().__init__()
        check_nonnegative_int("hyperedge_dim", hyperedge_dim)
        check_bool("learn_t", learn_t)
        self.hyperedge_dim = hyperedge_dim
        self.conductance = make_conductance(conductance, hyperedge_dim)
        if getattr(self.conductance, "sees_nodes", False):
            raise ValueError(
                "Expected 'conductance' to be a module that takes (hyperedge_attr), since a "
                "hyperedge has no single pair of nodes (got one of three arguments)."
            )
        self.weight = None if num_hyperedges is None else HyperedgeWeight(num_hyperedges)
        self.time = DiffusionTime(t, learn_t)
        self.options = options
        self._reader = HypergraphReader()

    def reset_parameters(self) -> None:
        """Go back to equal weights and the initial times."""
        self.time.reset_parameters()
        if self.conductance is not None:
            self.conductance.reset_parameters()
        if self.weight is not None:
            self.weight.reset_parameters()

    @property
    def t(self) -> Tensor:
        """The diffusion times, > 0: 0-d, [S] scales or [S, D] scales and channels."""
        times: Tensor = self.time()
        return times

    def _weigh(
        self,
        x: Tensor,
        hyperedge_index: Any,
        hyperedge_weight: OptTensor,
        hyperedge_attr: OptTensor,
        num_hyperedges: int | None,
    ) -> tuple[HypergraphStructure, Tensor]:
        """The structure, and what its hyperedges weigh [E]."""
        if num_hyperedges is None:
            num_hyperedges = self._count(hyperedge_index, hyperedge_weight, hyperedge_attr)
        hypergraph = self._reader.read(
            hyperedge_index, x, hyperedge_weight, hyperedge_attr, num_hyperedges
        )
        structure = hypergraph.structure
        with full_precision(x.device):
            weight = hyperedge_weights(hypergraph, x)
            factors = self._learned(structure), self._conduct(hypergraph, hyperedge_attr, x)
            for factor in factors:
                weight = weight if factor is None else weight * factor.to(weight.dtype)
        return structure, weight

    def _diffuse(
        self, signal: Tensor, structure: HypergraphStructure, weight: Tensor, t: Tensor
    ) -> Tensor:
        """[..., N, D] -> [..., S, N, D]."""
        return hypergraph_heat(signal, structure, weight, read_times(t, signal), self.options)

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

    def _conduct(self, hypergraph: PreparedHypergraph, given: OptTensor, x: Tensor) -> OptTensor:
        if self.conductance is None or self.hyperedge_dim == 0:
            if given is None:
                return None  # what a HyperGraphData happens to carry is not looked at
            raise ValueError(
                "Expected 'hyperedge_attr' to be None where 'hyperedge_dim' is 0 (got shape "
                f"{list(given.shape)}). To fix this, make the layer with "
                "hyperedge_dim=hyperedge_attr.size(1)."
            )
        attr = self._check_attr(hypergraph.structure, hypergraph.attr)
        self._reader.check_attr(hypergraph.structure, attr, x)
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
        parts = [f"t={self.time}", f"normalization={self.options.normalization}"]
        if self.weight is not None:
            parts.insert(0, f"num_hyperedges={self.weight.raw.numel()}")
        if self.hyperedge_dim:
            parts.insert(0, f"hyperedge_dim={self.hyperedge_dim}")
        return ", ".join(parts)
