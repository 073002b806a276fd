"""Prefetch memory that a loop over a large graph would otherwise wait for."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_BYTE, _INT = ir.IntType(8), ir.IntType(32)
_READ, _KEEP, _DATA = 0, 3, 1  # arguments of llvm.prefetch: keep it in all caches


def emit_prefetch(builder: Any, address: Any) -> None:
    """Prefetch the cache line of an address; harmless for any address."""
    kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INT, _INT, _INT])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    options = (ir.Constant(_INT, n) for n in (_READ, _KEEP, _DATA))
    builder.call(function, [builder.bitcast(address, _BYTE.as_pointer()), *options])


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of `array[index]`, one-dimensional; harmless beyond its end."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        emit_prefetch(builder, builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.int64), emit


prefetch: Any = intrinsic(_prefetch)
