"""The Frank-Wolfe algorithm (conditional gradient) on the Gromov-Wasserstein objective.

Entropic and proximal plans are close to a good plan, but their marginals are never exact. Those of
a Frank-Wolfe step are: it solves a linear transport problem exactly, and the solution is a vertex
of the polytope of plans. From a good plan, two or three steps are enough.

===========  =========================================================  ==========
"reference"  NumPy, and linear programs by SciPy's HiGHS                any device
"numba"      shortest augmenting paths, compiled, a pair at a time      CPU
===========  =========================================================  ==========
"""

from ..table import FRANK_WOLFE
from .result import Descent

__all__ = ["FRANK_WOLFE", "Descent"]
