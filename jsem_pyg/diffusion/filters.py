r"""Filters: functions f of the Laplacian, evaluated for a signal as f(L) x.

A filter is data: a function of an eigenvalue, with parameters that may be learned. All of them are
evaluated by one Chebyshev series, whose degree follows from the tolerance
(:mod:`jsem_pyg.diffusion.filter_coefficients`), and several filters share its products
(Hammond, Vandergheynst and Gribonval 2011, "Wavelets on graphs via spectral graph theory").
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._checks import check_choice, check_instance, check_positive, check_positive_int
from .._precision import compute_dtype
from ..graph.prepare import GraphReader
from ..operators import HeatOperator, laplacian_operator
from .evolve import MARGIN, evolve, sum_series
from .filter_coefficients import cosine_coefficients, eigenvalue_samples
from .heat import heat_operator
from .heat_coefficients import LONGEST
from .options import HeatOptions
from .precision import check_precision
from .times import check_signal

__all__ = [
    "Filter",
    "FilterBank",
    "FromFunction",
    "Heat",
    "Learned",
    "LowPass",
    "PersonalizedPageRank",
    "Resolvent",
    "Wavelets",
]

_READER = GraphReader(size=0)
_SLOPES = 256  # samples of each kind, at and between which a filter's slope is measured
_STEP = 1e-6  # of a difference quotient, relative
_HIDDEN = ("training", "value", "num_filters", "parts")  # no arguments of a filter


class Filter(torch.nn.Module):
    """Abstract base of the filters, S functions of the Laplacian's eigenvalues.

    Numbers that a filter is made of may be `torch.nn.Parameter`, or any 0-d tensors: gradients
    flow to them.

    Attributes:
        num_filters: S, or None for one filter without an axis of its own.
    """

    num_filters: int | None = None

    @torch.no_grad()
    def reach(self, fastest: float) -> float:
        """The largest slope over [0, 2 r], times the rate r and relative to the largest value.

        That of the heat is its time, in units of the rate. Rounding changes eigenvalues in
        proportion to r, and results by so many times as much: so it decides in which type they are
        computed.
        """
        # Evenly and ever closer to zero, where functions of large eigenvalues may be steep as well.
        near = torch.logspace(-7, 0, _SLOPES, dtype=torch.float64).unsqueeze(1) * 2 * fastest
        even = eigenvalue_samples(torch.full((1,), fastest, dtype=torch.float64), _SLOPES)
        at = torch.cat([torch.zeros_like(near[:1]), near, even]).sort(0).values
        values, before = self._values(at), self._values(at * (1 - _STEP))
        slopes = (values.diff(dim=1) / at.diff(dim=0)).abs().nan_to_num(0, 0, 0)
        # Between samples a function may rise and fall.
        local = ((values - before) / (_STEP * at)).abs().nan_to_num(0, 0, 0)
        steepest = torch.maximum(slopes.amax(), local.amax())
        return float(fastest * steepest / values.abs().amax().clamp(min=1e-300))

    @property
    def learns(self) -> bool:
        """True if a number of the filter requires a gradient."""
        numbers = (v for part in self.modules() for v in vars(part).values())
        given = (v for v in numbers if isinstance(v, Tensor))
        return any(each.requires_grad for each in (*self.parameters(), *given))

    @abstractmethod
    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), for eigenvalues [...] of the Laplacian: [...], or [S, ...]."""

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
        """Filter a signal on a graph: f(L) x.

        Args:
            x: [..., N, D] signals.
            edge_index: the graph, as in :func:`~jsem_pyg.diffusion.heat_diffusion`.
            edge_weight: [E] non-negative weights, the same in both directions; None: ones.
            degree: the number of products with S; None: the smallest that `tol` allows.
            tol: the error allowed, relative to the filter's largest value and to x.
            normalization: "sym", "rw" or None.
            backend: what evaluates the series.
            self_loop: the weight of a loop that every node gets before the normalisation.
            node_mass: [N] masses, see :func:`~jsem_pyg.diffusion.heat_diffusion`.

        Returns:
            A tensor like `x`; [..., S, N, D] of several filters.
        """
        check_signal(x)
        options = HeatOptions(degree, tol, normalization, backend, self_loop).for_graph(edge_index)
        structure, weight = _READER.read(edge_index, x, edge_weight)
        make = partial(laplacian_operator, node_mass=node_mass)
        operator = heat_operator(structure, weight, x, self.reach, options, make=make)
        out = evolve(x, operator, self, options)
        return out if self.num_filters else out.squeeze(-3)

    def coefficients(
        self, x: Tensor, operator: HeatOperator, options: HeatOptions
    ) -> tuple[Tensor, Tensor | None]:
        """The coefficients [K + 1, S, G, 1] of the series, and the group [N] of each node."""
        scaling = operator.scaling
        dtype = compute_dtype(x) if operator.dtype is None else operator.dtype
        steepness = min(self.reach(scaling.rates[1]), LONGEST)
        check_precision(x, scaling, steepness, dtype, options)
        one = torch.ones(1, dtype=torch.float64)
        rate = one if scaling.rate is None else scaling.rate.detach().cpu().double()
        bound = max(MARGIN * options.tol, torch.finfo(dtype).eps / 2) / scaling.condition
        if self.learns:
            bound = bound / 10  # derivatives in parameters converge later than the function
        found = self._series(rate, options.degree, bound)
        if scaling.isolated is None:
            return found.to(x.device, dtype), scaling.group
        kept = torch.zeros_like(found)
        kept[0] = self.at_zero().reshape(-1, 1, 1)
        both = torch.cat([found, kept], dim=2)
        return both.to(x.device, dtype), scaling.isolated.long()

    def at_zero(self) -> Tensor:
        """f(0) [S], by which constant signals and isolated nodes are multiplied."""
        return self._values(torch.zeros(1, 1, dtype=torch.float64)).reshape(-1)

    def reset_parameters(self) -> None:
        """Go back to the first values of learned filters; parameters that were given stay."""
        for part in self.children():
            if isinstance(part, Filter):
                part.reset_parameters()

    def __repr__(self) -> str:
        given = {**vars(self), **self._parameters, **self._modules}
        shown = {k: v for k, v in given.items() if k[0] != "_" and k not in _HIDDEN}
        return f"{type(self).__name__}({', '.join(f'{k}={_show(v)}' for k, v in shown.items())})"

    def _series(self, rate: Tensor, degree: int | None, bound: float) -> Tensor:
        return cosine_coefficients(self._values, rate, degree, bound)

    def _values(self, eigenvalue: Tensor) -> Tensor:
        """[M, G] -> [S, M, G] in float64, on the CPU."""
        values = self.response(eigenvalue).to("cpu", torch.float64)
        return values.reshape(self.num_filters or 1, *eigenvalue.shape)


class Heat(Filter):
    r""":math:`e^{-t \lambda}`: diffusion for the time t. Law: f_s f_t = f_(s + t).

    Args:
        t: > 0.
    """

    def __init__(self, t: float | Tensor = 1.0) -> None:
        super().__init__()
        self.t = _positive("t", t)

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        return torch.exp(-_like(self.t, eigenvalue) * eigenvalue)


class PersonalizedPageRank(Filter):
    r""":math:`\alpha / (\alpha + (1 - \alpha) \lambda)`: random walks that restart.

    The limit of `APPNP` for many steps: with L = I - S,
    :math:`\alpha (I - (1 - \alpha) S)^{-1}`. Law: :math:`f \cdot (\alpha I + (1 - \alpha) L) =
    \alpha I`; with "rw" rows of f sum to one, and no entry is negative.

    Args:
        alpha: probability of a restart, in (0, 1].

    Source: Gasteiger, Bojchevski and Günnemann 2019, "Predict then propagate", equation 3.
    """

    def __init__(self, alpha: float | Tensor = 0.1) -> None:
        super().__init__()
        self.alpha = _positive("alpha", alpha)
        if float(self.alpha.detach()) > 1:
            raise ValueError(
                f"Expected 'alpha' to be in (0, 1] (got {float(self.alpha.detach())})."
            )

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        alpha = _like(self.alpha, eigenvalue)
        return alpha / (alpha + (1 - alpha) * eigenvalue)


class Resolvent(Filter):
    r""":math:`1 / (1 + t \lambda)`: one implicit step of diffusion (Tikhonov's smoothing).

    Law: f (I + t L) = I; no entry is negative.

    Args:
        t: > 0.
    """

    def __init__(self, t: float | Tensor = 1.0) -> None:
        super().__init__()
        self.t = _positive("t", t)

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        return 1 / (1 + _like(self.t, eigenvalue) * eigenvalue)


class LowPass(Filter):
    r""":math:`1 / (1 + (\lambda / c)^{2 p})`: Butterworth's filter.

    Law: f(0) = 1, f(c) = 1/2, decreasing.

    Args:
        cutoff: c > 0.
        order: p, how steep it is; an integer.
    """

    def __init__(self, cutoff: float | Tensor, order: int = 2) -> None:
        super().__init__()
        check_positive_int("order", order)
        self.cutoff, self.order = _positive("cutoff", cutoff), order

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        return 1 / (1 + (eigenvalue / _like(self.cutoff, eigenvalue)) ** (2 * self.order))


class Wavelets(Filter):
    r"""A low pass and a wavelet for each scale, a tight frame: :math:`\sum_s f_s^2 = 1`.

    So :math:`\sum_s ||f_s(L) x||^2 = ||x||^2` for symmetric L, and :meth:`synthesize` inverts the
    analysis. The low pass is first, then wavelets from the largest scale to the smallest.

    Args:
        scales: times > 0. A wavelet of the scale t answers mostly eigenvalues about 1 / t.
        kind: "mexican_hat", :math:`t \lambda e^{-t \lambda}` (Hammond et al. 2011, section 8),
            divided by the root of the sum of all squares; or "meyer", bands that overlap only with
            the next (Leonardi and Van De Ville 2013, "Tight wavelet frames on multislice graphs"),
            between powers of one ratio: `scales` are a geometric sequence. Its series is long,
            since its third derivative jumps: take a `tol` of 1e-3.
    """

    def __init__(self, scales: Sequence[float] | Tensor, kind: str = "mexican_hat") -> None:
        super().__init__()
        check_choice("kind", kind, ("mexican_hat", "meyer"))
        self.scales = _positive("scales", scales, 1)
        self.kind, self.num_filters = kind, self.scales.numel() + 1
        step = self.scales.detach().double().sort().values.log().diff()
        if kind == "meyer" and not torch.allclose(step, step[:1], rtol=1e-5):
            raise ValueError(
                "Expected 'scales' of Meyer's wavelets to be a geometric sequence "
                f"(got {self.scales.tolist()})."
            )

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        scales = _like(self.scales, eigenvalue).sort(descending=True).values
        if self.kind == "meyer":
            return _meyer(eigenvalue, scales)
        scaled = scales.reshape(-1, *[1] * eigenvalue.dim()) * eigenvalue
        # The low pass is as high as a wavelet's peak, and ends where the first wavelet rises.
        low = -1 - (scaled[:1] / 0.6) ** 4
        high = scaled.clamp_min(1e-300).log() - scaled
        return torch.exp(torch.cat([2 * low, 2 * high]).log_softmax(0) / 2)

    def synthesize(self, y: Tensor, operator: HeatOperator, tol: float = 1e-6) -> Tensor:
        """Return the signal [..., N, D] of wavelet coefficients [..., S, N, D].

        It is the adjoint of the analysis, in the inner product that L is symmetric in, and its
        inverse, since the frame is tight.
        """
        options = HeatOptions(tol=tol)
        check_signal(y, "y")
        check_instance("operator", operator, HeatOperator, "a HeatOperator")
        sizes = (self.num_filters, operator.num_nodes)
        if y.shape[-3:-1] != sizes:
            raise ValueError(
                f"Expected 'y' to have shape [..., {sizes[0]}, {sizes[1]}, D], of the filters and "
                f"nodes (got {list(y.shape)})."
            )
        coefficients, group = self.coefficients(y, operator, options)
        parts = zip(y.unbind(-3), coefficients.split(1, 1), strict=True)
        return torch.cat([sum_series(part, operator, c, group) for part, c in parts], -3).sum(-3)


def _meyer(eigenvalue: Tensor, scales: Tensor) -> Tensor:
    """Bands between 1 / t of neighbouring scales, in the logarithm of the eigenvalue."""
    edges = (1 / scales).log()
    width = (edges[1:] - edges[:-1]).mean() if len(edges) > 1 else edges.new_tensor(1.0)
    at = (eigenvalue.clamp_min(1e-300).log() - edges.reshape(-1, *[1] * eigenvalue.dim())) / width
    u = at.clamp(0, 1)
    ramp = u**4 * (35 - 84 * u + 70 * u**2 - 20 * u**3)
    up, down = torch.sin(torch.pi / 2 * ramp), torch.cos(torch.pi / 2 * ramp)
    return torch.cat([down[:1], up[:-1] * down[1:], up[-1:]])


class FromFunction(Filter):
    """Any function of the eigenvalue.

    Args:
        function: maps eigenvalues, a float64 tensor, to values of the same shape, by torch's
            operations. The smoother it is, the shorter is its series.
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        if not callable(function):
            raise TypeError(f"Expected 'function' to be callable (got {type(function).__name__}).")
        self.function = function

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        values: Tensor = self.function(eigenvalue)
        return values


class Learned(Filter):
    r"""A polynomial of S whose values at K + 1 Chebyshev points are parameters.

    .. math::
        f = \sum_k c_k T_k(S), \qquad
        c_k = \frac{2 - [k = 0]}{K + 1} \sum_j \gamma_j T_k(s_j), \qquad
        s_j = \cos \frac{\pi (j + 1/2)}{K + 1}

    Values, unlike coefficients, keep the polynomial bounded by what is learned (He, Wei and Wen
    2022, "Convolutional neural networks on graphs with Chebyshev approximation, revisited",
    equation 8). Law: f is the polynomial through the values. Where L = r (I - S) with another rate
    r than one (1/2 on hypergraphs, a bound of the spectrum without normalisation), f is a function
    of :math:`\lambda / r`.

    Args:
        degree: K.
        start: the filter that it is at first; None: the identity.
    """

    def __init__(self, degree: int = 10, start: Filter | None = None) -> None:
        super().__init__()
        check_positive_int("degree", degree)
        if start is not None:
            check_instance("start", start, Filter, "a filter or None")
        self.degree, self.start = degree, start
        self.value = torch.nn.Parameter(torch.empty(degree + 1))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Go back to the first filter."""
        half = torch.pi * (torch.arange(self.degree + 1, dtype=torch.float64) + 0.5)
        eigenvalue = 2 * (half / (2 * self.degree + 2)).sin().square()
        start = torch.ones_like(eigenvalue)
        self.value.copy_(start if self.start is None else self.start.response(eigenvalue))

    def response(self, eigenvalue: Tensor) -> Tensor:
        """The polynomial, for eigenvalues in [0, 2], those of normalised Laplacians."""
        c = self._chebyshev().to(eigenvalue)
        s = 1 - eigenvalue
        last, out = torch.zeros_like(s), torch.zeros_like(s)
        for each in c.flip(0)[:-1]:
            last, out = out, 2 * s * out - last + each  # Clenshaw 1955
        return s * out - last + c[0]

    def reach(self, fastest: float) -> float:
        """See :class:`Filter`; of a function of the eigenvalue over the rate."""
        return super().reach(1.0)

    def _chebyshev(self) -> Tensor:
        count = self.degree + 1
        k = torch.arange(count, dtype=torch.float64)
        cosines = torch.cos(torch.pi / count * k.unsqueeze(1) * (k + 0.5)) * 2 / count
        cosines[0] /= 2
        return cosines @ self.value.to("cpu", torch.float64)

    def _series(self, rate: Tensor, degree: int | None, bound: float) -> Tensor:
        return self._chebyshev().reshape(-1, 1, 1, 1).expand(-1, 1, len(rate), 1)


class FilterBank(Filter):
    """Several filters, whose series share all products.

    Args:
        filters: each with one or several functions.
    """

    def __init__(self, *filters: Filter) -> None:
        super().__init__()
        for each in filters:
            check_instance("filters", each, Filter, "filters")
        self.parts = filters
        for at, each in enumerate(filters):
            self.add_module(str(at), each)
        self.num_filters = sum(each.num_filters or 1 for each in filters)

    def reach(self, fastest: float) -> float:
        """The largest of the filters, each relative to its own largest value."""
        return max((each.reach(fastest) for each in self.parts), default=0.0)

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return f(lambda), see :class:`Filter`."""
        values = [each.response(eigenvalue) for each in self.parts]
        shape = eigenvalue.shape
        return torch.cat([each.reshape(-1, *shape) for each in values])

    def _series(self, rate: Tensor, degree: int | None, bound: float) -> Tensor:
        parts = [each._series(rate, degree, bound) for each in self.parts]
        longest = max(map(len, parts))
        padded = [torch.nn.functional.pad(c, (0,) * 7 + (longest - len(c),)) for c in parts]
        return torch.cat(padded, dim=1)


def _positive(name: str, value: Any, dim: int = 0) -> Any:
    """A number, or a tensor as it is, where it is positive and has so many dimensions."""
    if not isinstance(value, Tensor):
        if dim > 0:
            check_instance(name, value, (list, tuple), "a list or a tensor of numbers")
        for each in value if dim > 0 else (value,):
            check_positive(name, each)
        value = torch.tensor(value, dtype=torch.float64)
    if value.dim() != dim or value.numel() == 0 or not value.is_floating_point():
        what = "a number or a 0-d tensor" if dim == 0 else "a list or a tensor [S] of numbers"
        raise ValueError(f"Expected '{name}' to be {what} (got shape {list(value.shape)}).")
    if not bool(((value > 0) & value.isfinite()).all()):
        raise ValueError(f"Expected '{name}' to be positive and finite (got {value.tolist()}).")
    return value


def _show(value: object) -> object:
    return value.tolist() if isinstance(value, Tensor) else value


def _like(value: Tensor, eigenvalue: Tensor) -> Tensor:
    return value.to(eigenvalue)
