"""The layer that diffuses on a hypergraph and does not mix channels."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch_geometric.typing import OptTensor

from .._checks import check_bool, check_float, check_positive_int
from ..diffusion.filters import Filter
from ..diffusion.hypergraph import hypergraph_heat
from ..diffusion.options import HeatOptions
from ..diffusion.times import check_signal
from ..graph import HypergraphStructure
from ..graph.reader import GraphReader
from ..kernels.torch_func import compute_dtype, eager, full_precision
from .conductance import FLOOR
from .diffusion_time import (
    DiffusionTime,
    check_filter,
    describe_times,
    join_scales,
    number_of_scales,
    read_layer_times,
    reset_parts,
    times_of_layer,
)


class HyperedgeWeight(torch.nn.Module):
    r"""Learned weights :math:`w_e = \epsilon + \log(1 + e^{u_e}) > 0`, all one at the start.

    The floor :math:`\epsilon` keeps the degree of every node, and so its gradients, away from zero.
    """

    def __init__(self, num_hyperedges: int) -> None:
        super().__init__()
        check_positive_int("num_hyperedges", num_hyperedges)
        self.raw = torch.nn.Parameter(torch.empty(num_hyperedges))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set all weights to one."""
        torch.nn.init.constant_(self.raw, math.log(math.expm1(1.0 - FLOOR)))

    def forward(self) -> Tensor:
        """Return the weights [E]."""
        return FLOOR + softplus(self.raw)


class HypergraphDiffusion(torch.nn.Module):
    r"""Diffuses features on a hypergraph, whose hyperedge weights may be learned.

    .. math::
        \mathbf{X}^{\prime} = e^{-t (\mathbf{I} - \mathbf{S})} \mathbf{X}, \qquad
        \mathbf{S} = \mathbf{D}_v^{-1/2} \mathbf{H} \mathbf{W} \mathbf{D}_e^{-1}
        \mathbf{H}^{\top} \mathbf{D}_v^{-1/2}

    (the operator: `"Learning with Hypergraphs" <https://proceedings.neurips.cc/paper/2006/hash/
    dff8e9c2ac33381546d96deea9922999-Abstract.html>`_). All signals of a batch share one structure
    and fold into the columns of one product, see :mod:`jsem_pyg.diffusion.hypergraph`; no message
    for a membership is ever stored. The weights of hyperedges act in the propagation itself, where
    :class:`torch_geometric.nn.HypergraphConv` lets them into the degree only.

    Args:
        num_hyperedges (int, optional): Number of hyperedges; if given, each learns a weight. For
            a hypergraph that is always the same.
        t (float, list or torch.Tensor): Initial diffusion time :math:`t > 0`; as `learn_t`,
            `degree`, `tol` and `filter` in :class:`~jsem_pyg.nn.AnisotropicDiffusion`.
        normalization (str): :obj:`"sym"` as above, or :obj:`"rw"` for the random walk
            :math:`\mathbf{D}_v^{-1} \mathbf{H} \mathbf{W} \mathbf{D}_e^{-1} \mathbf{H}^{\top}`.
        backend (str): What evaluates the series: :obj:`"torch"`, :obj:`"reference"` (any device,
            twice differentiable) or :obj:`"auto"`, the first of these that can run.

    Shapes:
        - **input:**
          node features :math:`(\ldots, |\mathcal{V}|, D)`,
          memberships :math:`(2, M)` (node, hyperedge), such as the `edge_index` of a
          :class:`torch_geometric.data.HyperGraphData`, or a
          :class:`~jsem_pyg.graph.HypergraphStructure`,
          hyperedge weights :math:`(|\mathcal{E}|)` *(optional)*, given or made of features by a
          module of your own
        - **output:** node features :math:`(\ldots, |\mathcal{V}|, S \cdot D)`

    Example:
        >>> import torch
        >>> hyperedge_index = torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])
        >>> layer = HypergraphDiffusion(num_hyperedges=2, t=2.0)
        >>> layer(torch.randn(100, 4, 16), hyperedge_index).shape
        torch.Size([100, 4, 16])
    """

    def __init__(
        self,
        num_hyperedges: int | None = None,
        t: float | Sequence[float] | Tensor = 1.0,
        learn_t: bool = True,
        normalization: str = "sym",
        degree: int | None = None,
        tol: float = 1e-6,
        backend: str = "auto",
        filter: Filter | None = None,
    ) -> None:
        super().__init__()
        check_bool("learn_t", learn_t)
        check_filter(filter)
        self.weight = None if num_hyperedges is None else HyperedgeWeight(num_hyperedges)
        self.time = DiffusionTime(t, learn_t and filter is None)
        self.filter = filter
        self.options = HeatOptions(degree, tol, normalization, backend, domain="hypergraph")
        self._reader = GraphReader()

    t, num_scales, reset_parameters = times_of_layer, number_of_scales, reset_parts

    @eager
    def forward(
        self, x: Tensor, hyperedge_index: Any, hyperedge_weight: OptTensor = None
    ) -> Tensor:
        """Diffuse the node features; see the class for shapes."""
        check_signal(x)
        times = read_layer_times(self.time, self.filter, x.size(-1))
        structure, weight = self.read(x, hyperedge_index, hyperedge_weight)
        return join_scales(hypergraph_heat(x, structure, weight, times, self.options))

    def read(
        self, x: Tensor, hyperedge_index: Any, hyperedge_weight: OptTensor
    ) -> tuple[HypergraphStructure, OptTensor]:
        """Prepare or recall the hypergraph, and check it, the signal and the weights.

        Returns also the weights [E] that are given, times those that are learned.
        """
        structure = hyperedge_index
        if not isinstance(structure, HypergraphStructure):
            known = hyperedge_weight if self.weight is None else self.weight.raw
            if known is not None:
                check_float("hyperedge_weight", known)
            # The last hyperedges may have no members.
            sizes = x.size(-2), None if known is None else known.numel()
            structure = self._reader.recall(
                (hyperedge_index,), lambda: HypergraphStructure(hyperedge_index, *sizes), *sizes
            )
        if structure.num_nodes != x.size(-2):
            raise ValueError(
                f"Expected 'x' to have {structure.num_nodes} nodes (got {x.size(-2)})."
            )
        self._reader.check_signal(structure, x, "hyperedge_index")
        if hyperedge_weight is not None:
            structure.check_weight_shape(hyperedge_weight)
            check = structure.check_weight
            self._reader.check(structure, "hyperedge_weight", hyperedge_weight, check)
        return structure, self._multiply_weights(x, structure, hyperedge_weight)

    def _multiply_weights(
        self, x: Tensor, structure: HypergraphStructure, weight: OptTensor
    ) -> OptTensor:
        """Multiply the weights that are given and learned: [E], or None for ones."""
        if self.weight is None:
            return weight
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
            return learned if weight is None else weight * learned

    def _describe(self) -> str:
        learned = "" if self.weight is None else f"num_hyperedges={self.weight.raw.numel()}, "
        times = describe_times(self.time, self.filter)
        return f"{learned}{times}, normalization={self.options.normalization}"

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._describe()})"
