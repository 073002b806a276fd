"""Diffusion times that are positive by construction, and what layers do with them."""

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import Parameter
from torch_geometric.nn.inits import reset

from .._checks import check_bool, check_instance, check_positive, real_numbers
from ..diffusion.filters import Filter
from ..diffusion.times import Times, read_times, refuse_jit


class DiffusionTime(torch.nn.Module):
    r"""One or several learnable times :math:`t = t_0 \, e^{r u} > 0`.

    The parameter u starts at zero, so that weight decay draws a time back to where it began. A step
    of an optimiser such as Adam moves u by the learning rate, and so t by the part r of that: free
    times run ahead of the other weights, to what is best for the training nodes alone.

    Args:
        t: the initial time :math:`t_0 > 0`: a number, a list or [S] tensor of scales, or an [S, D]
            tensor with a time for every scale and channel.
        learn: whether u is learned.
        rate: r > 0.
    """

    def __init__(
        self, t: float | Sequence[float] | Tensor, learn: bool = True, rate: float = 0.5
    ) -> None:
        super().__init__()
        check_bool("learn", learn)
        check_positive("rate", rate)
        start = initial_times("t", t)
        self.initial = start.tolist()
        self.rate = rate
        self.raw = Parameter(torch.empty(start.shape), requires_grad=learn)
        # Saved with u, which means nothing without it.
        self.register_buffer("start", torch.empty(start.shape))
        self.start: Tensor
        self.reset_parameters()

    @property
    def num_scales(self) -> int:
        """The number S of scales; 1 for a single time."""
        return self.raw.size(0) if self.raw.dim() else 1

    @property
    def num_channels(self) -> int | None:
        """The number D of channels, if every channel has a time of its own, else None."""
        return self.raw.size(1) if self.raw.dim() == 2 else None

    def reset_parameters(self) -> None:
        """Set the times to the initial ones."""
        with torch.no_grad():
            self.start.copy_(torch.tensor(self.initial, dtype=torch.float64, device="cpu"))
            self.raw.zero_()

    def set(self, t: float | Tensor) -> None:
        """Take other times > 0 of the same shape; `reset_parameters` undoes it."""
        times = real_numbers("t", t).detach()
        if times.shape != self.start.shape:
            raise ValueError(
                f"Expected 't' to have shape {list(self.start.shape)}, as the initial times (got "
                f"{list(times.shape)})."
            )
        _check_range("t", times, self.start.dtype)
        with torch.no_grad():
            self.raw.copy_((times.to(self.start) / self.start).log() / self.rate)

    def forward(self) -> Tensor:
        """Return the times: 0-d, [S] or [S, D]."""
        return self.start * torch.exp(self.rate * self.raw)

    def __prepare_scriptable__(self) -> NoReturn:  # what torch.jit.script looks for in a layer
        refuse_jit("torch.jit.script, which cannot read the code of the layers")

    def __repr__(self) -> str:
        return f"DiffusionTime({self})"

    def __str__(self) -> str:
        return str(self.initial if self.num_channels is None else list(self.raw.shape))


def read_layer_times(time: DiffusionTime, filter: Filter | None, width: int) -> Times | Filter:
    """Return the filter of a layer, or its times for signals of so many channels."""
    return read_times(time(), width) if filter is None else filter


# Every layer has these: a property or method of its class.
times_of_layer: Any = property(
    lambda layer: layer.time(),
    doc="The diffusion times, > 0: 0-d, [S] scales or [S, D] scales and channels.",
)
number_of_scales: Any = property(
    lambda layer: layer.time.num_scales if layer.filter is None else layer.filter.num_filters or 1,
    doc="The number S of results for each channel.",
)


def reset_parts(layer: torch.nn.Module) -> None:
    """Set times, weights and conductances to their start, and draw linear maps anew."""
    for part in layer.children():
        reset(part)


def join_scales(out: Tensor) -> Tensor:
    """Bring scales side by side: [..., S, N, D] -> [..., N, S D]."""
    return out.transpose(-3, -2).flatten(-2)


def check_filter(filter: Filter | None) -> None:
    """Raise a TypeError unless a layer gets a filter, or none."""
    if filter is not None:
        check_instance("filter", filter, Filter, "a filter of jsem_pyg.diffusion.filters")


def describe_times(time: DiffusionTime, filter: Filter | None) -> str:
    """Describe the times or the filter of a layer, as its `repr` does."""
    return f"t={time}" if filter is None else f"filter={filter!r}"


def initial_times(name: str, t: float | Sequence[float] | Tensor) -> Tensor:
    """Check times and return them in float64, on the CPU (also for a layer made on "meta")."""
    start = real_numbers(name, t).detach().to("cpu", torch.float64)
    if start.dim() > 2 or start.numel() == 0:
        raise ValueError(
            f"Expected '{name}' to be a number, a list or tensor of S scales, or an [S, D] tensor "
            f"of scales and channels (got shape {list(start.shape)})."
        )
    _check_range(name, start, torch.get_default_dtype())
    return start


def _check_range(name: str, times: Tensor, dtype: torch.dtype) -> None:
    """Raise unless times are positive and finite in the type that they are kept in."""
    kept = times.to(dtype)
    if not bool(((kept > 0) & kept.isfinite()).all()):
        raise ValueError(
            f"Expected '{name}' to be positive and finite in {dtype} (got {times.tolist()})."
        )
