"""The base of all diffusion layers: times, options, and how a signal passes through them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._checks import check_bool, check_instance
from ..diffusion.filters import Filter
from ..diffusion.options import HeatOptions
from ..diffusion.times import Times, check_signal, read_times
from ..graph.prepare import GraphReader
from .diffusion_time import DiffusionTime

# (signal [..., N, D], times=Times | Filter) -> [..., S, N, D]
Diffuse = Callable[..., Tensor]


class HeatLayer(torch.nn.Module):
    """Abstract base of the layers on graphs, hypergraphs and complexes.

    A kind of layer says by :meth:`_prepare` what it diffuses by; everything else is here, and in
    :class:`.ChannelMap` for the layers that also map channels.
    """

    time: DiffusionTime
    options: HeatOptions

    def _make_heat(
        self,
        t: float | Sequence[float] | Tensor,
        learn_t: bool,
        options: HeatOptions,
        rate: float = 0.5,
        filter: Filter | None = None,
    ) -> None:
        check_bool("learn_t", learn_t)
        if filter is not None:
            check_instance("filter", filter, Filter, "a filter of jsem_pyg.diffusion.filters")
        self.time = DiffusionTime(t, learn_t and filter is None, rate)
        self.filter = filter
        self.options = options
        self._reader = GraphReader()

    def reset_parameters(self) -> None:
        """Go back to the initial times and to equal edges, and draw a linear map anew."""
        for part in self.children():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):  # which the user's own parts may lack
                reset()

    @property
    def t(self) -> Tensor:
        """The diffusion times, > 0: 0-d, [S] scales or [S, D] scales and channels."""
        times: Tensor = self.time()
        return times

    @property
    def _num_scales(self) -> int:
        return self.time.num_scales if self.filter is None else self.filter.num_filters or 1

    def _read_times(self, x: Tensor, t: Tensor | None = None) -> Times | Filter:
        """The filter, or the times, of the layer or as they are given."""
        return read_times(self.t if t is None else t, x) if self.filter is None else self.filter

    def _prepare(self, x: Tensor, *given: Any) -> tuple[Times | Filter, Diffuse]:
        """Read what comes with the signal, and make the operator, precise enough for the times."""
        raise NotImplementedError

    def _run(self, x: Tensor, *given: Any) -> Tensor:
        """[..., N, D] -> [..., N, S D]: the result of every scale, side by side."""
        check_signal(x)
        times, diffuse = self._prepare(x, *given)
        return join_scales(diffuse(x, times=times))

    def _describe(self) -> str:
        return f"{self._describe_times()}, normalization={self.options.normalization}"

    def _describe_times(self) -> str:
        return f"t={self.time}" if self.filter is None else f"filter={self.filter!r}"

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._describe()})"


def join_scales(out: Tensor) -> Tensor:
    """[..., S, N, D] -> [..., N, S D]."""
    return out.transpose(-3, -2).flatten(-2)
