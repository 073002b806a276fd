"""The Chebyshev series of an operator's heat kernel: where every diffusion comes together."""

import logging
import math
from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from .._checks import check_float, numbers_of, real_numbers
from .._precision import compute_dtype, full_precision
from ..operators import HeatOperator, Operator
from .heat_coefficients import heat_coefficients, heat_degree, truncation_bound
from .options import Accuracy
from .precision import check_precision, longest_time

_log = logging.getLogger(__name__)

# The series is cut at a hundredth of the tolerance: its error is proportional to the signal that
# goes in, and this keeps it below `tol` relative to what comes out, as long as diffusion leaves a
# hundredth of the signal's norm. It costs two or three terms.
_MARGIN = 0.01

# (operator, columns [N, M], coefficients, group) -> [S, N, M]
SeriesOf = Callable[[Operator, Tensor, Tensor, Tensor | None], Tensor]


def diffuse(
    x: Tensor,
    operator: Operator | HeatOperator,
    t: float | Tensor = 1.0,
    *,
    degree: int | None = None,
    tol: float = 1e-6,
) -> Tensor:
    r"""Diffuse a signal by any operator, such as one of your own: exp(-t (I - S)) x.

    Args:
        x: [..., N, D] signals; leading dimensions are batches.
        operator: S, a :class:`~jsem_pyg.operators.Operator`, symmetric with its spectrum in
            [-1, 1]; or a :class:`~jsem_pyg.operators.HeatOperator`, which also says how the
            Laplacian is made of S.
        t: diffusion time >= 0: a number or 0-d tensor, [S] scales, or [S, D] scales and channels.
        degree: the number of products with S. None: the smallest that `tol` allows.
        tol: the relative error allowed, see :func:`~jsem_pyg.diffusion.heat_diffusion`.

    Returns:
        A tensor like `x`; [..., S, N, D] if `t` has scales.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if the sizes do not fit, or a number is out of its range.

    Example:
        >>> from jsem_pyg.operators import Operator
        >>> class Ring(Operator):
        ...     num_nodes = 4
        ...
        ...     def apply(self, x):
        ...         return (x.roll(1, 0) + x.roll(-1, 0)) / 2
        >>> diffuse(torch.eye(4), Ring(), t=100.0)[0]
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    check_signal(x)
    if not isinstance(operator, Operator | HeatOperator):
        raise TypeError(
            "Expected 'operator' to be an Operator or a HeatOperator "
            f"(got {type(operator).__name__})."
        )
    heat = operator if isinstance(operator, HeatOperator) else HeatOperator(operator)
    if heat.num_nodes != x.size(-2):
        raise ValueError(
            f"Expected 'x' to have {heat.num_nodes} nodes, as 'operator' (got {x.size(-2)})."
        )
    out = evolve(x, heat, diffusion_times(t, x), Accuracy(degree, tol))
    return squeeze_scales(out, t)


class HeatSeries(NamedTuple):
    """The Chebyshev series of a heat flow, which every signal of its shape shares."""

    coefficients: Tensor  # [K + 1, S, G, 1 or D]
    group: Tensor | None  # [N] the G groups of nodes; None: a single one

    def columns(self, chosen: slice) -> "HeatSeries":
        """The series of some of the D channels."""
        if self.coefficients.size(-1) == 1:
            return self
        return self._replace(coefficients=self.coefficients[..., chosen])


def evolve(
    x: Tensor,
    operator: HeatOperator,
    t: Tensor,
    accuracy: Accuracy,
    series: SeriesOf | None = None,
    learns_t: bool = False,
) -> Tensor:
    """Diffuse [..., N, D] by an operator, for times t [S, 1 or D] -> [..., S, N, D].

    Batches fold into the columns, since the operator acts on each column by itself. `series` is
    what evaluates it, where that is not the operator's own way; `learns_t` asks for as many terms
    as a derivative in t needs, also where t itself does not say that there will be one.
    """
    return evaluate(x, operator, heat_series(x, operator, t, accuracy, learns_t), series)


def heat_series(
    x: Tensor, operator: HeatOperator, t: Tensor, accuracy: Accuracy, learns_t: bool = False
) -> HeatSeries:
    """The series of :func:`evolve`, for signals of the type and the device of x."""
    scaling = operator.scaling
    dtype = compute_dtype(x) if operator.dtype is None else operator.dtype
    check_precision(x, scaling, t, dtype, accuracy)
    learns_t = learns_t or t.requires_grad
    coefficients = _coefficients(operator, t, accuracy, dtype, learns_t).to(x.device)
    if scaling.isolated is None:
        return HeatSeries(coefficients, scaling.group)
    return HeatSeries(_with_identity(coefficients), scaling.isolated.long())


def evaluate(
    x: Tensor, operator: HeatOperator, heat: HeatSeries, series: SeriesOf | None = None
) -> Tensor:
    """Sum the series for a signal [..., N, D] -> [..., S, N, D]."""
    batch, (num_nodes, channels) = x.shape[:-2], x.shape[-2:]
    row_scale = operator.scaling.row_scale
    coefficients, group = heat
    signal = x.to(coefficients.dtype)
    if row_scale is not None:
        signal = row_scale.unsqueeze(-1) * signal
    columns = signal.movedim(-2, 0).reshape(num_nodes, math.prod(batch) * channels)
    if coefficients.size(-1) > 1:
        coefficients = coefficients.repeat(1, 1, 1, math.prod(batch))
    with full_precision(x.device):
        arguments = (columns, coefficients, group)
        if series is None:
            out = operator.matrix.series(*arguments)
        else:
            out = series(operator.matrix, *arguments)
    out = out.reshape(coefficients.size(1), num_nodes, *batch, channels).movedim((0, 1), (-3, -2))
    if row_scale is not None:
        out = out / row_scale.unsqueeze(-1)
    return out.to(x.dtype)


def _with_identity(coefficients: Tensor) -> Tensor:
    """[K + 1, S, 1, C] -> [K + 1, S, 2, C]: the second group of nodes keeps its features."""
    identity = torch.zeros_like(coefficients)
    identity[0] = 1
    return torch.cat([coefficients, identity], dim=2)


def _coefficients(
    operator: HeatOperator, t: Tensor, accuracy: Accuracy, dtype: torch.dtype, learns_t: bool
) -> Tensor:
    """[K + 1, S, G, C] coefficients, for as many terms as asked or as the tolerance needs."""
    times = t.unsqueeze(1)
    if operator.scaling.rate is not None:
        times = times * operator.scaling.rate.cpu().double().unsqueeze(-1)
    longest = longest_time(t) * operator.scaling.fastest()
    num_terms = accuracy.degree
    if num_terms is None:
        bound = max(_MARGIN * accuracy.tol, torch.finfo(dtype).eps / 2)
        bound /= operator.scaling.condition()
        if learns_t:
            # At short times what is cut grows 1 / t times as fast as it is large; and x itself, the
            # first term, is precise enough at the shortest, but its derivative, -L x, is not.
            num_terms = max(heat_degree(longest, bound * min(longest, 1.0)), 1)
        else:
            num_terms = heat_degree(longest, bound)
    elif (error := truncation_bound(longest, num_terms)) > 1e-2:
        _log.warning(
            "degree=%d is too low for t = %.3g: the result can be wrong by %.2g of the signal's "
            "norm. degree=None finds a degree that is high enough.",
            num_terms,
            longest,
            error,
        )
    return heat_coefficients(times, num_terms).to(dtype)


def check_signal(x: Tensor) -> None:
    """Raise unless `x` is a dense floating-point tensor of shape [..., N, D]."""
    check_float("x", x)
    if x.layout != torch.strided:
        raise ValueError(
            f"Expected 'x' to be dense, since heat soon fills every row (got {x.layout}). To fix "
            "this, pass x.to_dense(), or map the features to fewer channels first."
        )
    if x.dim() < 2:
        raise ValueError(f"Expected 'x' to have shape [..., N, D] (got {list(x.shape)}).")


def diffusion_times(t: float | Tensor, x: Tensor, name: str = "t") -> Tensor:
    """Check diffusion times and bring them to the shape [S, 1 or D], in float64 on the CPU.

    The number of terms and the Bessel functions are computed there; some devices have no float64.
    """
    if isinstance(t, float | int) and not isinstance(t, bool):
        # Not `as_tensor`, for which torch.compile would make new code for every number.
        times = torch.zeros((), dtype=torch.float64) + t
    else:
        times = real_numbers(name, t)
    is_empty = times.dim() > 0 and times.size(0) == 0
    is_other_width = times.dim() == 2 and times.size(1) not in (1, x.size(-1))
    if is_empty or is_other_width or times.dim() > 2:
        raise ValueError(
            f"Expected '{name}' to be a number, [S] scales or [S, D] scales and channels, with "
            f"D = {x.size(-1)} (got shape {list(times.shape)})."
        )
    times = times.cpu().double()
    # A compiler has no values to look at: there the registered op comes here once more.
    if not torch.compiler.is_compiling():
        values = numbers_of(times)
        if not bool(((values >= 0) & values.isfinite()).all()):
            raise ValueError(f"Expected '{name}' to be finite and >= 0 (got {values.tolist()}).")
    return times if times.dim() == 2 else times.reshape(-1, 1)


def check_single_time(t: float | Tensor) -> None:
    """Raise a ValueError where `t` names several times."""
    shape = real_numbers("t", t).shape
    if len(shape) > 0:
        raise ValueError(
            f"Expected 't' to be a number or a 0-d tensor, a single time (got {list(shape)})."
        )


def squeeze_scales(out: Tensor, t: float | Tensor) -> Tensor:
    """[..., S, N, D] -> [..., N, D] where `t` is a single time and so names no scales."""
    return out.squeeze(-3) if is_single(t) else out


def is_single(t: float | Tensor) -> bool:
    """Whether `t` is one time and names no scales."""
    return t.dim() == 0 if isinstance(t, Tensor) else isinstance(t, Real)
