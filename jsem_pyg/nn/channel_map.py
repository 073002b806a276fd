"""The linear map of the channels that convolutions combine with a diffusion."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import zeros

from .._checks import check_bool, check_float, check_positive_int
from .._precision import check_type_of_layer
from ..diffusion.times import check_signal
from .heat_layer import HeatLayer


class ChannelMap(HeatLayer):
    """A layer with `lin` and `bias`, applied after the diffusion, or before it if that is narrower.

    The map is the same for all nodes, so the order does not matter to the result. `lin` is called
    as a module, so that hooks, adapters and parametrisations of it take effect.
    """

    def _make_map(self, in_channels: int, out_channels: int, bias: bool) -> None:
        if isinstance(in_channels, tuple | list):
            raise ValueError(
                "Expected 'in_channels' to be an integer, since diffusion needs an edge's both "
                f"directions, and a bipartite graph has only one (got {in_channels!r})."
            )
        if not isinstance(in_channels, int) or in_channels != -1:
            check_positive_int("in_channels", in_channels)
        check_positive_int("out_channels", out_channels)
        check_bool("bias", bias)
        self.in_channels, self.out_channels = in_channels, out_channels
        width = in_channels * self.num_scales if in_channels > 0 else -1
        self.lin = Linear(width, out_channels, bias=False, weight_initializer="glorot")
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the linear map anew, and go back to equal edges and the initial times."""
        super().reset_parameters()
        zeros(self.bias)

    def check_features(self, x: Tensor, sees_nodes: bool = True) -> None:
        """Raise unless the map takes features of this layout, width and type."""
        check_float("x", x)
        is_sparse = x.layout in (torch.sparse_coo, torch.sparse_csr) and x.dim() == 2
        check_signal(x, may_be_sparse=is_sparse and not sees_nodes and self.maps_first(x))
        width = int(getattr(self.lin, "in_channels", -1)) // self.num_scales
        if self.in_channels > 0:
            width = self.in_channels
        if width > 0 and x.size(-1) != width:
            raise ValueError(
                f"Expected 'x' to have {width} channels, as 'in_channels' says (got {x.size(-1)})."
            )
        check_type_of_layer("x", x, self.lin)

    def maps_first(self, x: Tensor) -> bool:
        """Return True if mapping first leaves fewer columns to diffuse, and is possible."""
        if self.num_scales > 1 or self.time.num_channels is not None:
            return False  # all scales are mapped together; a time may belong to an input channel
        if getattr(self.lin, "bias", None) is not None:
            return False  # the bias of a replaced map must not diffuse
        return self.out_channels < x.size(-1)

    def transform(self, x: Tensor, diffuse: Callable[[Tensor], Tensor]) -> Tensor:
        """Diffuse and map, the narrower of the two first: [..., N, C_in] -> [..., N, C_out]."""
        if self.maps_first(x):
            out = diffuse(self.lin(x)).squeeze(-3)
        else:
            out = self.lin(super().transform(x, diffuse))
        return out if self.bias is None else out + self.bias

    def _describe(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, {super()._describe()}"
