"""Operator and signal -> diffused or filtered signal."""

from collections.abc import Sequence

from torch import Tensor

from ..operators import HeatOperator, Operator
from .evolve import evolve
from .filters import Filter, FilterBank
from .options import HeatOptions
from .times import check_signal, read_times, squeeze_scales


def diffuse(
    x: Tensor,
    operator: Operator | HeatOperator,
    t: float | Tensor | Filter | Sequence[Filter] = 1.0,
    *,
    degree: int | None = None,
    tol: float = 1e-6,
) -> Tensor:
    r"""Diffuse or filter a signal by any operator, such as one of your own: f(L) x.

    By default exp(-t (I - S)) x.

    Args:
        x: [..., N, D] signals; leading dimensions are batches.
        operator: S, a :class:`~jsem_pyg.operators.Operator`, symmetric with its spectrum in
            [-1, 1]; or a :class:`~jsem_pyg.operators.HeatOperator`, which holds S and
            the scaling between S and the Laplacian.
        t: diffusion time >= 0: a number or 0-d tensor, [S] scales, or [S, D] scales and channels;
            or a filter of :mod:`jsem_pyg.diffusion.filters`, or several, which share all products.
        degree: the number of products with S. None: the smallest that `tol` allows.
        tol: the relative error allowed, see :func:`~jsem_pyg.diffusion.heat_diffusion`.

    Returns:
        A tensor like `x`; [..., S, N, D] if `t` has scales or several filters.

    Example:
        >>> import torch
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
    options = HeatOptions(degree, tol)
    if isinstance(t, Filter):
        out = evolve(x, heat, t, options)
        return out if t.num_filters else out.squeeze(-3)
    if isinstance(t, list | tuple) and t and all(isinstance(each, Filter) for each in t):
        return evolve(x, heat, FilterBank(*t), options)
    if isinstance(t, Sequence):
        raise TypeError(
            "Expected 't' to be a time, a tensor of times, a filter or a list of filters "
            f"(got {type(t).__name__})."
        )
    return squeeze_scales(evolve(x, heat, read_times(t, x.size(-1)), options), t)
