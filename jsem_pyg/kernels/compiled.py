"""numba's compiler, whose results are kept on disk where they can be, and prefetching for it.

A cache on disk saves a process half a minute, and nothing depends on it: a problem with it (a
read-only folder, a full disk, a damaged file) is logged once, and costs the time of compiling,
never the result.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

_log = logging.getLogger(__name__)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a function for numba to compile (options of `njit`), cached on disk if possible."""

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = njit(**options)(function)
        try:
            kernel._cache = _cache_of(function)  # as its `enable_caching` does
        except (RuntimeError, OSError) as error:  # no folder to write to, no source to compare with
            _log_once("made", error)
        return kernel

    return decorate


def _cache_of(function: Callable[..., Any]) -> FunctionCache:
    """Make numba's cache of a function, which runs without it as well."""
    found: Any = FunctionCache(function)
    found._cache_file._source_stamp = (found._cache_file._source_stamp, _stamp_of_all())
    # Reading a damaged file may raise anything, and nothing could be saved in its place; writing, a
    # folder that has gone, a full disk, a damaged index.
    found.load_overload = _harmless(found.load_overload, "read", found.flush)
    found.save_overload = _harmless(found.save_overload, "written", lambda: None)
    return found


def _harmless(
    attempt: Callable[..., Any], trouble: str, mend: Callable[[], None]
) -> Callable[..., Any]:
    """Return a function whose errors are logged and mended; its result is then None."""

    def outside(*args: Any) -> Any:
        try:
            return attempt(*args)
        except Exception as error:
            _log_once(trouble, error)
            with suppress(OSError):
                mend()
            return None

    return outside


@cache
def _stamp_of_all() -> bytes:
    """Hash the code of all kernels: numba does not look for changes in what it inlines."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return sha256(b"".join(each.read_bytes() for each in files)).digest()


_logged: set[str] = set()


def _log_once(trouble: str, error: Exception) -> None:
    if trouble not in _logged:
        _logged.add(trouble)
        _log.warning(
            "numba's cache of the compiled kernels cannot be %s (%s: %s): they are compiled anew, "
            "which may take a minute. If this happens every time, set the environment variable "
            "NUMBA_CACHE_DIR to a folder that can be written to.",
            trouble,
            type(error).__name__,
            error,
        )


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
