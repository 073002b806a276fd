"""From plans to better ones: exact descent of the Gromov-Wasserstein objective, pair by pair.

Entropic and proximal plans are close to a good plan, but never satisfy their marginals exactly. The
conditional gradient does: every step solves a linear transport problem to the last bit, whose
solution is a vertex of the polytope of plans. Begun at a good plan, two or three steps are enough.

===========  =========================================================  ==========
"reference"  NumPy, and linear programs by SciPy's HiGHS                any device
"numba"      shortest augmenting paths, compiled, a pair at a time      CPU
===========  =========================================================  ==========
"""

from ..table import VERTICES
from .result import Descent

__all__ = ["VERTICES", "Descent"]
