"""Both passes on a tile, a term at a time: the series, and its adjoint (see :mod:`.adjoint`)."""

from typing import Any

from numpy.typing import NDArray

from ..compiled import compiled
from .simd import add_row, adjoint_row, clear_row, copy_row, dot_row, project_row, step_row
from .tiles import BLOCK

Array = NDArray[Any]


@compiled(nogil=True)
def forward(
    matrix: tuple[Array, ...],
    weight: Array,
    terms: tuple[Array, Array],
    result: Array,
    steps: tuple[int, int],
    ahead: tuple[int, ...],
    lanes: tuple[int, ...],
    share: tuple[int, int],
) -> None:
    """Sum Y = sum over k of c_k T_k(S) X on a tile.

    It makes the terms from steps[0] to steps[1] - 1 and adds them to the result.

    T_k lies in terms[k % 2], where T_(k-2) was; T_0 is there already. The result takes three terms
    at a time: when a row of T_k is made, those of T_(k-1) and T_(k-2) are at hand, and what this
    waits for is memory.

    Args:
        matrix: rowptr, col, middle and values.
        weight: [K + 1, S, lanes] the coefficients.
        terms: two tiles, [N * lanes].
        result: [S, N * lanes], overwritten.
        steps: a range of terms.
        ahead: (how many edges ahead neighbours are prefetched,), or () for none.
        lanes: as many zeros as the tile has columns.
        share: (index of this thread, number of threads that share the rows).
    """
    rowptr, col, _, val = matrix
    num_nodes, last = rowptr.size - 1, weight.shape[0] - 1
    scales = weight.shape[1]  # rows of the weights from a term to the next
    for k in range(steps[0], steps[1]):
        term, before = terms[k % 2], terms[(k + 1) % 2]
        waiting = k % 3  # terms that the result has not taken yet
        alpha = 1.0 if k == 1 else 2.0  # T_1 = S T_0, then T_k = 2 S T_(k-1) - T_(k-2)
        takes = waiting == 2 or k == last
        for block in range(share[0] * BLOCK, num_nodes, share[1] * BLOCK):
            for i in range(block, min(block + BLOCK, num_nodes)):
                start, stop = rowptr[i], rowptr[i + 1]
                if takes:
                    for s in range(scales):
                        out, row_k = s * num_nodes + i, k * scales + s
                        if k < 3:
                            clear_row(result, out, lanes)
                        if waiting == 2:
                            add_row(result, weight, term, out, row_k - 2 * scales, i, lanes)
                        if waiting > 0:
                            add_row(result, weight, before, out, row_k - scales, i, lanes)
                if k == 1:
                    clear_row(term, i, lanes)
                if k > 0:
                    step_row(before, term, col, val, start, stop, i, alpha, ahead, lanes)
                if takes:
                    for s in range(scales):
                        add_row(result, weight, term, s * num_nodes + i, k * scales + s, i, lanes)


@compiled(nogil=True)
def backward(
    matrix: tuple[Array, ...],
    weight: Array,
    grad: Array,
    kept: tuple[Array, Array],
    terms: tuple[Array, Array],
    b: tuple[Array, Array],
    edges: Array,
    projection: Array,
    steps: tuple[int, int],
    ahead: tuple[int, ...],
    lanes: tuple[int, ...],
    share: tuple[int, int],
) -> None:
    """Compute B_k for k from steps[1] - 1 down to steps[0], and what follows from it.

    B_k lies in b[k % 2], where B_(k+2) was; T_(k-1) likewise, where T_(k+1) was. One gather of a
    neighbour's rows of B and T serves both products and the gradient of the edge. S is symmetric,
    so only the sum of the gradients of S_ij and S_ji has a meaning: an edge below the diagonal gets
    all of it, the one above it none.

    Args beside those of :func:`.forward`:
        grad: [S, N * lanes] G.
        kept: T_k in kept[k % 2], for the last two k.
        terms: two tiles, [N * lanes], overwritten; no entries if neither the gradient of the edges
            nor that of the coefficients is needed.
        b: two tiles, overwritten.
        edges: [nnz] the gradients of the edges, which are added to.
        projection: [(K + 1) * S * lanes] <G, T_k>, which is added to, in float64; no entries if
            it is not needed.
    """
    rowptr, col, middle, val = matrix
    num_nodes, last = rowptr.size - 1, weight.shape[0] - 1
    scales = weight.shape[1]
    needs_terms = terms[0].size > 0
    for k in range(steps[1] - 1, steps[0] - 1, -1):
        b_k, b_next = b[k % 2], b[(k + 1) % 2]  # B_(k+2), which becomes B_k, and B_(k+1)
        term, t_next = terms[k % 2], terms[(k + 1) % 2]  # T_k, and T_(k+1), which becomes T_(k-1)
        kept_k, kept_before = kept[k % 2], kept[(k + 1) % 2]
        twice = 1.0 if k == 0 else 2.0  # alpha of `AdjointOperator.differentiate`
        for block in range(share[0] * BLOCK, num_nodes, share[1] * BLOCK):
            for i in range(block, min(block + BLOCK, num_nodes)):
                start, stop = rowptr[i], rowptr[i + 1]
                if k == last:
                    clear_row(b_k, i, lanes)
                    clear_row(b_next, i, lanes)
                    if needs_terms:
                        copy_row(kept_k, term, i, lanes)
                        copy_row(kept_before, t_next, i, lanes)
                elif needs_terms:
                    adjoint_row(
                        b_next, b_k, term, t_next, edges, col, val,
                        start, middle[i], stop, i, twice, ahead, lanes,
                    )  # fmt: skip
                    if middle[i] < stop and col[middle[i]] == i:
                        edges[middle[i]] += twice * dot_row(b_next, term, i, lanes)
                else:
                    step_row(b_next, b_k, col, val, start, stop, i, twice, ahead, lanes)
                for s in range(scales):
                    row_k = k * scales + s
                    add_row(b_k, weight, grad, i, row_k, s * num_nodes + i, lanes)
                    if projection.size > 0:
                        project_row(grad, term, projection, s * num_nodes + i, i, row_k, lanes)
