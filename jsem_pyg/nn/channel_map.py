"""The linear map of the channels that convolutions combine with a diffusion.

It is the same for all nodes, so that it may come after the diffusion, or before it if that leaves
fewer columns. Layers call it as a module, so that hooks, adapters and parametrisations take effect.
"""

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.nn.dense.linear import Linear

from .._checks import check_bool, check_positive_int
from .._precision import check_type_of_layer
from ..diffusion.times import check_signal
from .diffusion_time import DiffusionTime


def make_map(
    in_channels: int, out_channels: int, num_scales: int, bias: bool
) -> tuple[Linear, Parameter | None]:
    """Make the map of S scales side by side, and the bias."""
    if isinstance(in_channels, tuple | list):
        raise ValueError(
            "Expected 'in_channels' to be an integer, since diffusion needs an edge's both "
            f"directions, and a bipartite graph has only one (got {in_channels!r})."
        )
    if not isinstance(in_channels, int) or in_channels != -1:
        check_positive_int("in_channels", in_channels)
    check_positive_int("out_channels", out_channels)
    check_bool("bias", bias)
    width = in_channels * num_scales if in_channels > 0 else -1
    lin = Linear(width, out_channels, bias=False, weight_initializer="glorot")
    return lin, Parameter(torch.zeros(out_channels)) if bias else None


def maps_first(
    x: Tensor, lin: Module, out_channels: int, num_scales: int, time: DiffusionTime
) -> bool:
    """Return True if mapping first leaves fewer columns to diffuse, and is possible."""
    if num_scales > 1 or time.num_channels is not None:
        return False  # all scales are mapped together; a time may belong to an input channel
    if getattr(lin, "bias", None) is not None:
        return False  # the bias of a replaced map must not diffuse
    return out_channels < x.size(-1)


def check_channels(
    x: Tensor, lin: Module, in_channels: int, num_scales: int, may_be_sparse: bool = False
) -> None:
    """Raise unless the map takes features of this layout, width and type."""
    is_sparse = x.layout in (torch.sparse_coo, torch.sparse_csr) and x.dim() == 2
    check_signal(x, may_be_sparse=is_sparse and may_be_sparse)
    width = in_channels
    if width < 0:
        width = int(getattr(lin, "in_channels", -1)) // num_scales
    if width > 0 and x.size(-1) != width:
        raise ValueError(
            f"Expected 'x' to have {width} channels, as 'in_channels' says (got {x.size(-1)})."
        )
    check_type_of_layer("x", x, lin)
