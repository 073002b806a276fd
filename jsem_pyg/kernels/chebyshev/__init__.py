r"""Polynomials of a sparse symmetric matrix, applied to columns: sum over k of c_k T_k(S) X.

Every backend has the signature of :func:`~.reference.chebyshev_series`:

``(csr, values [nnz], x [N, M], coefficients [K + 1, S, groups, channels], group) -> [S, N, M]``

for S scales, with one coefficient for each term, scale, group of rows (`group` [N] names the row's
group, None means a single one) and column (`channels` is 1 or M). All are differentiable in
`values`, `x` and `coefficients`. The adjoint relies on the symmetry of S, so that of the gradient
in `values` only the sum over (i, j) and (j, i) has a meaning.
"""
