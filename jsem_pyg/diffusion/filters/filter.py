"""The base of all filters, and several filters that share their products."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_instance
from ...graph.reader import GraphReader
from ...kernels.torch_func import eager
from ...operators import HeatOperator
from ..evolve import evolve, heat_operator
from ..filter_coefficients import cosine_coefficients, eigenvalue_samples
from ..options import HeatOptions
from ..times import MARGIN, check_signal
from .number import Number

_READER = GraphReader(keeps=False)
_SLOPES = 256  # samples of each kind, at and between which a filter's slope is measured
_STEP = 1e-6  # of a difference quotient, relative


class Filter(torch.nn.Module):
    """The base class of filters: one or several functions of the Laplacian's eigenvalues.

    Numbers that a filter is made of may be `torch.nn.Parameter`, which the filter then learns (see
    :class:`FromFunction`), or any 0-d tensors: gradients flow to them.

    Attributes:
        num_filters: S, or None for one filter without an axis of its own.
    """

    num_filters: int | None = None

    @torch.no_grad()
    def slope(self, rate: float) -> float:
        """Return the largest slope over [0, 2 r], times r and relative to the largest value.

        That of the heat is its time, in units of the rate. Rounding changes eigenvalues in
        proportion to r, and results by the slope times as much: so it decides in which type they
        are computed.
        """
        # Evenly and ever closer to zero, where functions of large eigenvalues may be steep as well.
        share = torch.logspace(-7, 0, _SLOPES, dtype=torch.float64, device="cpu")
        near = share * 2 * rate
        even = eigenvalue_samples(rate, _SLOPES)
        at = torch.cat([torch.zeros_like(near[:1]), near, even]).sort().values
        values, before = self._values(at), self._values(at * (1 - _STEP))
        slopes = (values.diff(dim=1) / at.diff()).abs().nan_to_num(0, 0, 0)
        # Between samples a function may rise and fall.
        local = ((values - before) / (_STEP * at)).abs().nan_to_num(0, 0, 0)
        steepest = torch.maximum(slopes.amax(), local.amax())
        return float(rate * steepest / values.abs().amax().clamp(min=1e-300))

    @property
    def _learned(self) -> list[Tensor]:
        """The numbers of the filter that require a gradient."""
        numbers = (v for part in self.modules() for v in vars(part).values())
        given = (v for v in numbers if isinstance(v, Tensor))
        return [each for each in (*self.parameters(), *given) if each.requires_grad]

    @abstractmethod
    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), for eigenvalues [...] of the Laplacian: [...], or [S, ...]."""

    @eager
    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        *,
        degree: int | None = None,
        tol: float = 1e-6,
        normalization: str | None = "sym",
        backend: str = "auto",
        self_loop: float = 0.0,
        node_mass: Tensor | None = None,
    ) -> Tensor:
        """Filter a signal x [..., N, D] on a graph: f(L) x, or [..., S, N, D] of several filters.

        Arguments are those of :func:`~jsem_pyg.diffusion.heat_diffusion`, and the weight of a loop
        that every node gets before the normalisation. `tol` is relative to the filter's largest
        value and to x.
        """
        check_signal(x)
        options = HeatOptions(degree, tol, normalization, backend, self_loop)
        structure, weight = _READER.read(edge_index, x, edge_weight)
        operator = heat_operator(structure, weight, x.dtype, self, options, node_mass=node_mass)
        out = evolve(x, operator, self, options)
        return out if self.num_filters else out.squeeze(-3)

    def coefficients(
        self, operator: HeatOperator, dtype: torch.dtype, options: HeatOptions
    ) -> Tensor:
        """Compute the coefficients [K + 1, S, 1] of the series, in float64, on the CPU."""
        bound = max(MARGIN * options.tol, torch.finfo(dtype).eps / 2) / operator.condition
        if self._learned:
            bound = bound / 10  # derivatives in parameters converge later than the function
        found = self._series(operator.rate, options.degree, bound)
        return _lengthen(found, operator.matrix._agree_on_terms(len(found))).unsqueeze(-1)

    def at_zero(self) -> Tensor:
        """Return f(0) [S], by which constant signals and isolated nodes are multiplied."""
        return self._values(torch.zeros(1, dtype=torch.float64, device="cpu")).reshape(-1)

    def reset_parameters(self) -> None:
        """Go back to the first values of what the filter learns; your own parameters stay."""
        for part in self.children():
            if isinstance(part, Filter):
                part.reset_parameters()
            elif isinstance(part, Number) and part.raw is not None:
                torch.nn.init.zeros_(part.raw)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def _series(self, rate: float, degree: int | None, bound: float) -> Tensor:
        return cosine_coefficients(self._values, rate, degree, bound, self._learned, repr(self))

    def _values(self, eigenvalue: Tensor) -> Tensor:
        """Evaluate the functions at [M] -> [S, M] in float64, on the CPU."""
        values = self.response(eigenvalue).to("cpu", torch.float64)
        return values.reshape(self.num_filters or 1, *eigenvalue.shape)


class FilterBank(Filter):
    """Applies several filters at once, which share all products with the graph.

    Args:
        filters: each with one or several functions.

    Attributes:
        parts: the filters.
    """

    def __init__(self, *filters: Filter) -> None:
        super().__init__()
        for each in filters:
            check_instance("filters", each, Filter, "filters")
        self.parts = torch.nn.ModuleList(filters)
        self.num_filters = sum(each.num_filters or 1 for each in filters)

    def slope(self, rate: float) -> float:
        """Return the largest of the filters, each relative to its own largest value."""
        return max((each.slope(rate) for each in self._filters()), default=0.0)

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        values = [each.response(eigenvalue) for each in self._filters()]
        return torch.cat([each.reshape(-1, *eigenvalue.shape) for each in values])

    def reset_parameters(self) -> None:
        """Go back to the first values of learned filters."""
        for each in self._filters():
            each.reset_parameters()

    def extra_repr(self) -> str:
        """Name the filters."""
        return ", ".join(map(repr, self._filters()))

    def _filters(self) -> list[Filter]:
        return list(self.parts)  # type: ignore[arg-type]

    def _series(self, rate: float, degree: int | None, bound: float) -> Tensor:
        parts = [each._series(rate, degree, bound) for each in self._filters()]
        longest = max(map(len, parts))
        return torch.cat([_lengthen(each, longest) for each in parts], dim=1)


def _lengthen(coefficients: Tensor, count: int) -> Tensor:
    """Append zeros to a series [K + 1, S] up to a number of terms."""
    shape = count - len(coefficients), *coefficients.shape[1:]  # torch 2.5 pads nothing empty
    return torch.cat([coefficients, coefficients.new_zeros(shape)])
