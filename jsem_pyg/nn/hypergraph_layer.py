"""What the hypergraph layers share: weights of hyperedges, times, and the memory of the structure.

Unlike the layers on graphs these are plain modules, since no message is ever made.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from .._checks import check_choice, check_finite, check_float, check_nonnegative_int
from ..diffusion.chebyshev import (
    check_accuracy,
    check_device,
    check_signal,
    compute_dtype,
    diffusion_times,
    full_precision,
)
from ..diffusion.hypergraph import METHODS, check_signal_finite, diffuse_hypergraph
from ..kernels.dispatch import check_backend
from ..operators import (
    HypergraphCache,
    HypergraphOperator,
    HypergraphStructure,
    hypergraph_operator,
    read_hypergraph,
)
from ..operators.hypergraph import HYPERGRAPH_NORMALIZATIONS
from .conductance import make_conductance
from .diffusion_time import DiffusionTime
from .hyperedge_weight import HyperedgeWeight

# (signal [..., N, D], times) -> [..., S, N, D]
Flow = Callable[[Tensor, Tensor], Tensor]


class HypergraphLayer(torch.nn.Module):
    """Abstract base of the layers: what hyperedges weigh, and exp(-tL) of the hypergraph.

    A hyperedge weighs the product of what is given in the call (`hyperedge_weight`), what is
    learned for each hyperedge (`num_hyperedges`), and what is learned of its features
    (`hyperedge_dim`, `conductance`).
    """

    def __init__(
        self,
        hyperedge_dim: int,
        num_hyperedges: int | None,
        t: float | Sequence[float] | Tensor,
        learn_t: bool,
        conductance: str | torch.nn.Module,
        normalization: str,
        degree: int | None,
        tol: float,
        method: str,
        backend: str,
    ) -> None:
        super().__init__()
        check_nonnegative_int("hyperedge_dim", hyperedge_dim)
        check_choice("normalization", normalization, HYPERGRAPH_NORMALIZATIONS)
        check_choice("method", method, METHODS)
        check_accuracy(degree, tol)
        check_backend(backend)
        self.hyperedge_dim = hyperedge_dim
        self.conductance = make_conductance(conductance, hyperedge_dim)
        if getattr(self.conductance, "sees_nodes", False):
            raise ValueError(
                "Expected 'conductance' to be a module that takes (hyperedge_attr), since a "
                "hyperedge has no single pair of nodes (got one of three arguments)."
            )
        self.weight = None if num_hyperedges is None else HyperedgeWeight(num_hyperedges)
        self.time = DiffusionTime(t, learn_t)
        self.normalization = normalization
        self.degree = degree
        self.tol = tol
        self.method = method
        self.backend = backend
        self._structures = HypergraphCache()

    def reset_parameters(self) -> None:
        """Go back to equal weights and the initial times."""
        self.time.reset_parameters()
        self.conductance.reset_parameters()
        if self.weight is not None:
            self.weight.reset_parameters()

    @property
    def t(self) -> Tensor:
        """The diffusion times, > 0: 0-d, [S] scales or [S, D] scales and channels."""
        times: Tensor = self.time()
        return times

    def _flow(
        self,
        x: Tensor,
        hyperedge_index: Any,
        hyperedge_weight: OptTensor,
        hyperedge_attr: OptTensor,
        num_hyperedges: int | None,
    ) -> Flow:
        """Read hypergraph and weights, for as many signals and times as a layer has."""
        operator = self._operator(
            x, hyperedge_index, hyperedge_weight, hyperedge_attr, num_hyperedges
        )
        settings = (self.method, self.backend)
        accuracy: dict[str, Any] = {"degree": self.degree, "tol": self.tol}

        def flow(signal: Tensor, t: Tensor) -> Tensor:
            times = diffusion_times(t, signal)
            return diffuse_hypergraph(signal, operator, times, *settings, **accuracy)

        return flow

    def _operator(
        self,
        x: Tensor,
        hyperedge_index: Any,
        hyperedge_weight: OptTensor,
        hyperedge_attr: OptTensor,
        num_hyperedges: int | None,
    ) -> HypergraphOperator:
        check_signal(x)
        if num_hyperedges is None:
            num_hyperedges = self._count(hyperedge_index, hyperedge_weight, hyperedge_attr)
        hypergraph = read_hypergraph(hyperedge_index, x.size(-2), num_hyperedges, self._structures)
        structure = hypergraph.structure
        check_device("hyperedge_index", structure.device, x)
        # A GPU has to wait for a look at values, so there it comes with the preparation.
        may_look = hypergraph.fresh or x.device.type == "cpu"
        if may_look:
            check_signal_finite(x)
        if hyperedge_weight is None:
            hyperedge_weight = hypergraph.weight
        if hyperedge_attr is None and self.hyperedge_dim:
            hyperedge_attr = hypergraph.attr
        with full_precision(x.device):
            factors = (
                self._given(structure, hyperedge_weight, x, may_look),
                self._learned(structure),
                self._conduct(structure, hyperedge_attr, x, may_look),
            )
            weight = x.new_ones(structure.num_hyperedges, dtype=compute_dtype(x))
            for factor in factors:
                weight = weight if factor is None else weight * factor.to(weight.dtype)
            return hypergraph_operator(structure, weight, self.normalization)

    def _count(self, index: Any, weight: OptTensor, attr: OptTensor) -> int | None:
        """The number of hyperedges, where something else than the memberships says it."""
        if not isinstance(index, Tensor):
            return None
        if self.weight is not None:
            return self.weight.raw.numel()
        return next((each.size(0) for each in (weight, attr) if each is not None), None)

    def _given(
        self, structure: HypergraphStructure, weight: OptTensor, x: Tensor, may_look: bool
    ) -> OptTensor:
        if weight is None:
            return None
        structure.check_weight_shape(weight)
        check_device("hyperedge_weight", weight.device, x)
        if may_look:
            structure.check_weight(weight)
        return weight

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

    def _conduct(
        self, structure: HypergraphStructure, attr: OptTensor, x: Tensor, may_look: bool
    ) -> OptTensor:
        if self.hyperedge_dim == 0 and isinstance(attr, Tensor):
            raise ValueError(
                "Expected 'hyperedge_attr' to be None where 'hyperedge_dim' is 0 (got shape "
                f"{list(attr.shape)}). To fix this, make the layer with "
                "hyperedge_dim=hyperedge_attr.size(1)."
            )
        if self.hyperedge_dim == 0:
            return None
        attr = self._check_attr(structure, attr)
        check_device("hyperedge_attr", attr.device, x)
        if may_look:
            check_finite("hyperedge_attr", attr)
        conductance: Tensor = self.conductance(attr.to(self.time.raw.dtype))
        return conductance

    def _check_attr(self, structure: HypergraphStructure, attr: OptTensor) -> Tensor:
        expected = [structure.num_hyperedges, self.hyperedge_dim]
        if attr is None:
            raise ValueError(
                f"Expected 'hyperedge_attr' of shape {expected}, since the layer was made with "
                f"hyperedge_dim={self.hyperedge_dim} (got None). hyperedge_dim=0 means none."
            )
        check_float("hyperedge_attr", attr)
        attr = attr.unsqueeze(-1) if attr.dim() == 1 else attr
        if list(attr.shape) != expected:
            raise ValueError(
                f"Expected 'hyperedge_attr' to have shape {expected}, a row for each hyperedge "
                f"and 'hyperedge_dim' columns (got {list(attr.shape)})."
            )
        return attr

    def _describe(self) -> str:
        parts = [f"t={self.time}", f"normalization={self.normalization}"]
        if self.weight is not None:
            parts.insert(0, f"num_hyperedges={self.weight.raw.numel()}")
        if self.hyperedge_dim:
            parts.insert(0, f"hyperedge_dim={self.hyperedge_dim}")
        return ", ".join(parts)
