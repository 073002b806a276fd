"""Shortest paths from one node to all others, on the CPU.

Every backend has a function ``distances(rowptr, col, length, source, out)``:

- rowptr [N + 1] and col [nnz], of a symmetric pattern, both int32 or both int64;
- length [nnz], float64, finite, non-negative;
- source: a node;
- out: [N], float64, where the lengths of the shortest paths go, infinite where there is none.
"""

from ..table import PATHS

__all__ = ["PATHS"]
