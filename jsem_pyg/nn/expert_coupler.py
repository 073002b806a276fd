"""Between the experts of a mixture and their mixing: let them exchange what they found."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import LayerNorm, Module, ModuleList, Parameter

from .._checks import check_dense, check_float, check_positive_int
from ..graph import HypergraphStructure
from ..graph.hyperedges import count_sets
from .channel_map import check_type_of_layer
from .hypergraph_cheb_conv import HypergraphChebConv

# Of all groups together: what is quickly written down, and holds a few bytes for each.
MOST_MEMBERSHIPS = 10_000_000


class ExpertCoupler(Module):
    r"""A stack of hypergraph layers over the experts of a mixture, for every token at once.

    .. math::
        \mathbf{X} \leftarrow \mathbf{X} + \alpha_{\ell} \,
        \mathrm{GELU} \left( \mathrm{HypergraphChebConv}_{\ell} (
        \mathrm{LayerNorm}_{\ell} (\mathbf{X}) ) \right)

    Put it between the outputs of the experts, [B, L, E, D], and their weighted sum. The gains
    :math:`\alpha_{\ell}` start at zero (`"ReZero is all you need"
    <https://arxiv.org/abs/2003.04887>`_, eq. 1), so that a new coupler changes nothing: it can be
    put into a trained model. Every layer learns a weight for each hyperedge: which groups of
    experts should agree. One structure serves all tokens, whatever their number.

    Args:
        num_experts (int): Number :math:`E` of experts.
        channels (int): Number :math:`D` of channels.
        hyperedges (int or torch.Tensor): The size of the groups: :obj:`2` makes every pair of
            experts a hyperedge, :obj:`3` every triple; or the memberships :math:`(2, M)` (expert,
            hyperedge) themselves, such as :func:`~jsem_pyg.graph.random_hyperedges` draws where
            all groups are too many.
        num_layers (int): Number of layers.
        t (float or list): Initial diffusion times of every layer.
        **kwargs (optional): Additional arguments of :class:`~jsem_pyg.nn.HypergraphChebConv`.

    Shapes:
        - **input:** outputs of the experts :math:`(\ldots, E, D)`
        - **output:** coupled outputs :math:`(\ldots, E, D)`

    Example:
        >>> coupler = ExpertCoupler(num_experts=8, channels=64, hyperedges=3)
        >>> coupler(torch.randn(4, 128, 8, 64)).shape
        torch.Size([4, 128, 8, 64])
    """

    def __init__(
        self,
        num_experts: int,
        channels: int,
        hyperedges: int | Tensor = 2,
        num_layers: int = 2,
        t: float | Sequence[float] = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        check_positive_int("num_experts", num_experts)
        check_positive_int("channels", channels)
        check_positive_int("num_layers", num_layers)
        self.num_experts = num_experts
        self.channels = channels
        index = hyperedges if isinstance(hyperedges, Tensor) else every(num_experts, hyperedges)
        # The buffer is filled with the rest, for it may be made on the device "meta".
        self._index = index
        is_given = isinstance(hyperedges, Tensor)
        device = index.device if is_given else None
        self.register_buffer(
            "hyperedge_index", torch.empty(index.shape, dtype=index.dtype, device=device), is_given
        )
        self.hyperedge_index: Tensor
        count = HypergraphStructure(index, num_experts).num_hyperedges
        self.norms = ModuleList(LayerNorm(channels) for _ in range(num_layers))
        self.convs = ModuleList(
            HypergraphChebConv(channels, channels, num_hyperedges=count, t=t, **kwargs)
            for _ in range(num_layers)
        )
        self.gain = Parameter(torch.empty(num_layers))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Go back to a coupler that changes nothing, on the hyperedges it was made with."""
        self.hyperedge_index.copy_(self._index)
        for part in (*self.norms, *self.convs):
            part.reset_parameters()
        torch.nn.init.zeros_(self.gain)

    @property
    def hyperedge_weight(self) -> Tensor:
        """The learned weights of the hyperedges, [num_layers, num_hyperedges]."""
        return torch.stack([conv.get_submodule("weight")() for conv in self.convs])

    def forward(self, x: Tensor) -> Tensor:
        """Couple the outputs of the experts; see the class for shapes."""
        check_float("x", x)
        check_dense("x", x)
        expected = (self.num_experts, self.channels)
        if x.dim() < 2 or tuple(x.shape[-2:]) != expected:
            raise ValueError(
                f"Expected 'x' to have shape [..., {expected[0]}, {expected[1]}], the outputs of "
                f"every expert (got {list(x.shape)})."
            )
        check_type_of_layer("x", x, self.norms[0])
        for norm, conv, gain in zip(self.norms, self.convs, self.gain, strict=True):
            x = torch.addcmul(x, gain, F.gelu(conv(norm(x), self.hyperedge_index)))
        return x

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.num_experts}, {self.channels}, "
            f"num_hyperedges={self.hyperedge_weight.size(1)}, num_layers={len(self.convs)})"
        )


def every(num_nodes: int, size: int) -> Tensor:
    """The memberships [2, M] of the hypergraph whose hyperedges are all sets of `size` nodes.

    Raises:
        TypeError: if `size` is not an integer.
        ValueError: if there is no such set, or there are too many of them to be written down.
    """
    check_positive_int("hyperedges", size)
    if size > num_nodes:
        raise ValueError(
            f"Expected 'hyperedges' to be at most the number of experts, {num_nodes} (got {size})."
        )
    count = count_sets(num_nodes, size)
    if count * size > MOST_MEMBERSHIPS:
        raise ValueError(
            f"Expected 'hyperedges' to make groups of at most {MOST_MEMBERSHIPS:,} members all "
            f"together (got {count:,} sets of {size} of {num_nodes} experts). To fix this, take "
            "smaller groups, or draw some of them: hyperedges=jsem_pyg.graph.random_hyperedges("
            f"{num_nodes}, {size}, num_hyperedges=1000)."
        )
    # On the CPU, also where a layer is made on the device "meta", which has no values.
    sets = torch.tensor(list(combinations(range(num_nodes), size)), device="cpu")
    number = torch.arange(len(sets), device="cpu").repeat_interleave(size)
    return torch.stack([sets.flatten(), number])
