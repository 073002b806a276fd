"""The series on a tile: Y = sum over k of c_k T_k(S) X, a term at a time."""

from typing import Any

from numpy.typing import NDArray

from ..compiled import compiled
from .simd import add_row, clear_row, step_row
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
    """Compute the terms from steps[0] to steps[1] - 1 and add them to the result.

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
