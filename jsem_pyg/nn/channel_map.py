"""The linear map of the channels that convolutions combine with a diffusion."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import zeros

from .._checks import check_bool, check_float, check_positive_int
from .._precision import check_type_of_layer
from ..diffusion.filters import Filter
from ..diffusion.times import Times, check_signal
from .heat_layer import HeatLayer, join_scales
from .hooks import has_hooks


class ChannelMap(HeatLayer):
    """A layer with `lin` and `bias`, applied after the diffusion, or before it if that is narrower.

    The map is linear and the same for all nodes, so the order does not matter to the result. `lin`
    is called as a module, so that hooks, adapters and parametrisations of it take effect.
    """

    def _make_map(self, in_channels: int, out_channels: int, bias: bool) -> None:
        _check_channels(in_channels, out_channels)
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

    def check_features(self, x: Tensor) -> None:
        """Raise unless the map takes features of this layout, width and type."""
        check_float("x", x)
        is_sparse = x.layout in (torch.sparse_coo, torch.sparse_csr) and x.dim() == 2
        sees_nodes = getattr(self, "sees_nodes", True)
        check_signal(x, may_be_sparse=is_sparse and not sees_nodes and self._maps_first(x))
        learned = _width(self.lin) // self.num_scales  # by a lazy map, from its first input
        width = self.in_channels if self.in_channels > 0 else learned
        if width > 0 and x.size(-1) != width:
            raise ValueError(
                f"Expected 'x' to have {width} channels, as 'in_channels' says (got {x.size(-1)})."
            )
        check_type_of_layer("x", x, self.lin)

    def map_channels(self, x: Tensor, operator: Any, times: Times | Filter) -> Tensor:
        """Diffuse a signal and map its channels: [..., N, C_in] -> [..., N, C_out]."""
        if not self._maps_first(x):
            out = self.lin(join_scales(self.diffuse(x, operator, times)))
        elif self.num_scales == 1:
            out = self.diffuse(self.lin(x), operator, times).squeeze(-3)
        else:  # each scale of each output is a channel with a time of its own
            columns = F.linear(x, self._map_of_scales(x))
            assert isinstance(times, Times)
            out = self.diffuse(columns, operator, times.by_channel(self.out_channels))
            out = out.squeeze(-3).unflatten(-1, (self.num_scales, self.out_channels)).sum(-2)
        return out if self.bias is None else out + self.bias

    def _maps_first(self, x: Tensor) -> bool:
        """Return True if mapping first leaves fewer columns to diffuse, and is possible."""
        if getattr(self.lin, "bias", None) is not None:
            return False  # the bias of a replaced map must not diffuse
        if self.filter is None and self.time.num_channels is not None:
            return False  # every input channel has a time of its own
        if self.num_scales > 1 and (self.filter is not None or not _is_plain(self.lin)):
            return False  # filters share their products; hooks see all scales at once
        return self.num_scales * self.out_channels < x.size(-1)

    def _map_of_scales(self, x: Tensor) -> Tensor:
        """Return the maps [S C_out, C_in] of all scales, one below the other."""
        if _width(self.lin) < 0:  # a lazy map learns its width from its first input
            self.lin(torch.zeros(0, x.size(-1) * self.num_scales).to(x))
        weight: Tensor = self.lin.weight
        return weight.unflatten(1, (self.num_scales, -1)).transpose(0, 1).flatten(0, 1)

    def _describe(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, {super()._describe()}"


def _check_channels(in_channels: int, out_channels: int) -> None:
    if isinstance(in_channels, tuple | list):
        raise ValueError(
            "Expected 'in_channels' to be an integer, since diffusion needs an edge's both "
            f"directions, and a bipartite graph has only one (got {in_channels!r})."
        )
    if not isinstance(in_channels, int) or isinstance(in_channels, bool) or in_channels != -1:
        check_positive_int("in_channels", in_channels)
    check_positive_int("out_channels", out_channels)


def _width(lin: torch.nn.Module) -> int:
    return int(getattr(lin, "in_channels", -1))


def _is_plain(lin: torch.nn.Module) -> bool:
    """Return True if calling the map only multiplies by its weight."""
    return type(lin) is Linear and not has_hooks(lin) and "weight" in lin._parameters
