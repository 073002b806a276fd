"""The linear map of the channels that convolutions combine with a diffusion."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.nn.inits import zeros

from .._checks import check_bool, check_float, check_positive_int
from .._precision import check_type_of_layer
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
        width = in_channels * self._num_scales if in_channels > 0 else -1
        self.lin = Linear(width, out_channels, bias=False, weight_initializer="glorot")
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the linear map anew, and go back to equal edges and the initial times."""
        super().reset_parameters()
        zeros(self.bias)

    def _run(self, x: Tensor, *given: Any) -> Tensor:
        """[..., N, C_in] -> [..., N, C_out]."""
        check_signal(x, may_be_sparse=self._takes_sparse(x))
        self._check_fit(x)
        times, diffuse = self._prepare(x, *given)
        if not self._maps_first(x):
            return self._map(join_scales(diffuse(x, times=times)))
        if not isinstance(times, Times) or self._num_scales == 1:
            out = diffuse(self.lin(x), times=times).squeeze(-3)
        else:
            scales = zip(self._part_map(x), times.scales(), strict=True)
            parts = [diffuse(F.linear(x, weight), times=time) for weight, time in scales]
            out = torch.cat(parts, -3).sum(-3)
        return out if self.bias is None else out + self.bias

    def _takes_sparse(self, x: Tensor) -> bool:
        """True if the features are sparse, and only the linear map depends on them."""
        check_float("x", x)
        is_sparse = x.layout in (torch.sparse_coo, torch.sparse_csr)
        sees_nodes = getattr(self, "sees_nodes", True)
        return is_sparse and x.dim() == 2 and not sees_nodes and self._maps_first(x)

    def _check_fit(self, x: Tensor) -> None:
        """Raise unless the map takes features of this width and type."""
        learned = _width(self.lin) // self._num_scales  # by a lazy map, from its first input
        width = self.in_channels if self.in_channels > 0 else learned
        if width > 0 and x.size(-1) != width:
            raise ValueError(
                f"Expected 'x' to have {width} channels, as 'in_channels' says (got {x.size(-1)})."
            )
        check_type_of_layer("x", x, self.lin)

    def _maps_first(self, x: Tensor) -> bool:
        """True if mapping first leaves fewer columns to diffuse, and is possible."""
        if self.filter is None and self.time.num_channels is not None:
            return False  # every input channel has a time of its own
        if self.filter is not None and self._num_scales > 1:
            return False  # filters share their products with the graph
        # A map with hooks or another class can only be called on all scales at once.
        can_part = self._num_scales == 1 or _is_plain(self.lin)
        if getattr(self.lin, "bias", None) is not None:
            return False  # the bias of a replaced map must not diffuse
        return can_part and self._num_scales * self.out_channels < x.size(-1)

    def _map(self, x: Tensor) -> Tensor:
        if isinstance(self.lin, Linear) and _is_plain(self.lin) and _width(self.lin) > 0:
            return F.linear(x, self.lin.weight, self.bias)  # the bias in the same pass
        out: Tensor = self.lin(x)
        return out if self.bias is None else out + self.bias

    def _part_map(self, x: Tensor) -> tuple[Tensor, ...]:
        """The S maps [C_out, C_in] of the scales, which stand side by side in `lin`."""
        if _width(self.lin) < 0:  # a lazy map learns its width from its first input
            self.lin(torch.zeros(0, x.size(-1) * self.time.num_scales).to(x))
        weight = cast(Linear, self.lin).weight
        return weight.chunk(self.time.num_scales, dim=1)

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
    """True if calling the map only multiplies by its weight."""
    return type(lin) is Linear and not has_hooks(lin) and "weight" in lin._parameters
