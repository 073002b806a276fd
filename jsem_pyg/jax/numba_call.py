"""Call the numba kernel of torch's side from what XLA has compiled for the CPU.

XLA's own gathers and scatters are what is slow on a CPU. The call is a `buffer_callback`, which
hands over XLA's memory as it lies. (`pure_callback` puts a copy on the device first, and waits for
it on the very thread that would make it: large signals never returned.)
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import jax
import numpy as np
import torch
from jax import Array
from jax.experimental.buffer_callback import buffer_callback

from ..kernels.chebyshev import RequiredGradients
from ..kernels.table import CHEBYSHEV
from .graph import Pattern

_CPU = torch.device("cpu")


def numba_obstacle() -> str | None:
    """Return the reason why the kernel cannot run, or None."""
    if jax.default_backend() != "cpu":
        return f"it runs on the CPU, and JAX on {jax.default_backend()!r}"
    return None


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def numba_series(
    pattern: Pattern, values: Array, diagonal: Array | None, x: Array, coefficients: Array
) -> Array:
    """Sum a series as :func:`.operator.series`, for a matrix of these entries and diagonal."""
    return _evaluate(pattern, values, diagonal, x, coefficients, keep=False)[0]


def _forward(
    pattern: Pattern, values: Array, diagonal: Array | None, x: Array, coefficients: Array
) -> tuple[Array, tuple[Any, ...]]:
    """Sum, and keep the tiles of the last two terms, from which the recurrence runs backwards."""
    out, kept = _evaluate(pattern, values, diagonal, x, coefficients, keep=True)
    return out, (values, diagonal, kept, coefficients)


def _backward(pattern: Pattern, residuals: tuple[Any, ...], grad: Array) -> tuple[Any, ...]:
    def compute(context: Any, out: Any, values: Any, diagonal: Any, *given: Any) -> None:
        kept, c, grad = map(_tensor, given)
        needed = RequiredGradients(True, True)
        found = _operator(pattern, values, diagonal).differentiate(kept, c, grad, needed)
        _write_entries(pattern, out[:2], found.values[0])
        _write(out[2], found.x)
        _write(out[3], found.coefficients)

    values, diagonal, _, coefficients = residuals
    shapes = jax.tree.map(_shape, (values, diagonal, grad[0], coefficients))
    return _call(compute, shapes, *residuals, grad)


numba_series.defvjp(_forward, _backward)


def _evaluate(
    pattern: Pattern, values: Array, diagonal: Array | None, x: Array, c: Array, keep: bool
) -> list[Array]:
    """Sum the series; return what the backward pass needs as well if it is to be kept."""

    def compute(context: Any, out: Any, values: Any, diagonal: Any, x: Any, c: Any) -> None:
        operator = _operator(pattern, values, diagonal)
        found = operator.evaluate(_tensor(x), _tensor(c), keep)
        for place, each in zip(out, found, strict=False):
            _write(place, each)

    shapes = [jax.ShapeDtypeStruct((c.shape[1], *x.shape), x.dtype)]
    if keep:
        kind = torch.float32 if x.dtype == np.float32 else torch.float64
        kept = CHEBYSHEV.find("numba", _CPU).SparseOperator.kept_shape(*x.shape, kind)
        shapes.append(jax.ShapeDtypeStruct(kept, x.dtype))
    return _call(compute, shapes, values, diagonal, x, c)


def _operator(pattern: Pattern, values: Any, diagonal: Any) -> Any:
    on_diagonal = None if diagonal is None else _tensor(diagonal)
    return pattern.structure.make_matrix(_tensor(values), on_diagonal, "numba")


def _write_entries(pattern: Pattern, out: Any, of_entries: torch.Tensor) -> None:
    """Write the gradient of all entries, in the order of the kernel, where each belongs."""
    values, diagonal = out
    if diagonal is not None:
        _, order = pattern.structure.csr_with_diagonal
        apart = torch.empty_like(of_entries).index_copy_(0, order.long(), of_entries)
        of_entries, on_diagonal = apart.tensor_split([pattern.structure.num_slots])
        _write(diagonal, on_diagonal)
    _write(values, of_entries)


def _call(compute: Callable[..., None], shapes: Any, *arguments: Array | None) -> Any:
    """Call `compute(context, out, *arguments)` on XLA's buffers; `out` has these shapes."""

    @jax.custom_jvp
    def call(*arguments: Array | None) -> Any:
        return buffer_callback(compute, shapes, vmap_method="sequential")(*arguments)

    call.defjvp(_refuse)
    return call(*arguments)


def _refuse(primals: Any, tangents: Any) -> NoReturn:
    raise NotImplementedError(
        "Expected 'backend' to be 'xla' for second derivatives (got 'numba', the 'auto' of a CPU)."
    )


def _shape(each: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(each.shape, each.dtype)


def _tensor(buffer: Any) -> torch.Tensor:
    return torch.from_dlpack(buffer)


def _write(buffer: Any, value: torch.Tensor) -> None:
    np.asarray(buffer)[...] = value.numpy()
