r"""One pass over an entropic transport plan whose scores have low rank; the plan is not stored.

Every backend has the function ``sinkhorn_pass`` of :mod:`~.torch_rows`: row potentials, column
masses, averages and peaks of T_ij = 2^(u_i . v_j + f_i + g_j), where f follows from the rows.

===========  =====================================================  ===========
"torch"      tiles of rows: the definition, also of batches         any device
"numba"      tiles in the cache, vectorised exponentials, compiled  CPU
"triton"     online softmax, no atomics                             CUDA
===========  =====================================================  ===========
"""

from .result import SinkhornPass

__all__ = ["SinkhornPass"]
