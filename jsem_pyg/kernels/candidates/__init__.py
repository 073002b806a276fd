"""Scores of node pairs of two graphs, from the likely partners of their neighbours.

The compiled ``numba_cpu.neighbor_scores(source, target, column, mass, candidate, bonus, kept)``
computes, for all pairs that have any of it,

    S_ij = sum_kl A_ik M_kl B_lj + bonus_ij

and returns the `kept` largest of every row, largest first:

- source: [N, N] A, a SciPy CSR array, float32, without negative entries;
- target: [K, K] B, likewise, symmetric;
- column [N, m] int32 and mass [N, m] float32: M, m entries a row, none of mass zero counts;
- candidate [N, c] int32 and bonus [N, c] float32: what else is added, of distinct columns a row;
- returned: columns [N, kept] int32, -1 if a row has fewer, and scores [N, kept] float32, -inf
  there. The order of equal scores is not fixed.

and a function ``top_products(left, right, offset, kept)``, which finds the `kept` largest of every
row of ``left @ right + offset``, of the entries that the product has: left [N, P] and right [P, K]
CSR arrays, float32, offset [K] float32, -inf for columns that do not count; returned as above.
"""
