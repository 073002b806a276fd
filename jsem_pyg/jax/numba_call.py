"""A series by the kernel of torch's side on the CPU, called from what XLA has compiled.

XLA's own gathers and scatters are what is slow on a CPU. The call is a `buffer_callback`, which
hands over XLA's memory as it lies. (`pure_callback` puts a copy on the device first, and waits for
it on the very thread that would make it: large signals never returned.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import jax
import numpy as np
import torch
from jax import Array

from ..kernels.chebyshev import RequiredGradients
from ..kernels.table import CHEBYSHEV
from .graph import Pattern
from .operator import Matrix
from .series import Gradients

_CPU = torch.device("cpu")


def numba_obstacle() -> str | None:
    """Why the kernel cannot run, or None."""
    try:
        import_module("jax.experimental.buffer_callback")
    except ImportError:
        return f"JAX {jax.__version__} has no jax.experimental.buffer_callback"
    if jax.default_backend() != "cpu":
        return f"it runs on the CPU, and JAX on {jax.default_backend()!r}"
    return CHEBYSHEV.backends["numba"].obstacle(_CPU)


@dataclass(frozen=True)
class NumbaKernel:
    """Both passes; see :class:`.series.Kernel`."""

    pattern: Pattern

    def evaluate(self, matrix: Matrix, x: Array, coefficients: Array) -> Array:
        """See :class:`.series.Kernel`."""

        def compute(out: Any, *given: Any) -> None:
            _write(out, self._evaluate(*given, keep=False)[0])

        shape = jax.ShapeDtypeStruct((coefficients.shape[1], *x.shape), x.dtype)
        return _call(compute, shape, matrix.values, matrix.diagonal, x, coefficients)

    def evaluate_and_keep(self, matrix: Matrix, x: Array, coefficients: Array) -> tuple[Array, Any]:
        """See :class:`.series.Kernel`. Kept are the tiles of the last two terms."""

        def compute(out: Any, *given: Any) -> None:
            for place, found in zip(out, self._evaluate(*given, keep=True), strict=True):
                _write(place, found)

        kind = torch.float32 if x.dtype == np.float32 else torch.float64
        kept_shape = _kernel().kept_shape(*x.shape, kind)
        shapes = (
            jax.ShapeDtypeStruct((coefficients.shape[1], *x.shape), x.dtype),
            jax.ShapeDtypeStruct(kept_shape, x.dtype),
        )
        return _call(compute, shapes, matrix.values, matrix.diagonal, x, coefficients)

    def differentiate(
        self, matrix: Matrix, kept: Array, coefficients: Array, grad: Array
    ) -> Gradients:
        """See :class:`.series.Kernel`."""

        def compute(out: Gradients, values: Any, diagonal: Any, *given: Any) -> None:
            kept, c, grad = map(_tensor, given)
            operator = self._operator(values, diagonal)
            found = operator.differentiate(
                kept, c[:, :, None], None, grad, RequiredGradients(True, True)
            )
            (of_entries,) = found.values
            self._write_entries(out, of_entries)
            _write(out.x, found.x)
            _write(out.coefficients, found.coefficients[:, :, 0])

        like = Gradients(matrix.values, matrix.diagonal, grad[0], coefficients)
        shapes = jax.tree.map(lambda each: jax.ShapeDtypeStruct(each.shape, each.dtype), like)
        return _call(compute, shapes, matrix.values, matrix.diagonal, kept, coefficients, grad)

    def _evaluate(
        self, values: Any, diagonal: Any, x: Any, c: Any, *, keep: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        operator = self._operator(values, diagonal)
        return operator.evaluate(_tensor(x), _tensor(c)[:, :, None], None, keep)

    def _operator(self, values: Any, diagonal: Any) -> Any:
        on_diagonal = None if diagonal is None else _tensor(diagonal)
        return self.pattern.structure.make_matrix(_tensor(values), on_diagonal, "numba")

    def _write_entries(self, out: Gradients, of_entries: torch.Tensor) -> None:
        """Write the gradient of all entries, in the order of the kernel, where each belongs."""
        if out.diagonal is None:
            _write(out.values, of_entries)
            return
        _, order = self.pattern.structure.csr_with_diagonal
        apart = torch.empty_like(of_entries).index_copy_(0, order.long(), of_entries)
        size = self.pattern.structure.num_slots
        _write(out.values, apart[:size])
        _write(out.diagonal, apart[size:])


def _kernel() -> Any:
    return CHEBYSHEV.find("numba", _CPU).SparseOperator


def _call(compute: Callable[..., None], shapes: Any, *arguments: Array | None) -> Any:
    """Call `compute(out, *arguments)` on XLA's buffers; `out` is made as `shapes` say."""
    from jax.experimental.buffer_callback import buffer_callback

    def callback(context: Any, out: Any, *given: Any) -> None:
        compute(out, *given)

    @jax.custom_jvp
    def call(*arguments: Array | None) -> Any:
        return buffer_callback(callback, shapes, vmap_method="sequential")(*arguments)

    call.defjvp(_refuse)
    return call(*arguments)


def _refuse(primals: Any, tangents: Any) -> NoReturn:
    raise NotImplementedError(
        "Expected 'backend' to be 'reference' or 'xla' for second derivatives (got 'numba', the "
        "'auto' of a CPU)."
    )


def _tensor(buffer: Any) -> torch.Tensor:
    return torch.from_dlpack(buffer)


def _write(buffer: Any, value: torch.Tensor) -> None:
    np.asarray(buffer)[...] = value.numpy()
