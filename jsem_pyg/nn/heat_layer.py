"""The base of all diffusion layers: times or a filter, options, and a reader of graphs."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset

from .._checks import check_bool, check_instance
from ..diffusion.filters import Filter
from ..diffusion.options import HeatOptions
from ..diffusion.times import Times, check_signal, read_times, shape_times
from ..graph.prepare import GraphReader
from .diffusion_time import DiffusionTime


class HeatLayer(torch.nn.Module):
    """Abstract base of the layers on graphs, hypergraphs and complexes.

    A layer's `forward` checks the signal, reads what comes with it, makes an operator of that, and
    calls `transform`; :class:`.ChannelMap` makes a layer map channels as well.
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
        """Set times and conductances to their start, and draw a linear map anew."""
        for part in self.children():
            reset(part)

    @property
    def t(self) -> Tensor:
        """The diffusion times, > 0: 0-d, [S] scales or [S, D] scales and channels."""
        times: Tensor = self.time()
        return times

    @property
    def num_scales(self) -> int:
        """The number S of results for each channel."""
        return self.time.num_scales if self.filter is None else self.filter.num_filters or 1

    def times(self, x: Tensor) -> Times | Filter:
        """Return the filter, or the times for signals like x."""
        if self.filter is not None:
            return self.filter
        if torch.compiler.is_compiling():  # which has no values to check
            return Times(shape_times(self.t, x.size(-1)), 0.0)
        return read_times(self.t, x.size(-1))

    def check_features(self, x: Tensor, sees_nodes: bool = True) -> None:
        """Raise unless the layer takes a signal like x."""
        check_signal(x)

    def transform(self, x: Tensor, diffuse: Callable[[Tensor], Tensor]) -> Tensor:
        """Diffuse to [..., S, N, D], and bring the scales side by side: [..., N, S D]."""
        return diffuse(x).transpose(-3, -2).flatten(-2)

    def _describe(self) -> str:
        return f"{self._describe_times()}, normalization={self.options.normalization}"

    def _describe_times(self) -> str:
        return f"t={self.time}" if self.filter is None else f"filter={self.filter!r}"

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self._describe()})"
