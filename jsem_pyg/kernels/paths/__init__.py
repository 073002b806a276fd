"""Shortest paths from one node to all others, on the CPU.

Every backend has a function ``distances(rowptr, col, length, source, out)``:

- rowptr [N + 1] and col [nnz], of a symmetric pattern, both int32 or both int64;
- length [nnz], float64, finite, non-negative;
- source: a node;
- out: [N], float64, where the lengths of the shortest paths go, infinite where there is none.
"""

from ..table import Backend, KernelFamily, no_obstacle, numba_obstacle

PATHS = KernelFamily(
    {
        "scipy": Backend(f"{__name__}.scipy_paths", no_obstacle),
        "numba": Backend(f"{__name__}.numba_paths", numba_obstacle),
    },
    {"cpu": ("numba",)},
    fallback="scipy",
)

__all__ = ["PATHS"]
